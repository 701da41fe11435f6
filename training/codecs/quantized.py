"""Changes in a few bits a value, added to what neighbors already have.

Sun, Li and Wang, Decentralized Federated Averaging, IEEE TPAMI 2022, Algorithm 2: what travels is the quantized
*change* q, and what neighbors send is added on,

    q_i <- Q(z_i - y_i)
    x_i <- x_i + sum_l W_il q_l

The question is what the change is from. The paper takes y_i = x_i, the model before local training. Without
quantization that is X <- X + W (Z - X): the disagreement (I - W) X is never averaged away, each peer's model settles
where the changes around it cancel, and a message that was lost is missed for ever. Here y_i is what i has released so
far, the sum of its q's, which all its neighbors know too:

    q_i <- Q(z_i - y_i),    y_i <- y_i + q_i
    x_i <- z_i + sum_l W_il (y_l - y_i)

In the first round that is x_i + sum_l W_il q_l, as in the paper, plus what rounding took from the own change; without
quantization it is plain averaging. What was rounded away stays in x_i, so it travels with a later change and nothing is
lost (Koloskova et al., Decentralized Stochastic Optimization and Gossip Algorithms with Compressed Communication, ICML
2019, Algorithm 1, with gamma = 1).

A neighbor that has missed a change cannot use the next ones: they are refused as "stale", and their weight goes to
the diagonal. Every few rounds, therefore, the change is counted from the common start of all peers, which needs no
history and no more bytes; a lost message is forgotten then. Where neighbors change from round to round, every round
is such a one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec
from dpeer.training.codecs.guard import TOO_FAR, distance
from dpeer.training.device import host
from dpeer.training.flat import Exchanged, new_vector
from dpeer.training.payload import Payload

FRESH_EVERY = 10
"""Every so many rounds the change is counted from the common start, where the same neighbors exchange every round."""

BLOCK = 1024
"""Values that share a scale, which adds 0.03 bits to each."""

_HEADER = struct.Struct("<qq")
_START = -1


class Quantized(Codec):
    """Sends changes in `bits` bits a value.

    Args:
        body: The values that are sent and mixed; now the common start of all peers.
        rank: This peer.
        bits: 4, 8 or 16.
        steady: Whether the same neighbors exchange in every round.
        max_norm: A neighbor whose body is then farther than this from the own one is left out; None for any distance.

    Raises:
        ValueError: Another number of bits.
    """

    def __init__(self, body: Exchanged, rank: int, bits: int, *, steady: bool, max_norm: float | None = None) -> None:
        if bits not in (4, 8, 16):
            raise ValueError(f"{bits} bits: values can be quantized to 4, 8 or 16")
        self._body, self._rank, self._bits = body, rank, bits
        self._max_norm = max_norm
        self._fresh_every = FRESH_EVERY if steady else 1
        self._start = body.data.clone()
        # What each neighbor and the own peer have released so far, and in which round last.
        self._known: dict[int, tuple[int, Tensor]] = {}
        self._released: tuple[int, Tensor] | None = None
        self._rounded_away = torch.zeros_like(body.data)

    @property
    def _blocks(self) -> int:
        return -(-self._body.count // BLOCK)

    @property
    def payload_bytes(self) -> int:
        """Header, scales, and `bits` bits a parameter."""
        return _HEADER.size + 4 * self._blocks + _packed(self._body.count, self._bits)

    def release(self, number: int) -> Payload:
        """Header (from which round's release the change is, and this round), scales, codes."""
        base, known = self._known.get(self._rank, (_START, self._start))
        if number % self._fresh_every == 0:
            base, known = _START, self._start
        scales, codes = quantize(self._body.data - known, self._bits)
        self._released = number, known + dequantize(scales, codes)
        self._rounded_away = self._body.data - self._released[1]
        return [_HEADER.pack(base, number), payload.encode(scales), pack(codes, self._bits)]

    def check(self, rank: int, payload_: Payload) -> str | None:
        """See `Codec.check`; "stale" for a change from something that this peer has not got."""
        try:
            released = self._read(rank, payload_)
        except (ValueError, TypeError, BufferError, struct.error):
            return "wrong-size"
        if released is None:
            return "stale"
        if not torch.isfinite(released[1]).all():
            return "not-finite"
        if self._max_norm is None:
            return None
        own = self._body.data if self._released is None else self._released[1]
        return TOO_FAR if distance([host(released[1])], [host(own)]) > self._max_norm else None

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """See `Codec.mix`."""
        for rank, payload_ in received.items():
            known = self._read(rank, payload_)
            if known is None:
                raise ValueError(f"the change of rank {rank} is from something unknown")
            self._known[rank] = known
        if self._released is not None:
            self._known[self._rank] = self._released
        own = self._body.data.clone() if self._released is None else self._released[1]
        with torch.no_grad():
            self._body.data.zero_()
            for rank in sorted(row):
                self._body.data.add_(own if rank == self._rank else self._known[rank][1], alpha=row[rank])
            if self._released is not None:
                self._body.data.add_(self._rounded_away)
        self._released = None
        if self._fresh_every == 1:
            self._known.clear()  # no change is ever counted from it

    def _read(self, rank: int, payload_: Payload) -> tuple[int, Tensor] | None:
        """The round of a payload and what its sender has now released in all; None if that cannot be known.

        Raises:
            ValueError, TypeError, BufferError, struct.error: It is not such a payload.
        """
        header, scales, codes = payload_
        base, number = _HEADER.unpack(header)
        round_known, known = (_START, self._start) if base == _START else self._known.get(rank, (_START, self._start))
        vectors = payload.views([scales], self._blocks)
        if vectors is None:
            raise ValueError("scales")
        steps = unpack(codes, self._bits, self._body.count)
        if round_known != base:
            return None
        scales_ = vectors[0] if vectors else new_vector(0)
        return number, known + dequantize(scales_.to(known.device), steps.to(known.device))

    def state(self) -> Mapping[str, Tensor]:
        """The sums of all releases of this peer and its neighbors, by ``RANK/ROUND``."""
        return {f"{rank}/{number}": values for rank, (number, values) in self._known.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Codec.restore`."""
        known = {}
        for name, values in state.items():
            rank, number = (int(part) for part in name.split("/"))
            if values.shape != self._start.shape:
                raise ValueError(f"a body of {tuple(values.shape)} parameters")
            known[rank] = number, values
        self._known, self._released = known, None


def quantize(values: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Round values to the nearest of 2^bits - 1 equal steps between minus and plus the largest of each block.

    Args:
        values: Shape (count,).
        bits: How many a value gets.

    Returns:
        The size of a step by block, shape (blocks,), float32; and how many, shape (count,), int16.
    """
    blocks = -(-values.numel() // BLOCK)
    padded = new_vector(blocks * BLOCK, values.device)
    padded[: values.numel()] = values
    rows = padded.view(blocks, BLOCK)
    most = 2 ** (bits - 1) - 1
    scales = rows.abs().amax(dim=1) / most if blocks else padded
    # What is not finite leaves a scale that is not, so receivers notice.
    steps = torch.nan_to_num((rows / scales[:, None]).round(), nan=0.0, posinf=0.0, neginf=0.0)
    # A scale that is too small to be exact would give more steps than there are.
    return scales, steps.clamp(-most, most).to(torch.int16).view(-1)[: values.numel()]


def dequantize(scales: Tensor, steps: Tensor) -> Tensor:
    """The values, shape (count,), that `quantize` gave these for."""
    return steps.float() * scales.repeat_interleave(BLOCK)[: steps.numel()]


def pack(steps: Tensor, bits: int) -> bytes:
    """Steps as `bits`-bit integers, little-endian, two of 4 bits in a byte (the first in its lower half)."""
    array = steps.cpu().numpy()
    if bits != 4:
        return array.astype(f"<i{bits // 8}").tobytes()
    halves = np.zeros((_packed(len(array), bits), 2), dtype=np.uint8)
    halves.reshape(-1)[: len(array)] = array + 8
    return (halves[:, 0] | halves[:, 1] << 4).tobytes()


def unpack(buffer: payload.Buffer, bits: int, count: int) -> Tensor:
    """Undo `pack`; shape (count,), int16.

    Raises:
        ValueError: The buffer has another size.
    """
    if memoryview(buffer).nbytes != _packed(count, bits):
        raise ValueError("codes")
    if bits != 4:
        return torch.from_numpy(np.frombuffer(buffer, dtype=f"<i{bits // 8}").astype(np.int16))
    halves = np.frombuffer(buffer, dtype=np.uint8)
    return torch.from_numpy(np.stack([halves & 15, halves >> 4], axis=1).reshape(-1)[:count].astype(np.int16) - 8)


def _packed(count: int, bits: int) -> int:
    """The number of bytes that `count` packed values take."""
    return -(-count * bits // 8)
