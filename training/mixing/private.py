"""Gossip with client-level differential privacy: releases are clipped, noised and charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dpeer.exceptions import CheckpointError
from dpeer.privacy import ClientSession, Clipped, Vector, privatize
from dpeer.training import payload
from dpeer.training.codecs.base import Dense
from dpeer.training.device import host
from dpeer.training.flat import Exchanged
from dpeer.training.mixing.gossip import Gossip, Weigh
from dpeer.training.mixing.guard import Guard, Vectors
from dpeer.training.payload import Payload
from dpeer.training.randomness import Purpose, stream


class PrivateGossip(Gossip):
    """Sends z = base + clip(body - base, C) + noise, the same bytes to all neighbors and whenever they are sent again.

    `base` is the body that the last mixing gave (at first the common initial body), so a function of what has been
    released; the own part of the mix is z, too, or the base in a round without a release of one's own. z is rounded to
    what travels, noise and all. The seed is for masks that are drawn without the data.
    """

    def __init__(
        self, body: Exchanged, rank: int, codec: Dense, guard: Guard, session: ClientSession, seed: int
    ) -> None:
        super().__init__(body, rank, codec, guard)
        self._dtype, self._session, self._seed = codec.dtype, session, seed
        self._rebased(self._own_values())
        self._met: Clipped | None = None
        self._again = False

    @property
    def spent(self) -> dict[str, Any]:
        """See `TorchLearner.privacy`."""
        return {**self._session.spent(self._met), "sent_again": self._again}

    def release(self, number: int, receivers: Sequence[int] = ()) -> Payload | None:
        """The round's bytes, which are noised once; None if they are gone from the disk. See `ClientSession`."""
        self._met = None
        sent, self._again = self._session.release(number, lambda: self._make(number), receivers)
        if sent is None:
            self._released = None
            return None
        if len(sent) != self.codec.payload_bytes:
            raise CheckpointError(
                f"the release of round {number} in the privacy ledger has {len(sent)} bytes, the body "
                f"{self.codec.payload_bytes}: it is of another model or --compress"
            )
        self._released = self.codec.decode([sent])
        return [memoryview(sent)]

    def _make(self, number: int) -> bytes:
        kept, guarantee = self._session.sparsifier, self._session.guarantee
        mask = kept.mask(self._body.count, stream(self._seed, Purpose.SPARSIFY, number))
        released, self._met = privatize(
            self._base,
            self._own_values(),  # a copy: no other writer to the body comes between clipping and sending
            guarantee.clip_norm,
            guarantee.noise_std,
            kept=kept,
            mask=mask,
            largest=payload.largest(self._dtype),
            threads=torch.get_num_threads(),
        )
        return bytes(payload.encode(torch.from_numpy(released), self._dtype))

    def _add(self, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Mapping[int, float]) -> bool:
        # The base is the sum itself and not the body, to which other threads may write.
        mixed = torch.empty_like(self._body.data)
        finite = self._sum(mixed, bodies, row, distances)
        with torch.no_grad():
            self._body.data.copy_(mixed)
        self._rebased(mixed.cpu().numpy())
        return finite

    def _own(self) -> Vectors:
        """The released values; the base without a release, for the body may hold what was not noised."""
        return [torch.from_numpy(self._base)] if self._released is None else self._released

    def adopt(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """See `Gossip.adopt`; trackers stay in the base, too, as the last mixing gave them."""
        before = self._base
        refused = super().adopt(received, weigh)
        for part in self._body.trackers:
            self._base[part] = before[part]
        return refused

    def rebase(self) -> None:
        """See `Gossip.rebase`."""
        self._rebased(self._own_values())

    def _rebased(self, base: Vector) -> None:
        """The base, which need not be the body: an algorithm may have changed what mixing gave."""
        self.state["base"] = torch.from_numpy(base)

    @property
    def _base(self) -> Vector:
        base: Vector = self.state["base"].numpy()
        return base

    def _own_values(self) -> Vector:
        values: Vector = host(self._body.data).numpy()
        return values
