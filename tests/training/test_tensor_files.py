"""Files of tensors, written without copies: the same as the library's."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dpeer.training.store import write_tensors

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


def test_views_of_one_vector_and_transposed_ones_are_written_each_by_itself(tmp_path: Path) -> None:
    vector = torch.arange(12.0)
    given = {"one": vector[:6].view(2, 3), "tied": vector[:6].view(2, 3), "turned": vector[6:].view(2, 3).t()}
    write_tensors(given, tmp_path / "file", {"b": "1", "a": "2"})
    found = load_file(tmp_path / "file")
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        assert torch.equal(found[name], tensor)
    assert b'{"__metadata__":{"b":"1","a":"2"}' in (tmp_path / "file").read_bytes(), "in the order given"
