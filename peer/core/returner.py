"""Returner: rounds that a left-behind peer sits out, bodies it adopts, and its entry; no I/O.

A *returner* is a peer without which the others have gone on: it was asleep, cut off or restarted, or has lost its disk.
It sits out rounds up to that of its neighbors. There it takes their bodies and gives none. Its learner replaces its own
body by their mean (`Learner.adopt`), and in the next round, its entry, the peer takes part again.

The entry is announced as soon as it is known, so that neighbors wait for its body from then on and not before. A
neighbor that hears of it late waits in whatever round it is, until a later entry is announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from dpeer.peer.core.bodies import Inbox
from dpeer.peer.core.membership import Membership, Neighbor
from dpeer.peer.core.schedule import Schedule

_WENT_ON = "the others went on without this peer (was it asleep, cut off or restarted?)"


class Entry:
    """A peer's way back to the others, if it was left behind.

    Args:
        schedule: The neighbors of each round.
        members: How far they are.
        inbox: The bodies that came.
        log: As that of an `Inbox`.
        shares: Whether peers send anything that can be adopted.
        earliest: The round before which this peer releases nothing: a disk that was lost may have.
        completed: How many rounds a rank has completed, by the word of others.

    Attributes:
        enters: The round that it announces, that after the last one if none is known yet. It stays until the round
            after it begins: a message that leaves before its entry is on disk names an earlier round. Else 0.
        since: The first of the rounds that it sits out; None while it takes part.
        adopted: The round whose bodies it has adopted since it was left behind; None without one.
        left_behind: How many rounds this peer has sat out because the others had gone past them.
    """

    def __init__(
        self,
        schedule: Schedule,
        members: Membership,
        inbox: Inbox,
        log: Callable[..., None] = lambda *event, **fields: None,
        *,
        shares: bool,
        earliest: int = 0,
        completed: Callable[[int], int] = lambda rank: 0,
    ) -> None:
        self.enters = self.left_behind = 0
        self.since: int | None = None
        self.earliest = earliest
        self.adopted: int | None = None
        self._schedule, self._members, self._inbox = schedule, members, inbox
        self._shares, self._adopts, self._arrived = shares, False, False
        self._log, self._completed = log, completed

    def behind(self, number: int) -> bool:
        """Whether this peer sits round `number` out, because the others went on without it.

        It begins to when a neighbor of the round is further ahead than it can be with this peer's bodies, and a quorum
        has completed the round. In every other case this peer runs the round, and neighbors ahead wait.

        A peer that is not behind, and releases nothing yet, announces when it will, so that no neighbor waits for a
        body before. Two such neighbors would wait for each other.
        """
        since = self.since
        found = self._judge(number)
        if found:
            self.left_behind += 1
            if since is None:
                self._log(
                    "warning", "left-behind",
                    f"{_WENT_ON}: from round {number + 1} on it neither trains nor sends until it has caught up",
                    round=number,
                )  # fmt: skip
        elif since is not None:
            rounds = "round" if number == since + 1 else f"rounds {since + 1} to"
            body = "the mean of its neighbors' bodies" if self.adopted == number - 1 else "its own body"
            self._log(
                "info", "caught-up", f"sat out {rounds} {number}, and goes on with the others, with {body}",
                round=number,
            )  # fmt: skip
        return found

    def _judge(self, number: int) -> bool:
        if self.since is None:
            if not self._is_left_behind(number):
                self.enters = min(self.earliest, self._schedule.rounds) if number < self.earliest else 0
                return False
            rest = range(number, self._schedule.rounds)
            self.since, self.adopted = number, None
            self._adopts = self._shares and any(self._schedule.at(one).in_neighbors for one in rest)
        elif self._may_enter(number):
            self.since, self.enters = None, number
            return False
        self._arrived = self._past(number) <= self._is_last(number)
        self.enters = self._entry(number)
        return True

    def begin_anew(self) -> None:
        """Begin as a returner: the others have trained without this peer, which has nothing that it could give."""
        self.since, self._adopts = 0, self._shares

    def adopt(self, number: int) -> None:
        """Note that this peer's body is the mean of its neighbors' of round `number`."""
        self.adopted = number

    @property
    def lacks_a_body(self) -> bool:
        """Whether this peer was left behind, and has found no body to adopt."""
        return self._adopts and self.adopted is None

    def coming(self, number: int) -> list[int]:
        """The ranks whose body of round `number`, which this peer sits out, is not here and will come.

        They are in that round, with the list of this peer. One that is past it and has sent none may have sat it out.
        After the last round all that have completed it stay until this peer has its bodies.
        """
        uses = self._schedule.uses(number)
        return [
            rank
            for rank in self._schedule.at(number).in_neighbors
            if not self._inbox.has(rank, number)
            and self._members.is_there(rank)
            and self._members[rank].enters <= number
            and (not uses or self._members[rank].uses in (b"", uses))
            and number <= self._members[rank].current_round <= number + self._is_last(number)
        ]

    def verdict(self, number: int) -> Literal["adopt", "wait", "over"]:
        """What to do about round `number`, which this peer sits out.

        Where a neighbor was past it from the beginning, it is not the round whose bodies are adopted: the neighbor
        would wait in its own round for a body whose training begins only now. One that is further back is waited for,
        as by every peer that is ahead, unless a quorum is past the round and another one follows.
        """
        past = self._past(number)
        if not self._adopts or not self._arrived or past > 1:
            return "over"
        if self.coming(number):
            return "wait"
        if any(self._inbox.has(rank, number) for rank in self._schedule.at(number).in_neighbors):
            return "adopt"
        if past or (self._members.passed(number) and not self._is_last(number)):
            return "over"
        if any(self._members.is_there(one.rank) for one in self._near(number)):
            return "wait"
        others = self._going_on(one.rank for one in self._members.all())
        return "over" if any(one.current_round > number for one in others) else "wait"

    def _is_left_behind(self, number: int) -> bool:
        """Whether the others have gone past round `number`, so that this peer cannot run it with them any more.

        Neighbors that have completed all rounds do not count as long as others have not: those go on by themselves.
        """
        graph, rounds = self._schedule.at(number), self._schedule.rounds
        near = [self._members[rank] for rank in {*graph.in_neighbors, *graph.out_neighbors}]
        past = [one for one in near if self._round_of(one) > number and not self._fits(number, one)]
        if not past or not self._members.passed(number):
            return False
        over = all(self._round_of(one) == rounds for one in past)
        others = (one for one in self._members.all() if not one.away or self._members.is_done(one.rank))
        return not (over and any(self._fits(number, one) for one in others))

    def _fits(self, number: int, neighbor: Neighbor) -> bool:
        return self._schedule.fits(number, neighbor.rank, self._round_of(neighbor))

    def _round_of(self, neighbor: Neighbor) -> int:
        """A neighbor's round: by its own word while it is there, else others may know that it has gone on."""
        there = self._members.is_there(neighbor.rank)
        return neighbor.current_round if there else max(neighbor.current_round, self._completed(neighbor.rank))

    def _may_enter(self, number: int) -> bool:
        """Whether this peer, which sits rounds out, takes part in round `number`: no neighbor has completed it."""
        ready = self.adopted == number - 1 or not self._adopts
        return ready and number >= self.earliest and self._past(number) == 0

    def _entry(self, number: int) -> int:
        """The round to announce in round `number`: the next one, if neighbors are near enough to be met in it."""
        rounds, hears = self._schedule.rounds, bool(self._schedule.at(number).in_neighbors)
        if self._past(number) <= 1 and (hears or not self._adopts):
            return min(max(number + 1, self.earliest), rounds)
        return rounds

    def _past(self, number: int) -> int:
        """By how many rounds the furthest neighbor of round `number` that takes part is past it; 0 if none is."""
        return max([0, *(self._round_of(one) - number for one in self._near(number))])

    def _near(self, number: int) -> list[Neighbor]:
        """The neighbors of a round that take part."""
        graph = self._schedule.at(number)
        return self._going_on({*graph.in_neighbors, *graph.out_neighbors})

    def _is_last(self, number: int) -> bool:
        return number + 1 == self._schedule.rounds

    def _going_on(self, ranks: Iterable[int]) -> list[Neighbor]:
        """Those of these ranks that take part and have rounds left; if none has, all that took part."""
        some = [one for rank in ranks if not (one := self._members[rank]).sits_out]
        return [one for one in some if one.current_round < self._schedule.rounds] or some
