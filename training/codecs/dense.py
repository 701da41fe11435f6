"""Dense codec: all values, as floats of 32 or 16 bits."""

from __future__ import annotations

from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.payload import Payload
from dpeer.training.settings import WireDtype


class Dense(Codec):
    """Sends all values in one buffer of little-endian floats.

    Args:
        start: See `Codec`.
        rank: This peer.
        dtype: The type as which values travel; 16 bits round them.
    """

    def __init__(self, start: Tensor, rank: int, dtype: WireDtype = "float32") -> None:
        super().__init__(start, rank)
        self.dtype = dtype

    @property
    def payload_bytes(self) -> int:
        """Four or two bytes a value."""
        return payload.width(self.dtype) * self.count

    def receive_buffer(self) -> memoryview | None:
        """See `Codec`: a buffer only for values on a GPU, which copies from page-locked memory; sums need none."""
        return None if self.device.type == "cpu" else self.buffers.take()

    def encode(self, values: Tensor, number: int) -> Payload:
        """See `Codec.encode`."""
        buffer = self.buffers.take()
        payload.write(values, self.dtype, buffer)
        return [buffer.toreadonly()]

    def decode(self, payload_: Payload) -> list[Tensor]:
        """See `Codec.decode`; without a copy."""
        vectors = payload.views(payload_, self.count, self.dtype)
        if vectors is None:
            raise Undecodable("wrong-size")
        return vectors
