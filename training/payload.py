"""Bodies as bytes: little-endian floats, in the manifest's order, in one buffer or several."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.training.settings import WireDtype

Buffer = bytes | bytearray | memoryview
Payload = Sequence[Buffer]

_TORCH: dict[WireDtype, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

if sys.byteorder != "little":
    raise ImportError("dpeer needs a processor whose numbers are little-endian, as bodies are on the wire")


def width(dtype: WireDtype) -> int:
    """The number of bytes of a value."""
    return _TORCH[dtype].itemsize


def largest(dtype: WireDtype) -> float:
    """The largest finite value that can travel."""
    return torch.finfo(_TORCH[dtype]).max


def encode(vector: Tensor, dtype: WireDtype = "float32") -> memoryview:
    """The bytes of a flat float32 vector, read-only; a float32 one is not copied."""
    return little_endian(vector.to(_TORCH[dtype])).toreadonly()


def write(vector: Tensor, dtype: WireDtype, room: memoryview) -> None:
    """Put the bytes of a flat float32 vector into memory of their size; from a GPU without a stop on the way."""
    if not vector.numel():
        return
    torch.frombuffer(room, dtype=_TORCH[dtype]).copy_(vector, non_blocking=True)
    if vector.device.type != "cpu" and torch.cuda.is_available():
        torch.cuda.current_stream(vector.device).synchronize()


def digest(vector: Tensor, frozen: Mapping[str, Tensor] = MappingProxyType({})) -> str:
    """SHA-256 (hex) of the vector's bytes, and of any frozen tensors of any type and their names."""
    found = hashlib.sha256(encode(vector))
    for name, tensor in frozen.items():
        found.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        found.update(little_endian(tensor))
    return found.hexdigest()


def little_endian(tensor: Tensor) -> memoryview:
    """The bytes of a dense tensor of any type, on any device; a contiguous one of this host is not copied."""
    flat = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


class _Readable:
    """Memory of a buffer that numpy takes for writable, because torch warns of read-only arrays.

    It is never written to. Arrays made of it keep it, and so the memory, alive.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.__array_interface__: dict[str, Any] = np.frombuffer(buffer, np.uint8).__array_interface__  # a new one
        self.__array_interface__["data"] = self.__array_interface__["data"][0], False


def views(payload: Payload, count: int, dtype: WireDtype = "float32") -> list[Tensor]:
    """The payload's buffers as vectors of that dtype, in their order, without copying them; only to be read.

    Raises:
        ValueError: The payload has another size. (For other objects Python, numpy or torch raise their own.)
    """
    if (size := sum(memoryview(buffer).nbytes for buffer in payload)) != width(dtype) * count:
        raise ValueError(f"{size:,} bytes are not {count:,} values")
    # numpy refuses buffers that are empty or not contiguous, torch a fraction of a value.
    found = [torch.from_numpy(np.asarray(_Readable(one))) for one in payload if memoryview(one).nbytes]
    return [(one.clone() if one.data_ptr() % width(dtype) else one).view(_TORCH[dtype]) for one in found]
