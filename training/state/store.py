"""State of a learner on disk, tensors in safetensors and JSON, bit for bit; and the writer of safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from dpeer.atomic import replacing
from dpeer.exceptions import CheckpointError, TaskError, describe
from dpeer.training.payload import little_endian
from dpeer.training.state.file_names import REST, TENSORS

_ORIGIN = "dpeer_privacy"
"""Its key in a file's metadata."""

_FIRST = "dpeer_federated"
"""The key of the prefix of the federated model's names in the file of a blend, which holds another model, too."""


class Origin(StrEnum):
    """How a model whose records are not protected came about, the worst last.

    A private run that begins from such a model (``--init-from``) would not protect its records. So the metadata of its
    file name the origin, where programs that load the tensors do not mind it.
    """

    NONE = "none"
    """By a run without privacy, or from a file of one."""
    CLIENT = "client"
    """By a run that protected messages, and its model at home not at all."""
    POST = "sample with dp-head post"
    """By a run that protected records in all that left the peer, and trained at home without noise at the end."""

    @classmethod
    def of_run(cls, *, client: bool, sample: bool, at_home: bool, first: Origin | None) -> Origin | None:
        """That of the model of a run; None where it protects each record. What first weights tell of theirs stays."""
        own = cls.CLIENT if client else cls.NONE if not sample else cls.POST if at_home else None
        return max(filter(None, (own, first)), key=list(cls).index, default=None)

    @classmethod
    def of_file(cls, metadata: Mapping[str, str] | None) -> Origin | None:
        """The origin in a file's metadata; None without one. A word of a later version promises nothing."""
        value = (metadata or {}).get(_ORIGIN)
        if value is None:
            return None
        return cls(value) if value in list(cls) else cls.NONE


_TYPES = {
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64", torch.float32: "F32",
    torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16", torch.float16: "F16", torch.uint16: "U16",
    torch.int16: "I16", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""The format's names of types, in the order in which tensors lie in a file: so that each is aligned."""

_ORDER = {dtype: place for place, dtype in enumerate(_TYPES)}


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors as the library safetensors does, to the byte; equal ones give equal bytes.

    The library takes no two that share memory, as views of one vector do and tied parameters: here each is written.

    Raises:
        OSError: The file cannot be written.
        TaskError: A tensor has a type that the format does not know.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _TYPES:
            raise TaskError(f"the model's {name!r} has type {tensor.dtype}, which a safetensors file cannot hold")
    names = sorted(tensors, key=lambda name: (_ORDER[tensors[name].dtype], name.encode()))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name in names:
        tensor = tensors[name]
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end],
        }  # fmt: skip
        offset = end
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for name in names:
            file.write(little_endian(tensors[name]))


def load_state(directory: Path, expected: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a learner's state: the tensors by name, and the JSON values, of which some must be as expected.

    Raises:
        CheckpointError: A file is missing or damaged, or the checkpoint is of another run.
    """
    try:
        rest = json.loads((directory / REST).read_text(encoding="utf-8"))
        for key, value in expected.items():
            if rest[key] != value:
                raise CheckpointError(
                    f"the checkpoint in {directory} is of another run: its {key} is {_short(rest[key])}, "
                    f"this run's is {_short(value)}"
                )
        return load_file(directory / TENSORS), rest
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint in {directory} cannot be read: {describe(error)}") from error


def _short(value: Any) -> str:
    """A value as a short text: of a manifest only its size, because the line would else hold every parameter."""
    if isinstance(value, dict) and "count" in value:
        return f"one of {value['count']} parameters in {len(value.get('parameters', ()))} tensors"
    return json.dumps(value)


def federated_prefix(metadata: Mapping[str, str] | None) -> str:
    """The prefix of the federated model's names in a file with this metadata; empty unless it is of a blend."""
    return (metadata or {}).get(_FIRST, "")


def write_model(values: Mapping[str, Any], path: Path, origin: Origin | None = None, *, blend: bool = False) -> None:
    """Write a model's state to a safetensors file in one step; equal values give equal bytes.

    `origin` says what the file states of the records; of a `Blend` the first member is the federated model.

    Raises:
        OSError: The file cannot be written.
    """
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    metadata = {"format": "pt"} if origin is None else {"format": "pt", _ORIGIN: origin.value}
    metadata |= {_FIRST: "members.0."} if blend else {}
    with replacing(path) as draft:
        write_tensors(tensors, draft, metadata)
