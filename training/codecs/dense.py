"""The body as it is: floats of 32 or 16 bits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec
from dpeer.training.device import host
from dpeer.training.flat import Flat
from dpeer.training.mixing import mix
from dpeer.training.payload import Payload, WireDtype


class Dense(Codec):
    """Sends all values; the mix is u <- sum over j of row[j] * z_j, in float32.

    With 16 bits a value, z_j is what the values were rounded to: the own part of the sum is, too.

    Args:
        body: What is sent and mixed.
        rank: The own rank.
        dtype: As what values travel.
    """

    def __init__(self, body: Flat, rank: int, dtype: WireDtype = "float32") -> None:
        self._body, self._rank, self._dtype = body, rank, dtype
        self._released: list[Tensor] | None = None
        self._checked: dict[int, tuple[Payload, list[Tensor]]] = {}

    def room(self) -> memoryview | None:
        """A GPU copies from page-locked memory; for the host's sums pieces are as good, and a copy is saved."""
        return None if self._body.data.device.type == "cpu" else self.slots.take()

    @property
    def payload_bytes(self) -> int:
        """Four or two bytes a parameter."""
        return payload.width(self._dtype) * self._body.count

    def release(self, number: int) -> Payload | None:
        """One buffer of little-endian floats."""
        room = self.slots.take()
        payload.write(self._body.data, self._dtype, room)
        self._released = self._values([room])
        return [room.toreadonly()]

    def check(self, rank: int, payload_: Payload) -> str | None:
        """See `Codec.check`."""
        vectors = payload.views(payload_, self._body.count, self._dtype)
        if vectors is None:
            return "wrong-size"
        self._checked[rank] = payload_, vectors
        return None if payload.all_finite(vectors) else "not-finite"

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """See `Codec.mix`."""
        own = [host(self._body.data)] if self._released is None else self._released
        with torch.no_grad():
            mix(
                self._body.data,
                [
                    (own if rank == self._rank else self._received(rank, received[rank]), row[rank])
                    for rank in sorted(row)
                ],
            )
        self._released = None
        self._checked.clear()

    def _received(self, rank: int, payload_: Payload) -> list[Tensor]:
        """What `check` has looked at already, as a rule."""
        checked, vectors = self._checked.get(rank, (None, []))
        return vectors if checked is payload_ else self._values(payload_)

    def _values(self, payload_: Payload) -> list[Tensor]:
        """What a payload holds, together of shape (body.count,), on the host.

        Raises:
            ValueError: It has another size (`check` says so beforehand).
        """
        vectors = payload.views(payload_, self._body.count, self._dtype)
        if vectors is None:
            raise ValueError(f"a payload of {self._body.count} values was expected")
        return vectors
