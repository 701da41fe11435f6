"""What a saved model's file says of the records that it was trained on."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from dpeer.training.privacy_origin import Origin
from dpeer.training.store import write_model

VALUES = {"a": torch.arange(3.0), "b.é": torch.zeros(2, dtype=torch.int64), "empty": torch.zeros(0)}


@pytest.mark.parametrize("values", [VALUES, {}])
@pytest.mark.parametrize("origin", [*Origin, None])
def test_a_file_says_it_and_its_bytes_are_always_the_same(
    origin: Origin | None, values: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """Always: safetensors writes two entries of metadata in an order that it draws."""
    contents = set()
    for number in range(30):
        path = tmp_path / f"{number}.safetensors"
        write_model(values, path, origin)
        contents.add(path.read_bytes())
    assert len(contents) == 1
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["format"] == "pt", "transformers loads no other files"
        assert Origin.of_file(file.metadata()) is origin
    found = load_file(path)
    assert found.keys() == values.keys()
    assert all(torch.equal(found[name], value) for name, value in values.items())


def test_what_a_file_does_not_say_and_what_a_later_version_says() -> None:
    assert Origin.of_file(None) is None
    assert Origin.of_file({"format": "pt"}) is None
    assert Origin.of_file({"dpeer_privacy": "sample with something new"}) is Origin.NONE


@pytest.mark.parametrize(
    ("client", "sample", "post", "own"),
    [
        (False, False, False, Origin.NONE),
        (True, False, False, Origin.CLIENT),
        (False, True, False, None),
        (False, True, True, Origin.POST),
    ],
)
def test_what_first_weights_tell_stays_in_the_model(client: bool, sample: bool, post: bool, own: Origin | None) -> None:
    order = [None, *Origin]
    for first in order:
        found = Origin.of_run(client=client, sample=sample, post=post, first=first)
        assert order.index(found) == max(order.index(own), order.index(first))
