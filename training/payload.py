"""Bodies as bytes: little-endian floats, in the manifest's order, in one buffer or several."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.training.settings import WireDtype

Buffer = bytes | bytearray | memoryview
Payload = Sequence[Buffer]

_TORCH: dict[WireDtype, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_BITS: dict[int, tuple[np.dtype[Any], torch.dtype]] = {
    2: (np.dtype("<i2"), torch.int16),
    4: (np.dtype("<i4"), torch.int32),
}
"""By bytes a value: numpy knows no bfloat16, so only bits pass through it."""

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def width(dtype: WireDtype) -> int:
    """The number of bytes of a value."""
    return _TORCH[dtype].itemsize


def largest(dtype: WireDtype) -> float:
    """The largest finite value that can travel."""
    return torch.finfo(_TORCH[dtype]).max


def encode(vector: Tensor, dtype: WireDtype = "float32") -> memoryview:
    """The bytes of a flat float32 vector, read-only; a float32 one on a little-endian host is not copied."""
    return memoryview(_bits(vector, dtype).data).cast("B").toreadonly() if vector.numel() else memoryview(b"")


def write(vector: Tensor, dtype: WireDtype, room: memoryview) -> None:
    """Put the bytes of a flat float32 vector into memory of their size; from a GPU without a stop on the way."""
    if not vector.numel():
        return
    if vector.device.type != "cpu":
        torch.frombuffer(room, dtype=_TORCH[dtype]).copy_(vector, non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.current_stream(vector.device).synchronize()
    else:
        bits = _bits(vector, dtype)
        np.copyto(np.frombuffer(room, dtype=bits.dtype), bits)


def _bits(vector: Tensor, dtype: WireDtype) -> NDArray[Any]:
    little, bits = _BITS[width(dtype)]
    return vector.to(_TORCH[dtype]).cpu().view(bits).numpy().astype(little, copy=False)


def digest(vector: Tensor, frozen: Mapping[str, Tensor] = MappingProxyType({})) -> str:
    """SHA-256 (hex) of the vector's bytes, and of any frozen tensors of any type and their names."""
    found = hashlib.sha256(encode(vector))
    for name, tensor in frozen.items():
        found.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        found.update(little_endian(tensor))
    return found.hexdigest()


def little_endian(tensor: Tensor) -> memoryview:
    """The bytes of a dense tensor of any type, on any device; a contiguous one of this host is not copied."""
    # As real numbers if it is complex, and then as integers: numpy does not know every type of torch.
    flat = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    bits = flat.view(_INTEGERS[flat.itemsize]).numpy()
    return np.ascontiguousarray(bits, bits.dtype.newbyteorder("<")).data


class _Readable:
    """Memory of a buffer that numpy takes for writable, because torch warns of read-only arrays.

    It is never written to. Arrays made of it keep it, and so the memory, alive.
    """

    def __init__(self, buffer: Buffer, bits: np.dtype[Any]) -> None:
        self._buffer = buffer
        self.__array_interface__: dict[str, Any] = np.frombuffer(buffer, dtype=bits).__array_interface__  # a new one
        self.__array_interface__["data"] = self.__array_interface__["data"][0], False


def views(payload: Payload, count: int, dtype: WireDtype = "float32") -> list[Tensor] | None:
    """The payload's buffers as vectors without copying them; only to be read.

    Args:
        payload: One or more buffers, each a whole number of values.
        count: How many values they must hold together.
        dtype: Their type.

    Returns:
        The vectors in order, of that dtype, or None when the payload has another size.
    """
    little, _ = _BITS[width(dtype)]
    try:
        if sum(memoryview(buffer).nbytes for buffer in payload) != width(dtype) * count:
            return None
        # numpy refuses what is not contiguous, empty, or not a whole number of values.
        arrays = [np.asarray(_Readable(buffer, little)) for buffer in payload if memoryview(buffer).nbytes]
    except (TypeError, ValueError, BufferError):
        return None
    natives = (
        array if array.dtype.isnative and array.flags.aligned else array.astype(array.dtype.newbyteorder("="))
        for array in arrays
    )
    return [torch.from_numpy(array).view(_TORCH[dtype]) for array in natives]
