"""A codec of a user's own: whatever it raises, or gives that cannot be used, becomes one error that names it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.training.codecs.base import Codec
from dpeer.training.errors import blame
from dpeer.training.payload import Payload


class Own(Codec):
    """Calls a user's codec.

    Args:
        found: Its class.
        start: See `Codec`.
        rank: This peer.

    Raises:
        ConfigurationError: It cannot be made, or its `payload_bytes` is no number of bytes.
    """

    def __init__(self, found: type[Codec], start: Tensor, rank: int) -> None:
        super().__init__(start, rank)
        self._name = found.__name__
        with self._blamed("__init__"):
            self._codec = found(start, rank)
            self._most, self.buffers = self._codec.payload_bytes, self._codec.buffers
        if type(self._most) is not int or self._most < 0:
            kind = "a method: put @property above it" if callable(self._most) else f"{self._most!r}, not a whole number"
            raise ConfigurationError(f"codec {self._name}: its payload_bytes is {kind}")
        self.error_feedback = self._codec.error_feedback

    def _blamed(self, member: str) -> AbstractContextManager[None]:
        return blame(f"codec {self._name} failed in {member!r}", kind=ConfigurationError)

    @property
    def payload_bytes(self) -> int:
        """See `Codec`."""
        return self._most

    def receive_buffer(self) -> memoryview | None:
        """See `Codec`."""
        return self._codec.receive_buffer()

    def encode(self, values: Tensor, number: int) -> Payload:
        """See `Codec.encode`."""
        with self._blamed("encode"):
            payload = self._codec.encode(values, number)
        if not isinstance(payload, list | tuple) or not all(isinstance(one, _BUFFERS) for one in payload):
            raise ConfigurationError(
                f"codec {self._name}: its encode gave {_kind(payload)}; it must give a list of bytes"
            )
        if (size := sum(memoryview(buffer).nbytes for buffer in payload)) > self._most:
            raise ConfigurationError(
                f"codec {self._name} encoded {size:,} bytes in round {number}, and its payload_bytes is "
                f"{self._most:,}; it must be the most bytes of a payload"
            )
        return payload

    def decode(self, payload: Payload) -> list[Tensor]:
        """See `Codec.decode`."""
        with self._blamed("decode"):
            vectors = self._codec.decode(payload)
        if not isinstance(vectors, list | tuple) or not all(isinstance(one, Tensor) for one in vectors):
            raise ConfigurationError(
                f"codec {self._name}: its decode gave {_kind(vectors)}; it must give a list of tensors"
            )
        if (count := sum(vector.numel() for vector in vectors)) != self.count:
            raise ConfigurationError(f"codec {self._name}: its decode gave {count:,} values, must be {self.count:,}")
        return [*vectors]


_BUFFERS = (bytes, bytearray, memoryview)


def _kind(found: object) -> str:
    inner = f" of {type(found[0]).__name__}" if isinstance(found, list | tuple) and found else ""
    return f"a {type(found).__name__}{inner}"
