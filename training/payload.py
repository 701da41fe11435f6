"""Bodies as bytes: little-endian float32, in the manifest's order, in one buffer or several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Buffer = bytes | bytearray | memoryview
Payload = Sequence[Buffer]

_FLOAT = np.dtype("<f4")


def encode(vector: Tensor) -> memoryview:
    """The bytes of a flat float32 vector, read-only; on the host and where it is little-endian, without a copy."""
    if not vector.numel():  # such a view cannot be cast
        return memoryview(b"")
    return memoryview(vector.cpu().numpy().astype(_FLOAT, copy=False).data).cast("B").toreadonly()


def digest(vector: Tensor) -> str:
    """SHA-256 (hex) of the vector's bytes."""
    return hashlib.sha256(encode(vector)).hexdigest()


class _Readable:
    """Foreign memory that numpy takes for writable: torch knows no read-only tensors and warns of them.

    Nobody writes through it. Arrays made of it keep it, and so the memory, alive.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        array = np.frombuffer(buffer, dtype=_FLOAT)
        self.__array_interface__: dict[str, Any] = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def views(payload: Payload, count: int) -> list[Tensor] | None:
    """The payload's buffers as float32 vectors without copying them; only to be read.

    Args:
        payload: One or more buffers, each a whole number of floats.
        count: How many floats they must hold together.

    Returns:
        The vectors in order, or None when the payload has another size.
    """
    try:
        if sum(memoryview(buffer).nbytes for buffer in payload) != 4 * count:
            return None
        # numpy refuses what is not contiguous, empty, or not a whole number of floats.
        arrays = [np.asarray(_Readable(buffer)) for buffer in payload if memoryview(buffer).nbytes]
    except (TypeError, ValueError, BufferError):
        return None
    return [
        torch.from_numpy(array if array.dtype.isnative and array.flags.aligned else array.astype(np.float32))
        for array in arrays
    ]


def why_not(payload: Payload, count: int) -> str | None:
    """Why a received payload must not be mixed: "wrong-size", "not-finite", or None when it may be.

    Never raises, whatever the payload.
    """
    vectors = views(payload, count)
    if vectors is None:
        return "wrong-size"
    for vector in vectors:
        # A sum is several times faster than isfinite, and finite only if all terms are. Large finite terms can
        # overflow it, so only a sum that is not finite is looked into.
        if not torch.isfinite(vector.sum()) and not torch.isfinite(vector).all():
            return "not-finite"
    return None


def add_weighted(total: Tensor, payload: Payload, weight: float) -> None:
    """Total <- total + weight * payload, in place; on the host without temporaries.

    Raises:
        ValueError: The payload does not have the total's size (`why_not` says so beforehand).
    """
    vectors = views(payload, total.numel())
    if vectors is None:
        raise ValueError(f"a payload of {total.numel()} floats was expected")
    offset = 0
    for vector in vectors:
        total[offset : offset + vector.numel()].add_(vector.to(total.device), alpha=weight)
        offset += vector.numel()
