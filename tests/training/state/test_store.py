"""What a learner saved: the copy that is written, and reading it without torch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dpeer.training import build_learner
from dpeer.training.state.file_names import REST, TENSORS, saved_body
from dpeer.training.state.store import Origin, write_model, write_tensors
from tests.training.small import small_task


def test_the_body_is_the_last_states_bit_by_bit(tmp_path: Path) -> None:
    task = small_task()
    task.validation = task.test
    ours = build_learner(task, "dfedmdc", rank=0, seed=1, keep="best")
    ours.evaluate()
    ours.train(0)
    ours.save(tmp_path)
    found = saved_body(tmp_path)
    assert (found.dtype, found.tobytes()) == (np.float32, ours.body.numpy().tobytes())


def test_a_copy_stays_as_it_is_while_the_learner_goes_on_and_the_next_has_its_memory(tmp_path: Path) -> None:
    ours = build_learner(small_task(), "ditto", rank=0, seed=1)
    copies = []
    for number in range(2):
        ours.train(number)
        expected = tmp_path / f"expected-{number}"
        expected.mkdir()
        ours.save(expected)
        save, last = ours.copied(), ours.checkpoints.room
        ours.train(number + 1)
        found = tmp_path / f"found-{number}"
        found.mkdir()
        save(found)
        for name in (TENSORS, REST):
            assert (found / name).read_bytes() == (expected / name).read_bytes()
        assert not torch.equal(last["last/body"], ours.body)
        copies.append({name: tensor.data_ptr() for name, tensor in last.items()})
        ours.load(found)
    assert copies[0] == copies[1]


# Files of tensors, written without copies: the same as the library's.


TYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip


def tensors() -> dict[str, torch.Tensor]:
    """One of each type, and shapes that are odd."""
    found = {f"part.{index}": torch.arange(3 + index).to(dtype) for index, dtype in enumerate(TYPES)}
    return found | {
        "ünit": torch.ones(2, 3),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "b/y": torch.ones(1),
    }


@pytest.mark.parametrize("metadata", [{}, {"format": "pt"}])
def test_a_file_is_the_librarys_to_the_byte(metadata: dict[str, str], tmp_path: Path) -> None:
    write_tensors(tensors(), tmp_path / "ours", metadata)
    save_file(tensors(), tmp_path / "theirs", metadata=metadata or None)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


# What a saved model's file says of the records that it was trained on.


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
    ("client", "sample", "at_home", "own"),
    [
        (False, False, False, Origin.NONE),
        (True, False, False, Origin.CLIENT),
        (False, True, False, None),
        (False, True, True, Origin.POST),
    ],
)
def test_what_first_weights_tell_stays_in_the_model(
    client: bool, sample: bool, at_home: bool, own: Origin | None
) -> None:
    order = [None, *Origin]
    for first in order:
        found = Origin.of_run(client=client, sample=sample, at_home=at_home, first=first)
        assert order.index(found) == max(order.index(own), order.index(first))
