"""The waits of a peer's round loop: for neighbors, bodies, the end of a round, a quorum; no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from dpeer.exceptions import CheckpointError, Drained, Isolated, LeftBehind
from dpeer.peer.config import PeerConfig
from dpeer.peer.core.bodies import Received
from dpeer.peer.core.effects import Deliver, Effect, Fail, Wake
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.ledger_guard import LedgerGuard
from dpeer.peer.core.membership import Membership, Status
from dpeer.peer.core.round_clock import NO_QUORUM, RoundClock
from dpeer.peer.core.round_deadline import LONGEST, RoundDeadline, Transfer, TransferProgress
from dpeer.peer.core.start_wait import StartWait
from dpeer.peer.core.wait import Pauses, Wait, WaitingNow

_SOON = 0.001
"""Seconds after a time at which something ends, so that it has ended whatever the rounding."""

NO_NEIGHBOR = "cut off from all neighbors"
"""Why a round may not begin; or `NO_QUORUM`."""

_WENT_ON = "the others went on without this peer (was it asleep, cut off or restarted?)"
_WITHOUT_IT = "the others have completed the run without this peer"

_AGAIN = 1.0
"""Seconds between two looks at bodies that are on their way when the deadline is over."""


class Waiting:
    """The wait of the round loop: its kinds, its ends, and the ranks that it is for.

    Args:
        slack: How many rounds more than a quorum this peer may have completed when it begins another one.
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.

    Attributes:
        start: The wait for the start.
        left_behind: How many rounds this peer has sat out because the others had gone past them.
        pauses: How often this peer has paused because it was cut off, and for how many seconds in all.
        slack: How many rounds more than a quorum this peer may have completed when it begins another one.
        drains: Whether this peer was asked to leave: it begins no other round.
        begun_at: Clock time at which the present round began; the one before may not have been on disk yet.
    """

    def __init__(
        self,
        config: PeerConfig,
        members: Membership,
        exchange: Exchange,
        round_clock: RoundClock,
        ledger_guard: LedgerGuard,
        slack: int,
        transfers: TransferProgress,
        log: Callable[..., None],
    ) -> None:
        self.start = StartWait(config, members, exchange, round_clock, log)
        self._ledger_guard = ledger_guard
        self.left_behind = 0
        self._config = config
        self._members = members
        self._exchange = exchange
        self._entry = exchange.entry
        self._round_clock = round_clock
        self.slack = slack
        self._transfers = transfers
        self._round_deadline = RoundDeadline(config.deadline)
        self.pauses = Pauses()
        self._mixed_nothing = False
        self._news_at = 0.0
        self._log = log
        self._wait: Wait | None = None
        self.drains = False
        self.begun_at = 0.0
        self._collected_at = math.inf
        self._since: int | None = None

    # -- kinds of waits ----------------------------------------------------------------------------------------

    def meet(self, now: float) -> None:
        """Wait until enough ranks have been there and all neighbors are; with no round left only for neighbors."""
        self._wait = self.start.begin(now)

    def pause(self, number: int, now: float) -> None:
        """Wait until round `number` may begin."""
        self._wait = Wait("pause", number, now, now, self._config.remind_every)
        if self.blocked(number) is NO_QUORUM:  # which word from others, that is on its way, may end at once
            self._wait.log_at += self._config.liveness.suspect_after
        self._news_at = now
        self._exchange.paused = True
        self._round_deadline.paused()
        self._exchange.send_heartbeats(one.rank for one in self._members.all())

    def news(self, now: float) -> None:
        """Note that some rank has come, or has completed more than was known: a pause counts from then."""
        self._news_at = now
        if self._wait is not None and self._wait.kind == "meet" and not self._round_clock.started:
            self._wait.log_at = min(self._wait.log_at, now + self._config.remind_every)

    def collect(self, number: int, now: float) -> None:
        """Wait for round `number`'s bodies."""
        self._wait = self._patient("collect", number, now)

    def settle(self, number: int, now: float) -> None:
        """Wait until round `number` may be completed."""
        self._wait = self._patient("settle", number, now)

    def linger(self, now: float) -> None:
        """Wait until no neighbor needs this peer any more."""
        self._wait = self._patient("linger", self._exchange.schedule.rounds, now)

    def part(self, number: int, now: float) -> None:
        """Wait until no neighbor needs the body of the round before `number`, which is not begun any more."""
        self._wait = self._patient("part", number, now)

    def over(self) -> None:
        """Wait for nothing."""
        self._wait = None

    def behind(self, number: int) -> bool:
        """Whether the others have gone past round `number` without this peer; logs it, and announces the entry."""
        announced = self._entry.enters
        found = self._entry.behind(number)
        if self._entry.enters != announced:
            self._exchange.send_heartbeats(one.rank for one in self._members.all())
        if found:
            if self._since is None:
                self._since = number
                self._log(
                    "warning", "left-behind",
                    f"{_WENT_ON}: from round {number + 1} on it neither trains nor sends until it has caught up",
                    round=number,
                )  # fmt: skip
            self.left_behind += 1
            return True
        if self._since is not None:
            rounds = "round" if number == self._since + 1 else f"rounds {self._since + 1} to"
            body = "the mean of its neighbors' bodies" if self._entry.has_adopted else "its own body"
            self._log(
                "info", "caught-up", f"sat out {rounds} {number}, and goes on with the others, with {body}",
                round=number,
            )  # fmt: skip
            self._since = None
        return False

    def holds(self, number: int) -> bool:
        """Whether round `number` may not begin yet, or not any more."""
        return self.blocked(number) is not None or self._exchange.over(number)

    def blocked(self, number: int) -> str | None:
        """The reason why round `number` may not begin; None if it may.

        A group that is cut off would run ahead by itself, and the rest take it for the others. So no peer begins a
        round far past those that a quorum has completed. A peer that has mixed nothing begins no other round before a
        neighbor is there that has come as far: that stops a single peer even where it is the quorum, as the first one
        of two, or the first one that is not done; a returner then finds it. It goes on where all neighbors are done:
        then it runs ahead of none of them (whether it lacks their bodies, `over` says).
        """
        if not self._members.all():
            return None
        if number > self._round_clock.quorum + self.slack:
            return NO_QUORUM
        near = [one.rank for one in self._members.all()]
        there = any(
            self._members.is_there(rank)
            and not self._members[rank].overdue
            and self._members[rank].current_round >= number - 1
            for rank in near
        )
        there |= all(self._members.is_done(rank) for rank in near)
        if self._mixed_nothing and not there and not any(self._exchange.inbox.has(rank, number) for rank in near):
            return NO_NEIGHBOR
        return None

    # -- whether it has come -----------------------------------------------------------------------------------

    def look(self, now: float) -> list[Effect]:
        """The effect that ends the wait, if it is over."""
        wait = self._wait
        if wait is None:
            return []
        if self.drains and self._in_vain(wait, now):
            self._wait, self._exchange.paused = None, False
            return [Fail(Drained("asked to leave"))]
        reason = self._ledger_guard.why_no_release()
        if wait.kind == "meet":  # to its end: neighbors that come later may know of more rounds
            effects = self.start.look(wait, now)
            if effects:
                self._wait = None
            return [Fail(CheckpointError(reason))] if reason is not None and Wake() in effects else effects
        if reason is not None:
            self._wait = None
            return [Fail(CheckpointError(reason))]
        if wait.kind == "pause":
            return self._look_for_a_quorum(wait, now)
        adopts = wait.kind == "collect" and self._entry.since is not None
        patient = adopts and not self._members.passed(wait.number)  # it may have come before its neighbors
        if now >= wait.since + self._round_deadline.seconds and not patient:
            self._go_on_without(self._ranks(wait, now), wait, now)
        ranks = self._ranks(wait, now)
        if adopts:
            return self._look_for_bodies_to_adopt(wait, ranks, now)
        if ranks:
            self._log_for_whom(wait, ranks, now)
            return []
        self._wait = None
        if wait.kind == "collect":
            self._round_deadline.collected(wait.number, now - wait.since, now)
            return [self._deliver(wait.number)]
        return [Wake(self._exchange.outbox.bytes_sent(wait.number) if wait.kind == "settle" else 0)]

    def _in_vain(self, wait: Wait, now: float) -> bool:
        """Whether a peer that leaves waits for what comes after its leaving only.

        A neighbor that was stopped since this round began, or so shortly before that the round waits for it, leaves,
        too, most likely: the round is run again when both are back, and then has its body.
        """
        if wait.kind in ("meet", "pause"):
            return True
        if wait.kind == "settle":
            return any(self._members.comes_back(rank, now) for rank in self._ranks(wait, now))
        if wait.kind != "collect":
            return False
        senders = self._exchange.schedule.at(wait.number).in_neighbors
        lacking = [rank for rank in senders if not self._exchange.inbox.has(rank, wait.number)]
        return any(self._members.comes_back(rank, self.begun_at) for rank in lacking)

    @property
    def collecting(self) -> int | None:
        """The round whose bodies the round loop waits for; None if it waits for nothing or for something else."""
        return self._wait.number if self._wait is not None and self._wait.kind == "collect" else None

    def ranks(self, now: float) -> list[int]:
        """The ranks that the round loop waits for at present."""
        return [] if self._wait is None else self._ranks(self._wait, now)

    def present(self, now: float) -> WaitingNow | None:
        """The present wait; None while the round loop works."""
        wait = self._wait
        if wait is None:
            return None
        ranks = {rank: self._why(wait, rank, now) for rank in self._ranks(wait, now)}
        held = self.blocked(wait.number) if wait.kind == "pause" else None
        return WaitingNow(wait.kind, now - wait.since, ranks, held or "")

    def _why(self, wait: Wait, rank: int, now: float) -> str:
        """Why a rank is waited for."""
        if rank not in self._members:
            return "has not been there"
        one = self._members[rank]
        if trouble := one.trouble or one.trouble_dialling:
            return trouble
        if one.status is Status.UNSEEN:
            return "not heard yet"
        if one.away:
            return one.why_away
        return self._progress(wait, rank, now)

    def _progress(self, wait: Wait, rank: int, now: float) -> str:
        number, transfer = self._members[rank].current_round, self._transfer(wait, rank, now)
        return f"in round {self._shown(number)}{f'; {transfer}' if transfer else ''}"

    def next_look(self, now: float) -> float:
        """The clock time at which `look` may give something although nothing has happened; infinity for never."""
        wait = self._wait
        if wait is None:
            return math.inf
        if wait.kind == "meet":
            return self.start.next_look(wait, now)
        times = [wait.log_at]
        if wait.kind == "pause":
            return min(*times, self._news_at + self._config.wait)
        if wait.kind == "collect" and self._entry.since is not None:
            over = max(self._news_at, wait.since) + self._config.wait
            times += [self._collected_at, over if now < over else math.inf]  # which waits for those that may still send
        due = wait.since + self._round_deadline.seconds
        times.append(due if now < due else now + _AGAIN)
        ends = [one.gone_at + one.grace + _SOON for one in self._members.all() if one.away]
        times += [end for end in ends if now < end]
        return min(times)

    def _patient(self, kind: Literal["collect", "settle", "linger", "part"], number: int, now: float) -> Wait:
        return Wait(kind, number, now, now + self._config.say_waiting, self._config.say_waiting)

    def _ranks(self, wait: Wait, now: float) -> list[int]:
        match wait.kind:
            case "meet":
                return self.start.lacking()
            case "pause":
                return [one.rank for one in self._members.all() if not self._members.is_there(one.rank)]
            case "collect":
                return self._exchange.awaited(wait.number, now)
            case "settle":
                return self._exchange.unsettled(wait.number, now)
            case "linger":
                return self._exchange.unfinished(wait.number, now)
            case "part":
                return self._exchange.parting(wait.number, now)

    def _bodies(self, number: int) -> dict[int, Received]:
        """The bodies of a round that are here."""
        return self._exchange.inbox.take(number, self._exchange.schedule.at(number).in_neighbors)

    def _deliver(self, number: int) -> Deliver:
        in_neighbors = self._exchange.schedule.at(number).in_neighbors
        bodies = self._bodies(number)
        if in_neighbors:
            self._mixed_nothing = not bodies
        for rank in sorted(set(in_neighbors) - bodies.keys()):
            if reason := self._members.note_lost(rank):
                todo = "nothing has to be done here"
                if self._members[rank].overdue and not self._members[rank].away:
                    todo = "see whether its process or its disk hangs; it is used again once it has caught up"
                self._log(
                    "warning",
                    "neighbor-lost",
                    f"lost rank {rank} ({reason}): its weight goes to the diagonal, and rounds go on without it; "
                    f"{todo}",
                    neighbor=rank,
                    round=number,
                    reason=reason,
                )
        return Deliver(number, bodies)

    def _look_for_bodies_to_adopt(self, wait: Wait, ranks: list[int], now: float) -> list[Effect]:
        """End the wait of a returner, which gives none: it is over with the round, or nothing has come for long."""
        self._collected_at = self._entry.over_at(wait.number, bool(ranks), wait.since, now)
        if now >= self._collected_at:
            self._wait = None
            bodies = self._bodies(wait.number)
            if self._entry.keeps_its_own(wait.number):
                bodies = {}
            last = wait.number + 1 == self._exchange.schedule.rounds
            if last and not bodies and self._entry.lacks_a_body:
                return [Fail(LeftBehind(_WITHOUT_IT))]
            return [Deliver(wait.number, bodies)]
        since = max(self._news_at, wait.since)
        if not ranks and now >= since + self._config.wait:
            self._wait = None
            return [Fail(Isolated(f"no neighbor had a body for its return for {now - since:.0f} s (--wait)"))]
        if ranks and self._members.passed(wait.number):
            self._log_for_whom(wait, ranks, now)
        else:
            wait.log_at = max(wait.log_at, now + wait.log_every)  # one in the past would be due for ever
        return []

    def _look_for_a_quorum(self, wait: Wait, now: float) -> list[Effect]:
        """End a pause: the round may begin, or this peer has waited for long enough."""
        why, over = self.blocked(wait.number), self._exchange.over(wait.number)
        if why is not None and not over and now < self._news_at + self._config.wait:
            if now >= wait.log_at:
                self._log_pause(wait, why, now)
            return []
        self._wait, self._exchange.paused = None, False
        self.pauses.add(now - wait.since)
        if over:
            return [Fail(LeftBehind(_WITHOUT_IT))]
        if why is not None:
            return [Fail(Isolated(f"{why} for {now - self._news_at:.0f} s (--wait)"))]
        if wait.logged:
            self._log(
                "info", "pause-over", f"goes on with round {wait.number + 1} after a pause of {now - wait.since:.0f} s",
                round=wait.number,
            )  # fmt: skip
        return [Wake()]

    def _log_pause(self, wait: Wait, why: str, now: float) -> None:
        left = self._news_at + self._config.wait - now
        self._log(
            "info" if wait.logged else "warning", "paused",
            f"pauses before round {wait.number + 1}: {why}; it keeps its model, goes on once that changes, or ends "
            f"in {left:.0f} s (--wait; --resume goes on later)",
            round=wait.number, reason=why, neighbors=self.ranks(now),
        )  # fmt: skip
        wait.logged = True
        wait.log_at = now + wait.log_every
        wait.log_every *= 2

    def _log_for_whom(self, wait: Wait, ranks: list[int], now: float) -> None:
        if now < wait.log_at:
            return
        wait.log_every *= 2
        wait.log_at = now + wait.log_every
        where = [self._where(wait, rank, now) for rank in ranks]
        quiet = now - self._config.say_waiting
        still = [
            rank for rank in ranks if self._transfer(wait, rank, now) is None and self._transfers.moved(rank) <= quiet
        ]
        due = max(wait.since, *(self._transfers.moved(rank) for rank in ranks)) + self._round_deadline.seconds
        one = "which is" if len(still) == len(ranks) else f"of which {', '.join(map(str, still))} is"
        advice = f"it goes on without in {due - now:.0f} s, {self._round_deadline}" if now < due < math.inf else (
            "--deadline SECONDS: go on without it")  # fmt: skip
        self._log(
            "info",
            "waiting",
            f"round {self._shown(wait.number)} has been waiting for {', '.join(where)} for "
            f"{now - wait.since:.0f} s{f', {one} there, and slow or hanging ({advice})' if still else ''}",
            neighbors=ranks,
            round=wait.number,
        )

    def _where(self, wait: Wait, rank: int, now: float) -> str:
        return f"rank {rank} ({self._progress(wait, rank, now)})"

    def _shown(self, number: int) -> int:
        """A round as messages name it: counted from 1, and none after the last one."""
        return min(number, self._round_clock.rounds - 1) + 1

    def _transfer(self, wait: Wait, rank: int, now: float) -> Transfer | None:
        """The body for which a rank is waited for, if it is on its way: its own, or this peer's, which it lacks."""
        coming = self._transfers.coming(rank, wait.number, now) if wait.kind == "collect" else None
        return coming or self._transfers.going(rank, now)

    def _go_on_without(self, ranks: list[int], wait: Wait, now: float) -> None:
        """Wait no longer for neighbors that are there: the deadline is over, and no body comes at a useful pace.

        A neighbor that has just got this peer's body has a deadline from then on, as long as a body might take.
        """
        deadline = self._round_deadline.seconds
        for rank in ranks:
            neighbor, transfer = self._members[rank], self._transfer(wait, rank, now)
            if neighbor.away or (transfer is not None and transfer.worth_waiting(now - wait.since, deadline)):
                continue
            if transfer is None and now < min(self._transfers.moved(rank), wait.since + LONGEST * deadline) + deadline:
                continue
            fault = "sent nothing within" if transfer is None else "its body comes too slowly for"
            neighbor.overdue = f"{fault} {deadline:.{0 if deadline >= 10 else 2}f} s ({self._round_deadline})"
            neighbor.overdue_in = neighbor.current_round
