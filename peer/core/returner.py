"""Return of a peer: the rounds that it sits out, the bodies that it adopts, the round of its entry; no I/O.

A *returner* is a peer without which the others have gone on: it was asleep, cut off or restarted, or has lost its disk.
It sits out the rounds that are over. In the round in which its neighbors are it takes their bodies and gives none. Its
learner replaces its own body by their mean (`Learner.adopt`), and in the next round the peer takes part again.

That round is announced, so that neighbors wait for its body from then on and not before. If bodies come too late for
it, the returner announces another: at last one for which they come in time, since each distance is twice the last one.
"""

from __future__ import annotations

import math

from dpeer.peer.core.bodies import Inbox
from dpeer.peer.core.limits import MOST_HOPS
from dpeer.peer.core.membership import Membership, Neighbor
from dpeer.peer.core.schedule import Schedule

_MOST_REMEMBERED = 2**31
"""A later incarnation than any return leads to. What a neighbor claims beyond it does not raise a peer's own, which
could not be sent at the end."""

_LONGER = 0.1
"""How much longer than until a neighbor went on a returner waits for the other neighbors' bodies, as a share."""


class Entry:
    """A peer's way back to the others, if it was left behind.

    Args:
        schedule: The neighbors of each round.
        members: How far they are.
        inbox: The bodies that came.
        rejoin_after: A peer that sits out at most so many rounds keeps its own body.
        shares: Whether peers send anything that can be adopted.
        patience: Seconds that a returner waits at least for bodies that are on their way.
        earliest: The round before which this peer releases nothing: a disk that was lost may have.

    Attributes:
        hops: While this peer sits rounds out: how many hops it is from those who went on. 0 otherwise.
        enters: The round that it announces; 0 while it takes part.
        since: The first of the rounds that it sits out; None while it takes part.
        earliest: As given.
        has_adopted: Whether its body is the mean of its neighbors', since it was left behind the last time.
        incarnation: Grows with every return, so that neighbors notice that what they keep of this peer is worthless.
    """

    def __init__(
        self, schedule: Schedule, members: Membership, inbox: Inbox, rejoin_after: int, shares: bool, patience: float,
        earliest: int = 0,
    ) -> None:  # fmt: skip
        self.hops = self.enters = self.incarnation = 0
        self.since: int | None = None
        self.earliest = earliest
        self._schedule, self._members, self._inbox = schedule, members, inbox
        self._rejoin_after, self._shares, self._patience = rejoin_after, shares, patience
        self._adopts = self.has_adopted = self._renewed = False
        self._lost_with = -1
        self._too_late = 0
        self._gone_on: float | None = None
        self._asked: set[int] = set()

    # -- sitting out, and entering -----------------------------------------------------------------------------

    def behind(self, number: int) -> bool:
        """Whether the others went on without this peer, so that it sits round `number` out.

        It begins to when a neighbor of the round is further ahead than it can be with this peer's bodies, and a quorum
        has completed the round. In every other case this peer runs the round, and neighbors ahead wait. (A neighbor
        that is merely one round ahead may have used this round's body before both were stopped, and its own still
        comes.) It goes on until the round that it has announced, or until the next one that no neighbor has completed
        if it has sat out so few that it keeps its own body.

        Neighbors that have completed all rounds do not count as long as others have not: those go on by themselves.
        Where edges change, nor do they as long as this peer is as far as a neighbor of other rounds.

        A peer that is not behind, and releases nothing yet, announces when it will, so that no neighbor waits for a
        body before. Two such neighbors would wait for each other.
        """
        near = self._near(number)
        past = [one for one in near if self._is_past(number, one)]
        if self.since is None:
            self.enters = min(self.earliest, self._schedule.rounds) if number < self.earliest else 0
            if not past or not self._members.passed(number) or self._keeps_up(number, past):
                return False
            self._begin(number)
        if found := [one.hops + 1 for one in past]:
            self.hops = min(*found, self.hops or MOST_HOPS, MOST_HOPS)
        if not past and self._may_enter(number):
            self.hops = self.enters = 0
            self.since = None
            return False
        self._announce(number)
        return True

    def _keeps_up(self, number: int, past: list[Neighbor]) -> bool:
        """Whether those past round `number` have completed all rounds, and another neighbor is as far as this peer."""
        over = all(one.current_round == self._schedule.rounds for one in past)
        return over and any(
            self._schedule.fits(number, one.rank, one.current_round)
            for one in self._members.all()
            if not one.away or self._members.is_done(one.rank)
        )

    def _near(self, number: int) -> list[Neighbor]:
        graph = self._schedule.at(number)
        return self._running([self._members[rank] for rank in {*graph.in_neighbors, *graph.out_neighbors}])

    def _running(self, near: list[Neighbor]) -> list[Neighbor]:
        return [one for one in near if one.current_round < self._schedule.rounds] or near

    def _first(self, near: list[Neighbor], number: int) -> int:
        """The furthest round that a neighbor which goes on is known to be in, or at least `number`."""
        return max((one.current_round for one in near if self._goes_on(one)), default=number)

    def _is_past(self, number: int, neighbor: Neighbor) -> bool:
        there = neighbor.current_round
        if self.since is None:
            return there > number and not self._schedule.fits(number, neighbor.rank, there)
        return there > number and self._goes_on(neighbor)

    def _goes_on(self, neighbor: Neighbor) -> bool:
        """Whether this peer, which sits rounds out, follows the neighbor: it takes part, or is nearer to the others.

        Two that sit rounds out and followed each other would pass all who take part.
        """
        return neighbor.hops == 0 or neighbor.hops < self.hops

    def _begin(self, number: int) -> None:
        self.since = number
        self.hops = self.enters = self._too_late = 0
        self.has_adopted = self._renewed = False
        rest = range(number, self._schedule.rounds)
        self._adopts = self._shares and any(self._schedule.at(one).in_neighbors for one in rest)

    def _may_enter(self, number: int) -> bool:
        """Whether this peer takes part in round `number`, which no neighbor that takes part has completed."""
        if number < self.earliest:
            return False
        if self.has_adopted:
            return number >= self.enters
        return self._is_near(number) or not self._adopts

    def _is_near(self, number: int) -> bool:
        """Whether this peer has been away for so few rounds before `number` that it keeps its own body.

        A quorum that is further shows that it was away for more, even where its neighbors are still on the way.
        """
        few = self.since is not None and number - self.since <= self._rejoin_after
        return few and not self._members.passed(number + self._rejoin_after)

    def _announce(self, number: int) -> None:
        """Choose the round of the entry anew if neighbors have reached it; each that it misses is further ahead.

        A peer that keeps its own body needs none of theirs first: it is the next one.
        """
        if self.keeps_its_own(number):
            self.enters = max(number + 1, min(self.earliest, self._schedule.rounds))
            return
        furthest = self._first(self._running(self._members.all()), number)
        # Where edges change, one that is far ahead counts in the rounds that it shares with this peer.
        open_from = max(number, furthest) + 1
        while open_from > number + 1 and self._there(open_from - 1, furthest) < open_from - 1:
            open_from -= 1
        if self.enters >= max(open_from, min(self.earliest, self._schedule.rounds)):
            return
        # No body can come before a neighbor that it hears takes part: until then it is not this peer that is too slow.
        heard = {rank for one in range(number, open_from) for rank in self._schedule.at(one).in_neighbors}
        first = min((self._members[rank].enters for rank in heard), default=0)
        adopts = self.since is not None and self.enters > self.since + self._rejoin_after
        if number + 1 >= self.enters and adopts and first < open_from:
            self._too_late += 1
        ahead = 2 ** max(0, self._too_late - 1)
        self.enters = min(max(open_from - 1 + ahead, first + 1, self.earliest), self._schedule.rounds)

    def _there(self, number: int, unknown: int) -> int:
        """How far the neighbors of a round are that go on; at least `unknown` if none of them is heard at present."""
        near = self._near(number)
        there = self._first(near, number)
        return there if any(not one.away for one in near) else max(there, unknown)

    # -- adopting ----------------------------------------------------------------------------------------------

    def over_at(self, number: int, awaited: bool, since: float, now: float) -> float:
        """The clock time until which a returner waits for bodies of round `number`; infinity if that is not known yet.

        It waits for all of them as long as no neighbor goes on. Then it does not hold that one up for much longer.

        Args:
            number: The round, which this peer sits out.
            awaited: Whether a body may still come.
            since: The clock time at which the wait began.
            now: The present one.
        """
        graph = self._schedule.at(number)
        if not self._adopts or self.keeps_its_own(number):
            return now
        if not graph.in_neighbors:
            enters = self.has_adopted and number + 1 >= self.enters
            return math.inf if self._would_lead(number) and not enters else now
        there = self._first(self._near(number), number)
        asked = any(self._members[rank].asked == number for rank in graph.in_neighbors)
        if there <= number:
            self._gone_on = None
            here = any(self._inbox.has(rank, number) for rank in graph.in_neighbors)
            # Where edges change, all neighbors of a round may be returners, too: it brings none of them anything.
            none = all(self._members[rank].enters > number for rank in graph.in_neighbors)
            none &= any(one.current_round > number and self._goes_on(one) for one in self._members.all())
            # One that has adopted and announced a later round goes there with the others, and not ahead of them.
            enters = self.has_adopted and number + 1 >= self.enters
            # Returners alone are near: it goes as far as a quorum has, and no further.
            over = self._members.passed(number) and not asked
            return now if not awaited and (here or enters or none or over) else math.inf
        if self._gone_on is None:
            self._gone_on = now
        if there > number + 1 or number + 1 < self.enters or not (awaited or asked):
            return now  # the round is over, or an earlier one than that of which the bodies are needed
        if number + 1 == self._schedule.rounds:
            return math.inf  # no later round can be entered, and no neighbor is held up
        return self._gone_on + max(self._patience, _LONGER * (self._gone_on - since))

    def _would_lead(self, number: int) -> bool:
        """Whether none that goes on is known to have completed round `number`, in which no body comes.

        Where returners alone are heard, a quorum shows whether one has.
        """
        rounds = [one.current_round for one in self._members.all() if not one.away and self._goes_on(one)]
        return max(rounds) <= number if rounds else not self._members.passed(number)

    def keeps_its_own(self, number: int) -> bool:
        """Whether this peer adopts nothing in round `number`: it may go on with its own body after it."""
        return self._is_near(number + 1)

    def collect(self) -> None:
        """Begin to wait for a round's bodies."""
        self._gone_on, self._asked = None, set()

    def to_ask(self, number: int) -> list[int]:
        """The in-neighbors that still have round `number`'s body, and send it if they are asked by a hello; each once.

        They have named the next round before they knew that this peer has use for it.
        """
        if self.since is None or not self._adopts or number + 1 < self.enters:
            return []
        found = []
        for rank in self._schedule.at(number).in_neighbors:
            one = self._members[rank]
            has_it = one.mentioned == one.current_round == number + 1
            if has_it and self._members.reachable(rank) and not self._inbox.has(rank, number):
                found.append(rank)
        new = [rank for rank in found if rank not in self._asked]
        self._asked.update(new)
        return new

    @property
    def lacks_a_body(self) -> bool:
        """Whether this peer sits rounds out, and has found no body to adopt."""
        return self.since is not None and self._adopts and not self.has_adopted

    def adopt(self) -> None:
        """Note that this peer's body is the mean of its neighbors'."""
        self.has_adopted = True

    # -- incarnations ------------------------------------------------------------------------------------------

    @property
    def renewal(self) -> int | None:
        """The incarnation that this peer has to take, once it is on disk; None if it may keep its own.

        It takes one with every return, and where a neighbor remembers a later one than its disk does, or this one of a
        disk that was lost.
        """
        known = min(max((one.remembers for one in self._members.all()), default=0), _MOST_REMEMBERED)
        returns = self.since is not None and not self._renewed
        used = max(known - 1, self._lost_with) >= self.incarnation
        return max(self.incarnation, known, self._lost_with) + 1 if returns or used else None

    def lost_with(self, incarnation: int) -> None:
        """Note that a disk of this rank was lost that had this incarnation."""
        self._lost_with = max(self._lost_with, min(incarnation, _MOST_REMEMBERED))

    def renew(self, incarnation: int) -> None:
        """Take an incarnation that is on disk."""
        self.incarnation, self._renewed = incarnation, True
