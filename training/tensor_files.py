"""Writing tensors to a safetensors file without a copy of them: a model's values can be gigabytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.payload import little_endian

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

    Args:
        tensors: By name; on any device.
        path: The file.
        metadata: Texts that the file says, in the order given.

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
    said = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    said += b" " * (-len(said) % 8)
    with path.open("wb") as file:
        file.write(len(said).to_bytes(8, "little"))
        file.write(said)
        for name in names:
            file.write(little_endian(tensors[name]))
