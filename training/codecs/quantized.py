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
"""

from __future__ import annotations

from torch import Tensor

from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.codecs.quantization import blocks, dequantize, packed, quantize
from dpeer.training.payload import Payload


class Quantized(Codec):
    """Sends changes from the common start in `bits` bits a value.

    Args:
        start: The common start of all peers.
        rank: This peer.
        bits: 4, 8 or 16.

    Raises:
        ValueError: Another number of bits.
    """

    error_feedback = True

    def __init__(self, start: Tensor, rank: int, bits: int) -> None:
        if bits not in (4, 8, 16):
            raise ValueError(f"{bits} bits: values can be quantized to 4, 8 or 16")
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
