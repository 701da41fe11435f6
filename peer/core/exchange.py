"""Exchange: queues bodies and heartbeats, which bodies may leave, and ranks that hold up a round; no I/O.

Two rules keep the peers in step on every graph (docs/design.md). A round's body goes to an out-neighbor once that one
has reached the round before. A round is completed once the out-neighbors of the round before have used that round's
body.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Released
from dpeer.peer.core.returner import Entry
from dpeer.peer.core.state import State
from dpeer.peer.transport import Link

_LATE = 3
"""Bodies in a row that were too late for all neighbors, before a line of the log warns of it."""


class Exchange:
    """Bodies out and in.

    Attributes:
        paused: Whether this peer pauses; its heartbeats carry it.
        entry: This peer's way back, if it was left behind; hellos and heartbeats carry what it announces.
    """

    def __init__(self, state: State, entry: Entry, ledger_guard: LedgerGuard) -> None:
        self.entry, self.inbox, self.outbox, self.schedule = entry, state.inbox, state.outbox, state.schedule
        self._rank, self._federation = state.rank, state.federation
        self._members, self._round_clock, self._send_queues = state.members, state.round_clock, state.send_queues
        self._ledger_guard = ledger_guard
        self._first_release = math.inf
        self.paused = False

    # -- bodies go out -----------------------------------------------------------------------------------------

    def begin(self, number: int) -> None:
        """Make round `number` this peer's current round, and send it to the neighbors that wait for it."""
        self._members.current_round = number
        self._round_clock.reached(self._rank, number)
        self.inbox.open(number)
        self.outbox.reach(number)
        listeners = self.schedule.listeners(number)
        if number - 1 not in self.outbox:  # sat out: no body brings the out-neighbors this news
            listeners.update(self.schedule.at(number - 1).out_neighbors)
        # Bodies wait for a peer that was left behind, and then carry an earlier round: it would think itself hardly
        # behind, and train and release rounds that are over for the others.
        listeners.update([one.rank for one in self._members.all() if one.left_behind])
        self.send_heartbeats(sorted(listeners))

    def release(self, number: int, body: Released | None) -> None:
        """Send round `number`'s body to each out-neighbor once that one is known to have reached the round before.

        So no inbox has to keep bodies of more than the next round. On a mutual edge that stays, this is known already:
        the neighbor's body of the round before is here. A peer that releases nothing in the round sends its
        new round alone.
        """
        receivers = self.schedule.at(number).out_neighbors
        if body is None:
            self.send_heartbeats(receivers)
            return
        self._ledger_guard.releases(number)
        clock, self._first_release = self._round_clock, min(self._first_release, number)
        message = wire.body(
            self._federation,
            self._rank,
            number,
            body.payload,
            body.digest,
            clock.table,
            clock.stamps.table,
            self.schedule.uses(number),
        )
        self.outbox.add(number, wire.encode(message), receivers)
        self.outbox[number].unsent.update(receivers)
        self.deliver()

    def deliver(self) -> None:
        """Put the bodies for all receivers that are ready in their send queues."""
        pending = self.outbox.pending()
        if not pending or self._ledger_guard.why_no_release() is not None:  # this peer ends with its next wait
            return
        for number, rank in pending:
            neighbor, body = self._members[rank], self.outbox[number]
            there = neighbor.current_round
            if there > number and not self.schedule.fits(number, rank, there):
                body.unsent.discard(rank)  # it went on without this peer
            elif self._members.reachable(rank) and there >= number - 1:
                body.unsent.discard(rank)
                body.sent.add(rank)
                self._ledger_guard.has_sent |= number >= self._first_release
                self._send_queues.add_body(neighbor.link, number, body.frames)

    def send_heartbeats(self, ranks: Iterable[int]) -> None:
        """Tell neighbors by a heartbeat that this peer is alive, and its current round.

        A neighbor whose link is broken gets it once a new hello has been answered with the bodies that it lacks: a
        heartbeat that came before them would mean that they cannot come.
        """
        for rank in ranks:
            if self._members.reachable(rank):
                self.send_heartbeat(self._members[rank].link)

    def send_heartbeat(self, link: Link) -> None:
        """Say on this link that this peer is alive, and its current round."""
        self._send_queues[link].add_heartbeat(lambda: wire.encode(self.heartbeat(link)))  # as it is when it is written

    def parted(self, rank: int, unfinished: Iterable[int]) -> None:
        """Send these rounds' bodies anew when the rank is back, because its link broke before they were written."""
        for number in unfinished:
            if (body := self.outbox.get(number)) is not None:
                body.sent.discard(rank)
                body.unsent.add(rank)

    # -- ranks a round waits for ---------------------------------------------------------------------------------

    def awaited(self, number: int, now: float) -> list[int]:
        """The ranks whose body of round `number` is not here and may still come."""
        uses = self.schedule.fitting(number)
        return [
            rank
            for rank in self.schedule.at(number).in_neighbors
            if not self.inbox.knows(rank, number) and self._members.awaited(rank, number, now, uses)
        ]

    def unsettled(self, number: int, now: float) -> list[int]:
        """The ranks for which round `number` may not be completed yet.

        It may be once its body is on its way to every out-neighbor, and every out-neighbor of the round before has
        completed that one. From then on, of all that this peer released, only the body that goes into the checkpoint
        can still be needed. A neighbor that is not waited for does not count, and where nothing was released in the
        round before none does: a returner passes slow neighbors on its way to those who are ahead.
        """
        earlier = self.schedule.at(number - 1).out_neighbors if number - 1 in self.outbox else ()
        behind = {rank for rank in earlier if self._members.holds_up(rank, number, now)}
        unsent = self.outbox[number].unsent if number in self.outbox else ()
        return sorted(behind.union(rank for rank in unsent if self._members.waited_for(rank, number, now)))

    def unfinished(self, rounds: int, now: float) -> list[int]:
        """The ranks that may still ask for a body after this peer's last round.

        A neighbor that has completed the last round has every body it needs, and will not ask for one again. One that
        has come back needs this peer for its return, whether it has announced that yet or not.
        """
        return [
            one.rank
            for one in self._members.all()
            if one.current_round < rounds
            and ((self._members.is_there(one.rank) and not one.overdue) or self._members.comes_back(one.rank, now))
        ]

    def over(self, number: int) -> bool:
        """Whether all neighbors have completed all rounds, and none has a body left that this peer can use.

        Those that are still there have the last ones, which this peer can adopt, and wait for it once it says so.
        """
        every = self._members.all()
        if not every or any(one.current_round < self.schedule.rounds for one in every):
            return False
        if any(self.inbox.has(one.rank, number) for one in every):
            return False
        if any(self._members.is_there(one.rank) for one in every):
            return False
        returns = self.entry.since is not None
        return returns or not any(self.schedule.fits(number, one.rank, one.current_round) for one in every)

    def heartbeat(self, link: Link) -> wire.Heartbeat:
        """The heartbeat for a link, at this moment."""
        return wire.Heartbeat(
            rank=self._rank,
            federation=self._federation,
            round=self._members.current_round,
            presence=self._round_clock.table,
            paused=self.paused,
            enters=self.entry.enters,
            got=self._send_queues[link].got,
            stamps=list(self._round_clock.stamps.table),
            uses=self.schedule.uses(self._members.current_round),
        )


class Lateness:
    """Sees whether the neighbors have gone past the round that this peer trains.

    Attributes:
        late_bodies: How many bodies this process has trained after all neighbors had completed their round.
        in_vain: Whether the body that is trained would be sent to no neighbor, as far as is known: all went on without
            this peer, which was suspended or is too slow. Then it is not released, and nothing is charged for it.
    """

    def __init__(self, state: State) -> None:
        self.late_bodies = self._in_a_row = 0
        self.in_vain = False
        self._schedule, self._members, self._log = state.schedule, state.members, state.log
        self._training: int | None = None

    def begin_training(self, number: int) -> None:
        """Round `number`'s local training begins."""
        self._training, self.in_vain = number, False

    def look(self) -> None:
        """See whether the body that is trained is of use to a neighbor."""
        if self._training is not None:
            self.in_vain = self._members.passed(self._training) and self._reaches_none(self._training)

    def note_release(self, number: int, *, released: bool, perhaps_released_before: bool) -> None:
        """Count the body of round `number` if it comes too late, and warn when several in a row do.

        Args:
            number: The round.
            released: Whether it has a body that is sent.
            perhaps_released_before: Whether an earlier process may have released it: then it counts as on time.
        """
        withheld, self.in_vain, self._training = self.in_vain and not released, False, None
        if perhaps_released_before or not (released or withheld):
            return
        if not self._too_late(number):
            self._in_a_row = 0
            return
        self.late_bodies += 1
        self._in_a_row += 1
        if self._in_a_row in (_LATE, 10 * _LATE, 100 * _LATE):
            self._log(
                "warning", "too-slow",
                f"the last {self._in_a_row} bodies that this peer has trained came after all its neighbors had "
                "completed the round, so no peer mixes them: its rounds take longer than the neighbors wait (their "
                "--deadline); let it train less in a round (--round-seconds auto, or a smaller --body-epochs) or on a "
                "faster device, or the neighbors wait longer",
                round=number,
            )  # fmt: skip

    def _too_late(self, number: int) -> bool:
        """Whether all out-neighbors have completed round `number` before its body is released: no peer mixes it."""
        receivers = self._schedule.at(number).out_neighbors
        return bool(receivers) and all(self._members[rank].current_round > number for rank in receivers)

    def _reaches_none(self, number: int) -> bool:
        """Whether a body of round `number` would be sent to no neighbor, because all went on without this peer."""
        receivers = self._schedule.at(number).out_neighbors
        there = {rank: self._members[rank].current_round for rank in receivers}
        return bool(there) and all(
            past > number and not self._schedule.fits(number, rank, past) for rank, past in there.items()
        )


class LedgerGuard:
    """Compares what others know of this peer's releases with what its folder counts.

    Before the first body of this process has left, a difference ends the peer: its folder is an older copy, or new.
    Afterwards it is a warning, since any member may write rounds into its tables, and so would end a peer that trains.

    Attributes:
        has_sent: Whether a body that this process has released has left.
    """

    def __init__(self, state: State) -> None:
        self.has_sent = False
        self._config, self._round_clock, self._log = state.config, state.round_clock, state.log
        self._released = 0
        self._own = 0 if self._config.counted is None else self._config.counted.releases
        self._warned = False

    def note(self, released: int) -> None:
        """Note that a neighbor has had bodies of so many of this peer's rounds."""
        self._released = max(self._released, released)

    def releases(self, number: int) -> None:
        """Note that this process releases a round's body."""
        self._own = max(self._own, number + 1)

    def why_no_release(self) -> str | None:
        """The reason why no release may leave; None if one may.

        A claim counts as far as a quorum lets a peer come, for any member may make one. A peer that has completed n
        rounds may have released the next one, too. Rounds that this peer has sat out count beside the rounds that
        others know it to have completed, and not beside those whose bodies they have.
        """
        counted, clock = self._config.counted, self._round_clock
        if counted is None:
            return None
        own = max(counted.rounds, clock[self._config.rank])
        claimed = max(clock.remembered, self._released)
        most = min(clock.quorum_with(claimed) + clock.slack + 1, clock.rounds)
        completed = min(clock.remembered, most) > own
        if not completed and min(self._released, most) <= self._own:
            return None
        perhaps, own = (clock.remembered + 1, own) if completed else (self._released, self._own)
        perhaps = min(max(perhaps, self._released), most)
        rounds = "1 round" if perhaps == own + 1 else f"{perhaps - own} rounds"
        found = (
            f"{rounds} may have been released that this folder does not know (it counts {own} of rank "
            f"{self._config.rank}): put back a newer copy, or state --rounds-released {perhaps}, which charges them at "
            "this run's settings"
        )
        if not self.has_sent:
            return found
        if not self._warned:
            self._warned = True
            self._log("warning", "ledger", f"{found}; until then epsilon counts what this folder's ledger has alone")
        return None
