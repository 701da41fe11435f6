"""Mass of a body: its column sum, from the mixes that neighbors name; and each neighbor's last known mix; no I/O.

Row i of a round's mixing matrix has the weights with which peer i mixed, and sums to one. Column j has those with which
body j was mixed, by its own peer and by its out-neighbors. Where all columns sum to one, mixing keeps the mean of all
bodies. A body that is lost in one direction breaks that: if i misses the body of j and j mixes that of i, the weight of
the missing one goes to i itself, so column i has W_ij too much and column j as much too little.

Headers of a round name whose bodies of the round before their sender has missed. So a peer knows its own column one
round later. Over all peers the errors sum to zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpeer.peer.core.schedule import Schedule

_SAME = 1e-9
"""How far a sum of weights may be from one and count as one."""

_BEHIND, _AHEAD = 1, 2
"""Of how many rounds before the last one, and after it, neighbors' mixes are kept."""


@dataclass(frozen=True)
class Mix:
    """Which bodies of a round a peer has mixed.

    Attributes:
        missed: The in-neighbors whose bodies were no part of it.
        adopted: Whether the others' mean took the place of its own body.
    """

    missed: Collection[int] = ()
    adopted: bool = False


ALL = Mix()
"""The bodies of all in-neighbors."""


@dataclass(frozen=True)
class MassChange:
    """What a round did to the weight of a peer's body, whose column sums to one plus both.

    Attributes:
        error: The sum of the column less one, as if no peer had adopted.
        adopted: What adoptions add: the weights with which returners took this body for theirs; -1 for a peer that
            adopted, because none of its own body is left.
    """

    error: float
    adopted: float


class Mass:
    """The weight of a peer's body in each of its last rounds.

    Args:
        rank: The peer.
        schedule: The graphs, with the listed weights.

    Attributes:
        confirmed: By rank, the last round of which it has named this peer's body as part of its mix.
    """

    def __init__(self, rank: int, schedule: Schedule) -> None:
        self._rank, self._schedule = rank, schedule
        self._own: dict[int, tuple[Mix, bool]] = {}
        self._others: dict[int, dict[int, Mix]] = {}
        self._last = -1
        self.confirmed: dict[int, int] = {}

    def note(self, number: int, heard: Collection[int], *, adopted: bool, released: bool) -> None:
        """Take in what this peer itself has mixed.

        Args:
            number: The round.
            heard: The ranks whose bodies were part of the mix.
            adopted: Whether their mean took the place of the own body.
            released: Whether this peer released a body in the round.
        """
        missed = [rank for rank in self._schedule.at(number).in_neighbors if rank not in heard]
        self._own[number], self._last = (Mix(missed, adopted), released), number
        for table in (self._own, self._others):
            for old in [one for one in table if one < number - _BEHIND]:
                del table[old]

    def hear(self, rank: int, number: int, mix: Mix) -> None:
        """Take in what a neighbor says of its mix of round `number`; rounds that are far away are of no use."""
        if self._last - _BEHIND <= number <= self._last + _AHEAD:
            self._others.setdefault(number, {})[rank] = mix
            if number >= 0 and not mix.adopted and self._rank not in mix.missed:
                self.confirmed[rank] = max(number, self.confirmed.get(rank, number))

    def mix(self, number: int) -> Mix:
        """Which bodies of round `number` this peer has mixed, for its messages; all, where it had not begun then."""
        return self._own[number][0] if number in self._own else ALL

    def change(self, number: int) -> MassChange | None:
        """What round `number`, one of the last two, did; None where an out-neighbor has not named its mix."""
        if number not in self._own:
            return None
        (own, released), graph = self._own[number], self._schedule.at(number)
        heard = [rank for rank in graph.in_neighbors if rank not in own.missed]
        column = [1.0 if own.adopted else graph.row.restricted_to(heard)[self._rank]]
        adopted = [-1.0 if own.adopted else 0.0]
        for rank in graph.out_neighbors if released else ():
            mix = self._others.get(number, {}).get(rank)
            if mix is None:
                return None
            if self._rank in mix.missed:
                continue
            there = self._schedule.of(rank, number)
            if mix.adopted:
                near: Sequence[int] = [one for one in there.in_neighbors if one not in mix.missed]
                adopted.append(there.row.without_own(near)[self._rank])
            else:
                column.append(there.row[self._rank])
        error = math.fsum([*column, -1.0])
        return MassChange(0.0 if abs(error) < _SAME else error, math.fsum(adopted))
