"""Quantized codec: each value's change from the common start, in a few bits.

In Sun, Li and Wang, Decentralized Federated Averaging, IEEE TPAMI 2022, Algorithm 2, a round's quantized change counts
from the model before local training, and receivers add it on:

    q_i <- Q(z_i - x_i),    x_i <- x_i + sum_l W_il q_l

Without quantization that is X <- X + W (Z - X). So the disagreement (I - W) X is never averaged away, each peer's model
settles where the changes around it cancel, and a lost message is missed for ever. Here a change is counted from the
start s that all peers have in common, so that a payload can be read without any earlier one:

    y_i <- s + Q(z_i - s)
    x_i <- z_i + sum_l W_il (y_l - y_i)

In the first round that is the paper's, plus what rounding took from the own change. Without quantization it is plain
averaging. What was rounded away stays in x_i and travels with a later release, so nothing is lost (error feedback).

An integer q of b bits stands for q * scale, with scale = max |change| of its block / (2^(b-1) - 1). Values go through
memory of `PIECE` values: page faults of temporaries as long as the vector take several times the time of arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.payload import Payload


class Quantized(Codec):
    """Sends changes from the common start in `bits` bits a value: 4, 8 or 16."""

    error_feedback = True

    def __init__(self, start: Tensor, rank: int, bits: int) -> None:
        super().__init__(start, rank)
        self._bits, self._parts = bits, (4 * blocks(self.count), packed(self.count, bits))
        self._start = start.clone()
        self._encoded: tuple[Payload, Tensor] | None = None
        """The own payload and what it decodes to, which encoding finds on the way, until that is asked for."""

    @property
    def payload_bytes(self) -> int:
        """Scales, and `bits` bits a value."""
        return sum(self._parts)

    def encode(self, values: Tensor, number: int) -> Payload:
        """Scales, then codes."""
        buffer, (scales, _) = self.buffers.take(), self._parts
        parts = buffer[:scales], buffer[scales:]
        released = quantize(values, self._start, self._bits, *parts)
        self._encoded = [part.toreadonly() for part in parts], released
        return self._encoded[0]

    def decode(self, payload: Payload) -> list[Tensor]:
        """See `Codec.decode`."""
        if self._encoded is not None and payload is self._encoded[0]:
            released, self._encoded = self._encoded[1], None
            return [released]
        parts = [memoryview(part).cast("B") for part in payload]
        if tuple(part.nbytes for part in parts) != self._parts:
            raise Undecodable("wrong-size")
        return [dequantize(self._start, self._bits, *parts)]


BLOCK = 1024
"""Values that share a scale, which adds 0.03 bits to each."""

PIECE = 2**17
"""Values that are handled at once on the host, a multiple of `BLOCK`; on a GPU, where a call costs more than what it
computes, 128 times as many."""

_TINY = torch.finfo(torch.float32).tiny


def blocks(count: int) -> int:
    """The number of scales of `count` values."""
    return -(-count // BLOCK)


def packed(count: int, bits: int) -> int:
    """The number of bytes that `count` integers take."""
    return -(-count * bits // 8)


def quantize(values: Tensor, base: Tensor, bits: int, scales: memoryview, codes: memoryview) -> Tensor:
    """Write the change from a base to values, each rounded to the nearest multiple of its block's scale.

    Where a value is not finite, its block's scale is not either, and its integers are zero: receivers notice.

    Args:
        values: Shape (count,), float32.
        base: Of the same shape, on the same device.
        bits: Of an integer: 4, 8 or 16.
        scales: Room for `blocks(count)` float32.
        codes: Room for `packed(count, bits)` bytes: little-endian integers; of 4 bits, with 8 added, two in a byte, the
            first in its lower half.

    Returns:
        What `dequantize` gives for them, shape (count,).
    """
    most = 2 ** (bits - 1) - 1
    found, written = torch.empty_like(base), np.frombuffer(scales, "<f4")
    change, size = _memory(values, torch.float32), _memory(values, torch.float32)
    whole = _memory(values, torch.int16 if bits == 16 else torch.int8)
    for here in _pieces(values):
        count, rows = here.stop - here.start, slice(0, blocks(here.stop - here.start))
        torch.sub(values[here], base[here], out=change.view(-1)[:count])
        change.view(-1)[count : rows.stop * BLOCK] = 0
        scale = torch.abs(change[rows], out=size[rows]).amax(dim=1) / most
        change[rows].div_(scale[:, None]).round_()
        if not (scale.min() >= _TINY and scale.max() < torch.inf):  # else they are within `most`, and no NaN
            change[rows].nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0).clamp_(-most, most)
        whole[rows] = change[rows]
        written[_blocks(here)] = scale.cpu().numpy()
        _pack(whole.view(-1)[:count].cpu().numpy(), bits, codes[_bytes(here, bits)])
        change[rows] = whole[rows]
        torch.add(base[here], change[rows].mul_(scale[:, None]).view(-1)[:count], out=found[here])
    return found


def dequantize(base: Tensor, bits: int, scales: memoryview, codes: memoryview) -> Tensor:
    """The sum of a base and the change that `quantize` wrote, shape (count,); arguments as there."""
    found, read = torch.empty_like(base), np.frombuffer(scales, "<f4").astype(np.float32)
    change = _memory(base, torch.float32)
    whole = change.numpy() if change.device.type == "cpu" else np.empty(change.shape, np.float32)
    for here in _pieces(base):
        count, rows = here.stop - here.start, slice(0, blocks(here.stop - here.start))
        _unpack(codes[_bytes(here, bits)], bits, whole.reshape(-1)[:count])
        if change.device.type != "cpu":
            change[rows] = torch.from_numpy(whole[rows]).to(change.device)
        scale = torch.from_numpy(read[_blocks(here)]).to(change.device)
        torch.add(base[here], change[rows].mul_(scale[:, None]).view(-1)[:count], out=found[here])
    return found


def _memory(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Memory for a piece of a vector, shape (blocks of a piece, BLOCK), on its device."""
    most = PIECE if like.device.type == "cpu" else 128 * PIECE
    return torch.zeros(min(most // BLOCK, blocks(like.numel())), BLOCK, dtype=dtype, device=like.device)


def _pieces(vector: Tensor) -> Iterator[slice]:
    """Where the pieces of a vector lie, each but the last a whole number of blocks."""
    most = PIECE if vector.device.type == "cpu" else 128 * PIECE
    for start in range(0, vector.numel(), most):
        yield slice(start, min(start + most, vector.numel()))


def _blocks(piece: slice) -> slice:
    """The scales of a piece."""
    return slice(piece.start // BLOCK, blocks(piece.stop))


def _bytes(piece: slice, bits: int) -> slice:
    """The codes of a piece."""
    return slice(packed(piece.start, bits), packed(piece.stop, bits))


def _pack(whole: NDArray[np.signedinteger], bits: int, into: memoryview) -> None:
    """Write integers as `bits`-bit ones."""
    if bits != 4:
        np.copyto(np.frombuffer(into, f"<i{bits // 8}"), whole)
        return
    room, even = np.frombuffer(into, np.uint8), len(whole) & ~1
    pairs = (whole[:even].view(np.uint8) + np.uint8(8)).view("<u2")
    room[: even // 2] = pairs | pairs >> 4  # modulo 256
    room[even // 2 :] = whole[even:] + 8


def _unpack(codes: memoryview, bits: int, into: NDArray[np.float32]) -> None:
    """Undo `_pack`, as floats."""
    if bits != 4:
        np.copyto(into, np.frombuffer(codes, f"<i{bits // 8}"))
        return
    pairs = np.frombuffer(codes, np.uint8).astype("<u2")
    pairs = (pairs | pairs << 4) & 0x0F0F
    np.subtract(pairs.view(np.uint8)[: len(into)], np.float32(8), out=into)
