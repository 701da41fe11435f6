"""Waiting: `RULES` ends each wait of the round loop; also why a round may not begin; no I/O.

A wait ends by the first of its rules whose condition holds. docs/design.md prints the table, and what a wait is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, get_args

from dpeer.exceptions import CheckpointError, Drained, Isolated, LeftBehind, PeersMissing, Refused
from dpeer.peer.core.bodies import Received
from dpeer.peer.core.deadline import RoundDeadline
from dpeer.peer.core.effects import Deliver, Effect, Fail, Wake
from dpeer.peer.core.exchange import Exchange, LedgerGuard
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.round_clock import NO_QUORUM
from dpeer.peer.core.state import State
from dpeer.peer.core.wait import Kind, Wait, WaitingNow, WaitReports
from dpeer.results.units import duration

_SOON = 0.001
"""Seconds after a time at which something ends, so that it has ended whatever the rounding."""

NO_NEIGHBOR = "cut off from all neighbors"
"""Why a round may not begin; or `NO_QUORUM`."""

NO_LIST = "no member list that has this peer counts yet"
"""Why a round may not begin."""

_WITHOUT_IT = "the others have completed the run without this peer"

_AGAIN = 1.0
"""Seconds between two looks at bodies that are on their way when the deadline is over."""

_MET_WITHIN = 60.0
"""Seconds after all ranks have been there in which neighbors meet, at least: they dial each other about as often."""

_MINUTES = 600.0
"""Seconds of `--wait` up to which messages have it in seconds."""


class Waiting:
    """The wait of the round loop: its kinds, its ends, and the ranks that it is for.

    Attributes:
        accepted: Whether a neighbor has accepted this peer.
        pauses: The seconds of each pause of this peer.
        drains: Whether this peer was asked to leave: it begins no other round.
        begun_at: Clock time at which the present round began; the one before may not have been on disk yet.
    """

    def __init__(self, state: State, exchange: Exchange, keeper: ListKeeper, guard: LedgerGuard) -> None:
        self.pauses: list[float] = []
        self.accepted = self.drains = False
        self.begun_at = 0.0
        self._state, self._config, self._members, self._round_clock = (
            state, state.config, state.members, state.round_clock
        )  # fmt: skip
        self._exchange, self._entry, self._log = exchange, exchange.entry, state.log
        self._keeper, self._ledger_guard = keeper, guard
        self._round_deadline = RoundDeadline(state.config.deadline)
        self._reports = WaitReports(state, self._round_deadline)
        self._mixed_nothing = False
        self._refusal: Refused | None = None
        self._leave_at = self._give_up_at = math.inf
        self._news_at = 0.0
        self._wait: Wait | None = None

    # -- kinds of waits ----------------------------------------------------------------------------------------

    def begin(self, kind: Kind, number: int, now: float) -> None:
        """Begin to wait for this aim; a returner that collects bodies does so to adopt their mean."""
        if kind == "collect" and self._entry.since is not None:
            kind = "adopt"
        every = self._config.remind_every if kind in ("meet", "pause") else self._config.say_waiting
        self._wait = Wait(kind, number, now, now if kind == "pause" else now + every, every)
        if kind == "meet" and self._members.current_round >= self._exchange.schedule.rounds:  # it needs neighbors only
            self._give_up_at = now + min(self._config.wait, self._config.liveness.dead_after)
        elif kind == "pause":
            self._begin_pause(self._wait, now)

    def _begin_pause(self, wait: Wait, now: float) -> None:
        if self.blocked(wait.number) is NO_QUORUM:  # which word from others, that is on its way, may end at once
            wait.log_at += self._config.liveness.suspect_after
        self._news_at = now
        self._exchange.paused = True
        self._round_deadline.paused()
        self._exchange.send_heartbeats(one.rank for one in self._members.every())

    def news(self, now: float) -> None:
        """Note that some rank has come, or has completed more than was known: a pause counts from then."""
        self._news_at = now
        if self._wait is not None and self._wait.kind == "meet" and not self._round_clock.started:
            self._wait.log_at = min(self._wait.log_at, now + self._config.remind_every)

    def refuse(self, refusal: Refused, now: float) -> None:
        """Note that a neighbor and this peer cannot train together: it ends for this reason if none accepts it soon."""
        if self._refusal is None:
            self._refusal, self._leave_at = refusal, now + self._config.refused_after

    def over(self) -> None:
        """Wait for nothing."""
        self._wait = None

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
        if self._keeper.joins:
            return NO_LIST
        if not self._members.all():
            return None
        if number > self._round_clock.quorum + self._round_clock.slack:
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

    def is_stuck(self, now: float) -> bool:
        """Whether this peer waits for so long that it dials all members: its neighbors may all have gone.

        At the first start it waits for those that are late, as long as it hears any.
        """
        wait = self._wait
        if wait is None or wait.kind not in ("meet", "pause", "adopt"):
            return False
        first = wait.kind == "meet" and self._members.current_round == 0
        if first and any(self._members.is_there(one.rank) for one in self._members.all()):
            return False
        return now - wait.since > self._config.liveness.dead_after

    # -- whether it is over ------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Effect]:
        """The effect that ends the wait, by the first rule that gives one."""
        wait = self._wait
        if wait is None:
            return []
        self._heed_deadline(wait, now)
        for rule in _RULES_OF[wait.kind]:
            if (effect := rule.effect(self, wait, now)) is not None:
                self._wait = None
                if wait.kind == "pause":
                    self._end_pause(wait, effect, now)
                return [effect]
        self._report(wait, now)
        return []

    def drained(self, wait: Wait, now: float) -> Effect | None:
        """The peer was asked to leave, and what it waits for comes only after that.

        A neighbor that was stopped since this round began, or so shortly before that the round waits for it, leaves,
        too, most likely: the round is run again when both are back, and then has its body.
        """
        if not self.drains:
            return None
        lacking: list[int] = []
        if wait.kind == "settle":
            lacking, since = self._ranks(wait, now), now
        elif wait.kind in ("collect", "adopt"):
            senders = self._exchange.schedule.at(wait.number).in_neighbors
            lacking = [rank for rank in senders if not self._exchange.inbox.has(rank, wait.number)]
            since = self.begun_at
        if wait.kind in ("meet", "pause") or any(self._members.comes_back(rank, since) for rank in lacking):
            return Fail(Drained("asked to leave"))
        return None

    def removed(self, wait: Wait, now: float) -> Effect | None:
        """The list that counts lacks this peer, or its site forbids it."""
        end = self._keeper.end
        if end is None:
            return None
        return Wake() if wait.kind == "pause" else Fail(end)  # after a pause neighbors may need a body

    def refused(self, wait: Wait, now: float) -> Effect | None:
        """A neighbor refuses this peer, and none accepts it."""
        none_is_left = all(one.trouble for one in self._members.all())
        if self._refusal is None or self.accepted or not (none_is_left or now >= self._leave_at):
            return None
        return Fail(self._refusal)

    def met(self, wait: Wait, now: float) -> Effect | None:
        """Enough ranks have been there, and all neighbors are."""
        every = {neighbor.rank for neighbor in self._members.all()}
        if self._round_clock.over_for_others and self._members.current_round < self._exchange.schedule.rounds:
            for rank in self._members.missing():
                self._members.give_up(rank)
                self._members[rank].current_round = self._round_clock[rank]
        if self._round_clock.assembled:
            self._give_up_at = min(self._give_up_at, now + max(_MET_WITHIN, self._config.liveness.dead_after))
        if now >= self._give_up_at:
            for rank in self._members.missing():
                if not self._is_kept_waiting_for(rank):
                    self._members.give_up(rank)
        if self._members.missing() or not (self._round_clock.started or not every):
            return None
        self._state.began = True
        self._exchange.send_heartbeats(every)  # neighbors may wait for this news
        return self.uncounted(wait, now) or Wake()  # not before: neighbors that come later may know of more rounds

    def _is_kept_waiting_for(self, rank: int) -> bool:
        """Whether a neighbor that has left before the first round is waited for all the same.

        It has ended with an error, such as settings that differ, or was stopped. Where fewer ranks are enough, or a
        rank has completed two rounds, it is a returner like any other.
        """
        clock, neighbor = self._round_clock, self._members[rank]
        runs = any(clock[one] > 1 for one in clock.members)
        if runs or self._members.current_round > 0 or clock.needed < len(clock):
            return False
        return clock.assembled and bool(neighbor.trouble or neighbor.away)

    def missed(self, wait: Wait, now: float) -> Effect | None:
        """A rank has not appeared for `--wait`."""
        if now < wait.since + self._config.wait:
            return None
        limit = f"{self._config.wait:g} s" if self._config.wait < _MINUTES else duration(self._config.wait)
        advice = "start them, and check the addresses and that all use the same settings"
        missing = self._reports.missing(self._ranks(wait, now), now)
        return Fail(PeersMissing(f"{missing} did not appear within {limit} (--wait): {advice}"))

    def uncounted(self, wait: Wait, now: float) -> Effect | None:
        """Others have had releases that the ledger of this private peer lacks."""
        reason = self._ledger_guard.why_no_release()
        return None if reason is None else Fail(CheckpointError(reason))

    def too_late(self, wait: Wait, now: float) -> Effect | None:
        """The others have completed the run, and no body comes any more."""
        return Fail(LeftBehind(_WITHOUT_IT)) if self._exchange.over(wait.number) else None

    def may_begin(self, wait: Wait, now: float) -> Effect | None:
        """A quorum has come far enough, and a neighbor is there."""
        return Wake() if self.blocked(wait.number) is None else None

    def isolated(self, wait: Wait, now: float) -> Effect | None:
        """Nothing new has come for `--wait`."""
        since = self._without_news_since(wait)
        if now < since + self._config.wait or (wait.kind == "adopt" and self._ranks(wait, now)):
            return None
        why = self.blocked(wait.number) if wait.kind == "pause" else "no neighbor had a body for its return"
        return Fail(Isolated(f"{why} for {now - since:.0f} s (--wait)"))

    def _without_news_since(self, wait: Wait) -> float:
        return max(self._news_at, wait.since)

    def adopted(self, wait: Wait, now: float) -> Effect | None:
        """The bodies that it adopts are here, or may not come any more."""
        verdict = self._entry.verdict(wait.number)
        if verdict == "wait":
            return None
        here = self._bodies(wait.number)
        bodies = here if verdict == "adopt" else {}
        if wait.number + 1 == self._exchange.schedule.rounds and not bodies and self._entry.lacks_a_body:
            return Fail(LeftBehind(_WITHOUT_IT))
        return Deliver(wait.number, bodies)

    def collected(self, wait: Wait, now: float) -> Effect | None:
        """No body is waited for any more."""
        if self._ranks(wait, now):
            return None
        self._round_deadline.collected(wait.number, now)
        in_neighbors, bodies = self._exchange.schedule.at(wait.number).in_neighbors, self._bodies(wait.number)
        if in_neighbors:
            self._mixed_nothing = not bodies
        for rank in sorted(set(in_neighbors) - bodies.keys()):
            if reason := self._members.note_lost(rank):
                self._reports.log_lost(rank, reason, wait.number)
        return Deliver(wait.number, bodies)

    def settled(self, wait: Wait, now: float) -> Effect | None:
        """No neighbor needs a body of this peer any more."""
        if self._ranks(wait, now) or self._may_go_on(wait, now):
            return None
        return Wake(self._exchange.outbox.bytes_sent(wait.number) if wait.kind == "settle" else 0)

    def added(self, wait: Wait, now: float) -> Effect | None:
        """The list that counts has more rounds than are complete."""
        return Wake() if self._exchange.schedule.rounds > wait.number else None

    def _may_go_on(self, wait: Wait, now: float) -> bool:
        """Whether, after the last round, a list that adds some may still come to count."""
        waits = self._keeper.waiting
        if wait.kind != "linger" or waits is None or waits.rounds <= wait.number:
            return False
        others = {rank for rank in self._round_clock.members if rank in self._members}
        here = any(not self._members[rank].away and self._members[rank].link is not None for rank in others)
        return here and now < self._without_news_since(wait) + self._config.wait

    def _end_pause(self, wait: Wait, effect: Effect, now: float) -> None:
        self._exchange.paused = False
        self.pauses.append(now - wait.since)
        if wait.logged and effect == Wake():
            self._log(
                "info", "pause-over", f"goes on with round {wait.number + 1} after a pause of {now - wait.since:.0f} s",
                round=wait.number,
            )  # fmt: skip

    def _heed_deadline(self, wait: Wait, now: float) -> None:
        """Wait no longer for neighbors that are there and too slow, once the deadline is over.

        It does not count for a returner, which may have come to its round before its neighbors.
        """
        if wait.kind in ("meet", "pause", "adopt") or now < wait.since + self._round_deadline.seconds:
            return
        for rank in self._ranks(wait, now):
            neighbor = self._members[rank]
            if not neighbor.away and (why := self._reports.overdue(wait, rank, now)) is not None:
                neighbor.overdue, neighbor.overdue_in = why, neighbor.current_round

    def _report(self, wait: Wait, now: float) -> None:
        """Log for whom or for what it is waited, where it is time to."""
        if wait.kind == "adopt" and not self._ranks(wait, now):
            wait.log_at = max(wait.log_at, now + wait.log_every)  # one in the past would be due for ever
        if now < wait.log_at:
            return
        if wait.kind == "meet":
            self._reports.log_missing(wait, self._ranks(wait, now), now)
        elif wait.kind != "pause":
            self._reports.log_ranks(wait, self._ranks(wait, now), now)
        elif (why := self.blocked(wait.number)) is not None:
            left = self._without_news_since(wait) + self._config.wait - now
            self._reports.log_pause(wait, why, left, self._ranks(wait, now))
        wait.said(now)

    # -- what it is for ----------------------------------------------------------------------------------------

    def ranks(self, now: float) -> list[int]:
        """The ranks that the round loop waits for at present."""
        return [] if self._wait is None else self._ranks(self._wait, now)

    def present(self, now: float) -> WaitingNow | None:
        """The present wait; None while the round loop works."""
        wait = self._wait
        if wait is None:
            return None
        ranks = {rank: self._reports.why(wait, rank, now) for rank in self._ranks(wait, now)}
        held = self.blocked(wait.number) if wait.kind == "pause" else None
        return WaitingNow(wait.kind, now - wait.since, ranks, held or "")

    def next_look(self, now: float) -> float:
        """The clock time at which `look` may give something although nothing has happened; infinity for never."""
        wait = self._wait
        if wait is None:
            return math.inf
        if wait.kind == "meet":
            ends = [at for at in (self._give_up_at, self._leave_at) if now < at]
            return min(*ends, wait.log_at, wait.since + self._config.wait)
        times, over = [wait.log_at], self._without_news_since(wait) + self._config.wait
        if wait.kind == "pause":
            return min(*times, over)
        if wait.kind == "adopt":
            times.append(over if now < over else math.inf)  # which waits for those that may still send
        else:
            due = wait.since + self._round_deadline.seconds
            times.append(due if now < due else now + _AGAIN)
        ends = [one.gone_at + one.grace + _SOON for one in self._members.all() if one.away]
        times += [end for end in ends if now < end]
        return min(times)

    def _ranks(self, wait: Wait, now: float) -> list[int]:
        match wait.kind:
            case "meet":
                absent = () if self._round_clock.started or not self._members.all() else self._round_clock.absent
                return sorted({*self._members.missing(), *absent})
            case "pause":
                return [one.rank for one in self._members.all() if not self._members.is_there(one.rank)]
            case "collect":
                return self._exchange.awaited(wait.number, now)
            case "adopt":
                return self._entry.coming(wait.number)
            case "settle":
                return self._exchange.unsettled(wait.number, now)
            case "linger":
                return self._exchange.unfinished(wait.number, now)
            case "part":
                return [rank for rank in self._exchange.unsettled(wait.number, now) if self._members.is_there(rank)]

    def _bodies(self, number: int) -> dict[int, Received]:
        """The bodies of a round that are here."""
        return self._exchange.inbox.take(number, self._exchange.schedule.at(number).in_neighbors)


class Rule(NamedTuple):
    """One way in which waits end: its waits, what the round loop gets (as docs/design.md prints it), and the effect.

    The effect is None while the condition does not hold, which the first line of its docstring says.
    """

    kinds: tuple[Kind, ...]
    then: str
    effect: Callable[[Waiting, Wait, float], Effect | None]


RULES = (
    Rule(("meet", "pause", "collect", "adopt", "settle"), "it leaves: drained", Waiting.drained),
    Rule(("meet", "pause", "adopt"), "it leaves: left, evicted or stopped", Waiting.removed),
    Rule(("linger",), "rounds go on", Waiting.added),
    Rule(("meet",), "it ends: refused", Waiting.refused),
    Rule(("meet",), "rounds begin, unless the ledger lacks releases that others have had", Waiting.met),
    Rule(("meet",), "it ends: peers missing", Waiting.missed),
    Rule(
        ("pause", "collect", "adopt", "settle", "linger", "part"),
        "it ends, and names `--rounds-released`",
        Waiting.uncounted,
    ),
    Rule(("pause",), "it ends: left behind", Waiting.too_late),
    Rule(("pause",), "the round begins", Waiting.may_begin),
    Rule(("adopt",), "it adopts their mean; without one in the last round it ends: left behind", Waiting.adopted),
    Rule(("pause", "adopt"), "it ends: isolated", Waiting.isolated),
    Rule(("collect",), "it mixes those that are here", Waiting.collected),
    Rule(("settle", "linger", "part"), "it goes on, or leaves", Waiting.settled),
)
"""When waits end, in the order in which the rules are asked."""

_RULES_OF: Mapping[Kind, tuple[Rule, ...]] = {
    kind: tuple(rule for rule in RULES if kind in rule.kinds) for kind in get_args(Kind)
}
