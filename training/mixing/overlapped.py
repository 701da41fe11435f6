"""Overlapped mixing: bodies travel while the next round trains, and are mixed one round late.

z_j(t) is what rank j released in round t, b_i(t) what rank i trains from in round t. The first round begins from the
common start, the second from the own release, and then

    b_i(t+1) <- z_i(t) + theta * sum over j of W_ij (z_j(t-1) - z_i(t-1)),    theta = 1/2 (less before outer steps)

After the last round nothing is trained any more, and the last releases are mixed as without overlap. The mean of all
bodies is kept in every round, for the columns of W sum to one. With theta = 1 the step diverges wherever W has an
eigenvalue of zero or less, as on every ring of even size.

An own or received body that is missing is a term that is dropped. A peer that enters again releases twice in its first
round: first the body that this round exchanges, then the one that the next round does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs import Dense
from dpeer.training.device import host
from dpeer.training.mixing.gossip import Gossip, Weigh
from dpeer.training.mixing.guard import Vectors
from dpeer.training.mixing.private import PrivateGossip
from dpeer.training.mixing.weighted_sum import weighted_sum
from dpeer.training.payload import Payload

THETA = 0.5
"""The share of the late difference that is mixed in."""

_HELD = "held/"
"""Names of the tensors of a release that waits for its round, in a checkpoint."""


class Overlapped(Gossip):
    """Mixes the releases of the round before the one that is trained; see `Gossip` for the arguments.

    In round `number` of the round loop `release` is called for `number + 1`, then `mix` with the bodies of `number`.
    """

    late_share: float = THETA
    """The share of a late difference that is mixed in."""

    _before: Vectors | None = None
    """The own release of the round that is exchanged, while `_released` is of the next one."""
    _held: tuple[int, Payload] | None = None
    """The release that waits for its round, and that round."""
    _mixes: int | None = None
    _residual: Tensor | None = None
    """With error feedback: what encoding lost of the newest release."""

    def release(self, number: int) -> Payload | None:
        """Round `number`'s body, which is exchanged while the round after it trains; see `Gossip.release`."""
        before = None if self.held(number - 1) is None else self._released
        found = super().release(number)
        if found is None:
            self._released, self._before = before, None
            return None
        self._before, self._mixes = before, None if before is None else number - 1
        self._held, self._residual = (number, found), super()._lost()
        self.codec.mixed(())  # the next release is made before this one is mixed, and may be counted from it
        return found

    def held(self, number: int) -> Payload | None:
        """See `Learner.held` of dpeer.peer."""
        return self._held[1] if self._held is not None and self._held[0] == number else None

    @property
    def mixed_round(self) -> int | None:
        """The round whose bodies were mixed last, if a later one has been trained by then."""
        return self._mixes

    def mix(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Mix the bodies of the exchanged round into the own one of the next; see `Gossip.mix`."""
        ahead, late = self._released, self._before is not None
        refused = super().mix(received, weigh)
        if late:
            self._released = ahead
        else:
            self._held = self._mixes = None
        self._before = None
        return refused

    def adopt(self, received: Mapping[int, Payload], weigh: Weigh, keep: Sequence[slice] = ()) -> dict[int, str]:
        """See `Gossip.adopt`."""
        self.discard()
        return super().adopt(received, weigh, keep)

    def discard(self) -> None:
        """Drop a release that waits for its round: the others run that round without it."""
        self._released = self._before = self._held = self._mixes = self._residual = None

    def state(self) -> Mapping[str, Tensor]:
        """What `Gossip.state` gives, and the release that waits for its round."""
        found = dict(super().state())
        if self._held is not None and self._released is not None:
            number, waiting = self._held
            found[f"{_HELD}round"] = torch.tensor(number)
            if not isinstance(self.codec, Dense):  # whose buffers say all
                found[f"{_HELD}values"] = torch.cat([host(vector) for vector in self._released])
            if self._residual is not None:
                found[f"{_HELD}residual"] = self._residual
            for index, buffer in enumerate(waiting):
                found[f"{_HELD}{index}"] = payload.raw(buffer)
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Codec.restore`."""
        super().restore({name: value for name, value in state.items() if not name.startswith(_HELD)})
        self.discard()
        if f"{_HELD}round" not in state:
            return
        buffers = [state[f"{_HELD}{index}"] for index in range(len(state)) if f"{_HELD}{index}" in state]
        waiting = [payload.little_endian(one).cast("B").toreadonly() for one in buffers]
        values = state.get(f"{_HELD}values")
        self._held = int(state[f"{_HELD}round"]), waiting
        self._released = self.codec.decode(self._rank, waiting) if values is None else [host(values)]
        self._residual = state.get(f"{_HELD}residual")

    def _lost(self) -> Tensor | None:
        """What encoding lost of the newest release, which the mix is added to."""
        return self._residual

    def _sum(
        self, into: Tensor, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Mapping[int, float]
    ) -> bool:
        if self._before is None:
            return super()._sum(into, bodies, row, distances)
        with torch.no_grad():
            return weighted_sum(into, [(self._own(), 1.0), *self._differences(bodies, row)])

    def _differences(self, bodies: Mapping[int, Vectors], row: Mapping[int, float]) -> list[tuple[Vectors, float]]:
        """The terms of theta * sum of W_ij (z_j - z_i), in rank order."""
        assert self._before is not None
        others: Collection[int] = row.keys() - {self._rank}
        own = -self.late_share * sum(row[rank] for rank in sorted(others))
        return [
            (self._before, own) if rank == self._rank else (bodies[rank], self.late_share * row[rank])
            for rank in sorted(row)
        ]


class OverlappedPrivate(Overlapped, PrivateGossip):
    """The same of releases that are clipped, noised and charged; updates are counted from what mixing gave."""
