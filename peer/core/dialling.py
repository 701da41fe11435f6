"""Dialling: which of two ranks dials, the links dialled, and when a silent one is dialled anew; no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dpeer.peer.core.effects import Dial, Effect
from dpeer.peer.core.membership import Neighbor
from dpeer.peer.transport import RELAY, Link

_LONGEST = 60.0
"""Seconds between two attempts to dial a rank that stays silent, at most."""


class Place(NamedTuple):
    """Where a rank is by the member lists: a rank at another place is dialled anew.

    Attributes:
        address: Its address; None for that at the start.
        keys: The public keys of which it has one, hexadecimal.
    """

    address: str | None = None
    keys: tuple[str, ...] = ()


@dataclass
class Dialled:
    """A link that this peer has dialled.

    Attributes:
        rank: The rank that should answer.
        since: Clock time at which it was dialled.
        patience: Seconds of silence after which the rank is dialled again.
        place: Where the rank was when it was dialled.
        unanswered: Clock time at which the hello is repeated, because no answer has come since the link was
            established; infinity while it is not established; None once it was answered.
    """

    rank: int
    since: float
    patience: float
    place: Place
    unanswered: float | None = math.inf


def dials(rank: int, other: int, addresses: Mapping[int, str]) -> bool:
    """Whether of two neighbors this rank is the one that dials.

    It does if the other one alone has an address; if both have one, the lower rank does. An address behind a relay
    counts only where the other end has no direct one.
    """
    here, there = (_directness(addresses.get(one)) for one in (rank, other))
    return there > here or (there == here > 0 and rank < other)


def _directness(address: str | None) -> int:
    if address is None:
        return 0
    return 1 if address.startswith(RELAY) else 2


class Dialling:
    """All dialled links.

    A connection can die without a word, for example because a box on the way that translates addresses has forgotten
    it, and the operating system may take a quarter of an hour to notice. And a rank's name may stand for another
    address by now. So a rank that has been silent for long is dialled anew.

    Args:
        patience: Seconds of silence after which a rank is dialled again, the first time.
        where: Where the member lists say that a rank is.
    """

    def __init__(self, patience: float, where: Callable[[int], Place] = lambda rank: Place()) -> None:
        self._patience, self._where = patience, where
        self._links: dict[Link, Dialled] = {}
        self._waits: dict[int, float] = {}
        self._begun: set[int] = set()

    def begin(self, ranks: Iterable[int]) -> list[Effect]:
        """Dial these ranks, except those that are dialled already.

        Of two links to one rank each new connection would end the other's, where keys show whose they are.
        """
        found = sorted({*ranks} - self._begun - {one.rank for one in self._links.values()})
        self._begun.update(found)
        return [Dial(rank, self._where(rank).address) for rank in found]

    def add(self, rank: int, link: Link, now: float) -> None:
        """Note that the rank is dialled on this link."""
        self._begun.discard(rank)
        self._links[link] = Dialled(rank, now, self._waits.get(rank, self._patience), self._where(rank))

    def get(self, link: Link) -> Dialled | None:
        """The link, if this peer has dialled it."""
        return self._links.get(link)

    def all(self) -> list[tuple[Link, Dialled]]:
        """All links."""
        return list(self._links.items())

    def answered(self, link: Link) -> None:
        """Note the hello of the other side."""
        if link in self._links:
            self._links[link].unanswered = None

    def forget(self, link: Link) -> None:
        """Forget a link that is given up for good."""
        self._links.pop(link, None)

    def welcome(self, rank: int) -> None:
        """Note that the rank takes part: the next silence is judged like the first one."""
        self._waits.pop(rank, None)

    def overdue(self, link: Link, neighbor: Neighbor, now: float) -> bool:
        """Whether the rank of this link is to be dialled anew; if so, forgets the link.

        A rank that a list has given another address or key has it once it is not heard by the old one any more.
        """
        one = self._links[link]
        if one.place != self._where(one.rank) and (neighbor.link != link or neighbor.away):
            del self._links[link]
            return True
        if now - max(one.since, neighbor.heard_at) < one.patience:
            return False
        self._waits[one.rank] = min(2 * one.patience, max(_LONGEST, self._patience))
        del self._links[link]
        return True
