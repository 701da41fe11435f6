"""Quantized codec: changes in a few bits a value, added to what neighbors already have.

Sun, Li and Wang, Decentralized Federated Averaging, IEEE TPAMI 2022, Algorithm 2. The quantized *change* q travels, and
is added on by the receivers:

    q_i <- Q(z_i - y_i)
    x_i <- x_i + sum_l W_il q_l

A change is counted from y_i. The paper takes y_i = x_i, the model before local training. Without quantization that is
X <- X + W (Z - X). Then the disagreement (I - W) X is never averaged away, each peer's model settles where the changes
around it cancel, and a lost message is missed for ever. Here y_i is the sum of all q that i has released, which all its
neighbors know too:

    q_i <- Q(z_i - y_i),    y_i <- y_i + q_i
    x_i <- z_i + sum_l W_il (y_l - y_i)

In the first round that is x_i + sum_l W_il q_l, as in the paper, plus what rounding took from the own change. Without
quantization it is plain averaging. What was rounded away stays in x_i and travels with a later change, so nothing is
lost: CHOCO-Gossip with gamma = 1 (Koloskova, Stich and Jaggi, Decentralized Stochastic Optimization and Gossip
Algorithms with Compressed Communication, ICML 2019, Algorithm 1).

A neighbor that has missed a change cannot use the next ones. It refuses them as "stale", and their weight goes to the
diagonal. So in every tenth round the change is counted from the common start of all peers, which needs no history and
no more bytes, and a lost message is made up for. Where neighbors change from round to round, every round is such a one.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from torch import Tensor

from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.codecs.quantization import blocks, dequantize, packed, quantize
from dpeer.training.payload import Payload

FRESH_EVERY = 10
"""Every so many rounds the change is counted from the common start, where the same neighbors exchange every round."""

_START = -1

_HEADER = struct.Struct("<qq")
"""The round from whose release a change is counted, and its own."""


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
        self._bits, self._parts = bits, (_HEADER.size, 4 * blocks(self.count), packed(self.count, bits))
        self._fresh_every = FRESH_EVERY if steady else 1
        self._start = start.clone()
        # What each neighbor and the own peer have released so far, and in which round last: mixed, and decoded.
        self._known: dict[int, tuple[int, Tensor]] = {}
        self._decoded: dict[int, tuple[int, Tensor]] = {}
        self._encoded: tuple[Payload, Tensor] | None = None
        """The own payload and what it decodes to, which a piece at a time costs nearly nothing to find on the way."""

    @property
    def payload_bytes(self) -> int:
        """Header, scales, and `bits` bits a value."""
        return sum(self._parts)

    def encode(self, values: Tensor, number: int) -> Payload:
        """Header (from which round's release the change is, and this round), scales, codes."""
        base, known = self._known.get(self.rank, (_START, self._start))
        if number % self._fresh_every == 0:
            base, known = _START, self._start
        buffer, (header, scales, _) = self.buffers.take(), self._parts
        parts = buffer[:header], buffer[header : header + scales], buffer[header + scales :]
        _HEADER.pack_into(parts[0], 0, base, number)
        released = quantize(values, known, self._bits, parts[1], parts[2])
        self._encoded = [part.toreadonly() for part in parts], released
        return self._encoded[0]

    def decode(self, rank: int, payload: Payload) -> list[Tensor]:
        """The sum of the sender's releases; "stale" for a change from a sum that this peer has not got."""
        header, scales, codes = payload
        base, number = _HEADER.unpack(header)
        if self._encoded is not None and payload is self._encoded[0]:
            released = self._encoded[1]
        else:
            round_known, known = (
                self._known.get(rank, (_START, self._start)) if base != _START else (_START, self._start)
            )
            parts = [memoryview(part).cast("B") for part in (scales, codes)]
            if tuple(part.nbytes for part in parts) != self._parts[1:]:
                raise Undecodable("wrong-size")
            if round_known != base:
                raise Undecodable("stale")
            released = dequantize(known, self._bits, *parts)
        self._decoded[rank] = number, released
        return [released]

    def mixed(self, ranks: Collection[int]) -> None:
        """Changes are counted from these releases."""
        if self._fresh_every > 1:
            known = {rank: self._decoded[rank] for rank in (*ranks, self.rank) if rank in self._decoded}
            self._known.update(known)
        self._decoded, self._encoded = {}, None

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
        self._known, self._decoded, self._encoded = known, {}, None
