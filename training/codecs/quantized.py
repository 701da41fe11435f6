"""Quantized codec: changes in a few bits a value, added to what neighbors already have.

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
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.flat import new_vector
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
        start: The common start of all peers.
        rank: This peer.
        bits: 4, 8 or 16.
        steady: Whether the same neighbors exchange in every round.

    Raises:
        ValueError: Another number of bits.
    """

    error_feedback = True

    def __init__(self, start: Tensor, rank: int, bits: int, *, steady: bool) -> None:
        if bits not in (4, 8, 16):
            raise ValueError(f"{bits} bits: values can be quantized to 4, 8 or 16")
        super().__init__(start, rank)
        self._bits = bits
        self._fresh_every = FRESH_EVERY if steady else 1
        self._start = start.clone()
        # What each neighbor and the own peer have released so far, and in which round last: mixed, and decoded.
        self._known: dict[int, tuple[int, Tensor]] = {}
        self._decoded: dict[int, tuple[int, Tensor]] = {}

    @property
    def _blocks(self) -> int:
        return -(-self.count // BLOCK)

    @property
    def payload_bytes(self) -> int:
        """Header, scales, and `bits` bits a value."""
        return _HEADER.size + 4 * self._blocks + _packed(self.count, self._bits)

    def encode(self, values: Tensor, number: int) -> Payload:
        """Header (from which round's release the change is, and this round), scales, codes."""
        base, known = self._known.get(self.rank, (_START, self._start))
        if number % self._fresh_every == 0:
            base, known = _START, self._start
        scales, codes = quantize(values - known, self._bits)
        return [_HEADER.pack(base, number), payload.encode(scales), pack(codes, self._bits)]

    def decode(self, rank: int, payload_: Payload) -> list[Tensor]:
        """The sum of the sender's releases; "stale" for a change from a sum that this peer has not got."""
        header, scales, codes = payload_
        base, number = _HEADER.unpack(header)
        round_known, known = (_START, self._start) if base == _START else self._known.get(rank, (_START, self._start))
        vectors = payload.views([scales], self._blocks)
        if vectors is None:
            raise Undecodable("wrong-size")
        steps = unpack(codes, self._bits, self.count)
        if round_known != base:
            raise Undecodable("stale")
        scales_ = vectors[0] if vectors else new_vector(0)
        released = known + dequantize(scales_.to(known.device), steps.to(known.device))
        self._decoded[rank] = number, released
        return [released]

    def mixed(self, ranks: Collection[int]) -> None:
        """Changes are counted from these releases."""
        if self._fresh_every > 1:
            known = {rank: self._decoded[rank] for rank in (*ranks, self.rank) if rank in self._decoded}
            self._known.update(known)
        self._decoded = {}

    def forget(self, ranks: Collection[int]) -> None:
        """The next change is counted from the common start, as every few rounds."""
        if ranks:
            self._known = {rank: known for rank, known in self._known.items() if rank not in {*ranks, self.rank}}

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
        self._known, self._decoded = known, {}


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
    # A scale that is too small to be exact would give more steps than the code has.
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
