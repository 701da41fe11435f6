"""The body as it is: floats of 32 or 16 bits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec, Weigh
from dpeer.training.codecs.guard import Guard
from dpeer.training.device import host
from dpeer.training.flat import Exchanged
from dpeer.training.payload import Payload
from dpeer.training.robust import Robust
from dpeer.training.settings import WireDtype


class Dense(Codec):
    """Sends all values; the mix is u <- sum over j of row[j] * z_j, in float32, or what a guard makes of them.

    With 16 bits a value, z_j is what the values were rounded to: the own part of the sum is, too.

    Args:
        body: The values that are sent and mixed.
        rank: This peer.
        dtype: The type as which values travel.
        robust: How bodies are mixed.
        max_norm: A body that is farther than this from the own one is left out; None for any distance.
    """

    def __init__(
        self,
        body: Exchanged,
        rank: int,
        dtype: WireDtype = "float32",
        robust: Robust = Robust(),  # noqa: B008 - frozen
        max_norm: float | None = None,
    ) -> None:
        self._body, self._rank, self._dtype = body, rank, dtype
        self._guard = Guard(rank, robust, max_norm)
        self._released: list[Tensor] | None = None
        self._distances: dict[int, float] = {}

    def room(self) -> memoryview | None:
        """See `Codec.room`: a buffer only for a body on a GPU, which copies from page-locked memory; sums need none."""
        return None if self._body.data.device.type == "cpu" else self.buffers.take()

    @property
    def payload_bytes(self) -> int:
        """Four or two bytes a parameter."""
        return payload.width(self._dtype) * self._body.count

    def release(self, number: int) -> Payload | None:
        """One buffer of little-endian floats."""
        room = self.buffers.take()
        payload.write(self._body.data, self._dtype, room)
        self._released = self._values([room])
        return [room.toreadonly()]

    def check(self, rank: int, payload_: Payload) -> str | None:
        """See `Codec.check`; what is left out by comparison with other bodies shows in `mix_sound` alone."""
        vectors = self._views(payload_)
        if vectors is None:
            return "wrong-size"
        return None if payload.all_finite(vectors) else "not-finite"

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """See `Codec.mix`."""
        self._add({rank: self._values(payload_) for rank, payload_ in received.items()}, row)
        self._forget()

    def mix_sound(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """See `Codec.mix_sound`.

        Looking for values that are not finite beforehand would read every payload once more. They show in the sum, too;
        only if they do, payloads are looked into and the sum is made again.
        """
        vectors = {rank: self._views(payload_) for rank, payload_ in received.items()}
        refused = {rank: "wrong-size" for rank, found in vectors.items() if found is None}
        sound = {rank: found for rank, found in vectors.items() if found is not None}
        if not self._guard.plain:
            judged, self._distances = self._guard.judge(sound, self._own())
            sound = {rank: found for rank, found in sound.items() if rank not in judged}
            self._add(sound, weigh(sound))
            refused |= judged
        elif not self._add(sound, weigh(sound)):
            infinite = {rank: "not-finite" for rank, found in sound.items() if not payload.all_finite(found)}
            if infinite:
                sound = {rank: found for rank, found in sound.items() if rank not in infinite}
                self._add(sound, weigh(sound))
                refused |= infinite
        self._forget()
        return refused

    def _forget(self) -> None:
        self._released, self._distances = None, {}

    def _own(self) -> list[Tensor]:
        """What was released, or the body as it is where nothing was."""
        if self._released is None:
            self._released = [host(self._body.data)]
        return self._released

    def _add(self, received: dict[int, list[Tensor]], row: Mapping[int, float]) -> bool:
        """Replace the body by the sum, which may be repeated; returns whether all terms are known to be finite."""
        return self._sum(self._body.data, received, row)

    def _sum(self, into: Tensor, received: dict[int, list[Tensor]], row: Mapping[int, float]) -> bool:
        """Write the sum into a vector like the body; returns whether all terms are known to be finite."""
        own = self._own()
        with torch.no_grad():
            return self._guard.mix(into, received, own, row, self._distances)

    def _views(self, payload_: Payload) -> list[Tensor] | None:
        return payload.views(payload_, self._body.count, self._dtype)

    def _values(self, payload_: Payload) -> list[Tensor]:
        """The values of a payload, as vectors on the host that together have shape (body.count,).

        Raises:
            ValueError: It has another size (`check` says so beforehand).
        """
        vectors = self._views(payload_)
        if vectors is None:
            raise ValueError(f"a payload of {self._body.count} values was expected")
        return vectors
