"""The waits of a peer's round loop: for neighbors, bodies, the end of a round, a quorum; no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dpeer.exceptions import CheckpointError, Drained, Isolated, LeftBehind, PeersMissing, Refused
from dpeer.peer.config import PeerConfig
from dpeer.peer.core.bodies import Received
from dpeer.peer.core.effects import Deliver, Effect, Fail, Wake
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.handshake import Handshake
from dpeer.peer.core.membership import Membership, Status
from dpeer.peer.core.round_clock import NO_QUORUM, RoundClock
from dpeer.peer.core.round_deadline import LONGEST, RoundDeadline, Transfer, TransferProgress
from dpeer.peer.core.wire import Hello
from dpeer.results.units import duration

if TYPE_CHECKING:
    from dpeer.peer.core.epoch_follower import EpochFollower

_SOON = 0.001
"""Seconds after a time at which something ends, so that it has ended whatever the rounding."""

NO_NEIGHBOR = "cut off from all neighbors"
"""Why a round may not begin; or `NO_QUORUM`."""

LONG = 3600.0
"""Seconds: a longer wait for the start is one for sites that come over days. A neighbor with other settings does not
end it, and no two of its lines are further apart."""

_MET_WITHIN = 60.0
"""Seconds after all ranks have been there in which neighbors meet, at least: they dial each other about as often."""

_MINUTE = 60.0

_LISTED = 20
"""Ranks that a line of the log names."""

_WENT_ON = "the others went on without this peer (was it asleep, cut off or restarted?)"
_WITHOUT_IT = "the others have completed the run without this peer"

_MOST_PAUSES = 100

_AGAIN = 1.0
"""Seconds between two looks at bodies that are on their way when the deadline is over."""


@dataclass
class _Wait:
    """The present wait.

    Attributes:
        kind: For the neighbors, the begin of a round, its bodies, its end, or neighbors that need this peer after it:
            after the last one ("linger"), or the one after which it leaves ("part").
        number: The round.
        since: Clock time at which it began.
        log_at: Clock time of the next line of the log about it.
        pause: Seconds from then until the line after that.
        logged: Whether a line has been written.
        early: Whether a joiner waits for the others to come to the round in which it begins: that is no cut line.
    """

    kind: Literal["meet", "pause", "collect", "settle", "linger", "part"]
    number: int
    since: float
    log_at: float
    pause: float
    logged: bool = False
    early: bool = False


@dataclass(frozen=True)
class WaitingNow:
    """The present wait, for people.

    Attributes:
        kind: As that of `_Wait`.
        seconds: For how long it lasts.
        ranks: The ranks that it is for, and why each is not there yet.
        why: Why the next round may not begin, in a pause.
    """

    kind: Literal["meet", "pause", "collect", "settle", "linger", "part"]
    seconds: float
    ranks: Mapping[int, str]
    why: str = ""


@dataclass
class Pauses:
    """The pauses of a peer.

    Attributes:
        count: How many.
        seconds: How long all of them took.
        rounds: Before which rounds; at most the first `_MOST_PAUSES`.
    """

    count: int = 0
    seconds: float = 0.0
    rounds: list[int] = field(default_factory=list)

    def add(self, number: int, seconds: float) -> None:
        """Note a pause before round `number`."""
        self.count += 1
        self.seconds += seconds
        if len(self.rounds) < _MOST_PAUSES:
            self.rounds.append(number)


class Waiting:
    """The wait of the round loop: its kinds, its ends, and the ranks that it is for.

    Args:
        slack: How many rounds more than a quorum this peer may have completed when it begins another one.
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.
        epochs: How the membership changes; None where it never does.

    Attributes:
        met: The neighbors whose hello came, whatever the answer.
        left_behind: How many rounds this peer has sat out because the others had gone past them.
        pauses: How often this peer has paused because it was cut off, and for how many seconds in all.
        drains: Whether this peer was asked to leave: it begins no other round.
        begun_at: Clock time at which the present round began; the one before may not have been on disk yet.
        began: Whether the wait for the start is over, so that rounds have begun.
    """

    def __init__(
        self,
        config: PeerConfig,
        members: Membership,
        exchange: Exchange,
        handshake: Handshake,
        round_clock: RoundClock,
        slack: int,
        transfers: TransferProgress,
        log: Callable[..., None],
        epochs: EpochFollower | None = None,
    ) -> None:
        self.met: set[int] = set()
        self.left_behind = 0
        self._config = config
        self._members = members
        self._exchange = exchange
        self._entry = exchange.entry
        self._handshake = handshake
        self._round_clock = round_clock
        self._slack = slack
        self._epochs = epochs
        self._transfers = transfers
        self._round_deadline = RoundDeadline(config.deadline)
        self.pauses = Pauses()
        self._mixed_nothing = self._warned = False
        self._news_at = 0.0
        self._log = log
        self._wait: _Wait | None = None
        self.began = False
        self.drains = False
        self.begun_at = 0.0
        self._refusal: Refused | None = None
        self._leave_at = 0.0
        self._give_up_at = math.inf
        self._running = False
        self._collected_at = math.inf
        self._since: int | None = None

    @property
    def slack(self) -> int:
        """How many rounds more than a quorum this peer may have completed when it begins another one."""
        return self._slack if self._epochs is None else self._epochs.slack

    @property
    def assembling(self) -> bool:
        """Whether the start is waited for: then news of ranks that have come is passed on at once."""
        return self._wait is not None and self._wait.kind == "meet"

    # -- kinds of waits ----------------------------------------------------------------------------------------

    def meet(self, now: float) -> None:
        """Wait until enough ranks have been there and all neighbors are; with no round left only for neighbors."""
        if self._members.current_round >= self._exchange.schedule.rounds:
            self._give_up_at = now + min(self._config.wait, self._config.liveness.dead_after)
        self._wait = _Wait("meet", 0, now, now + self._config.remind_every, self._config.remind_every)

    def pause(self, number: int, now: float) -> None:
        """Wait until round `number` may begin."""
        early = self._epochs is not None and self._epochs.is_early(number)
        self._wait = _Wait("pause", number, now, now, self._config.remind_every, early=early)
        if self.blocked(number) is NO_QUORUM:  # which word from others, that is on its way, may end at once
            self._wait.log_at += self._config.liveness.suspect_after
        self._news_at = now
        self._exchange.paused = True
        self._round_deadline.paused()
        self._exchange.send_heartbeats(one.rank for one in self._members.all())

    def news(self, now: float) -> None:
        """Note that some rank has come, or has completed more than was known: a pause counts from then."""
        self._news_at = now
        if self._wait is not None and self.assembling and not self._round_clock.started:
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

    def join(self, now: float) -> None:
        """Wait at most as long as silence takes to be death: a neighbor has run rounds without this peer.

        When a whole federation is resumed, no peer can complete a round before its neighbors are there.
        """
        if not self.began:
            self._running = True
            self._give_up_at = min(self._give_up_at, now + self._config.liveness.dead_after)

    def over(self) -> None:
        """Wait for nothing."""
        self._wait = None

    def outlasts(self, hello: Hello, expected: int | None) -> bool:
        """Whether this peer goes on waiting for the start although another one has other settings.

        In a wait of days one mistaken site must not end the start of all. The peer that knows fewer ranks with its own
        settings is the mistaken one, or else the one that came later: its operator has just started it.

        Args:
            hello: The other side's.
            expected: Which rank we dialled on this link; None if we were dialled.
        """
        if self.began or self._config.wait <= LONG:
            return False
        if expected is not None and hello.rank != expected:
            return True  # an address leads to another rank: not a mistake of all that dial it
        ours = len(self._round_clock.there), self._handshake.waited
        return ours > (hello.there, hello.waited)

    def refuse(self, refusal: Refused, now: float) -> bool:
        """Do not begin, for this reason; returns whether that is still possible and was not decided before."""
        if self.began or self._refusal is not None:
            return False
        self._refusal = refusal
        self._leave_at = now + self._config.farewell
        return True

    def behind(self, number: int) -> bool:
        """Whether the others have gone past round `number` without this peer; logs it, and announces the entry."""
        announced = self._entry.enters
        found = self._entry.behind(number)
        if self._entry.enters != announced:
            self._exchange.send_heartbeats(one.rank for one in self._members.all())
        if found:
            if self._since is None:
                self._since = number
                joins = self._epochs is not None and self._epochs.entry == number > 0
                self._log(
                    "info" if joins else "warning",
                    "left-behind",
                    f"{'this peer joins others that train' if joins else _WENT_ON}: from round {number + 1} on it "
                    "neither trains nor sends until it has caught up",
                    round=number,
                )
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
        if self._epochs is not None and (reason := self._epochs.holds(number)) is not None:
            return reason
        if number > self._round_clock.quorum + self.slack:
            return NO_QUORUM
        near = [one.rank for one in self._members.all() if one.expected]
        there = any(
            self._members.is_there(rank)
            and not self._members[rank].overdue
            and self._members[rank].current_round >= number - 1
            for rank in near
        )
        there |= bool(near) and all(self._members.is_done(rank) for rank in near)
        if self._mixed_nothing and not there and not any(self._exchange.inbox.has(rank, number) for rank in near):
            return NO_NEIGHBOR
        return None

    def _is_older(self) -> str | None:
        """Why no release may be made: neighbors remember a later incarnation of this peer than its disk has.

        Each is on disk before a neighbor hears of it, so another disk has taken part since: a backup was put back, and
        what was released from it is not in this one's ledger.
        """
        config, own = self._config, self._entry.incarnation
        if not config.protects or not config.resume or config.restored or self._exchange.has_released:
            return None
        known = max((one.remembers for one in self._members.all()), default=0)
        if known <= own or not self._round_clock[config.rank]:
            return None
        return (
            f"another folder of rank {config.rank} has taken part since (a backup that was put back?): the others know "
            f"its return number {known}, and this folder {own}; go on with that one, for what it released is not in "
            "this one's ledger"
        )

    def _lost_ledger(self) -> str | None:
        """Why no release may be made: neighbors know of releases of this peer, and its disk has no ledger of them.

        Before its first release what they hold is of an earlier process, also in a round that none has completed.
        Rounds that they remember may be news that comes late, of neighbors whose disks were lost, too. After a release
        it is a warning: any member may write such news into its tables, and so would end a peer that trains.
        """
        if not self._config.unrecorded:
            return None
        remedy = "put its folder 'privacy' back as it was last, or give --new-data if it trains on other data now"
        held = {} if self._exchange.has_released else self._exchange.outbox.held
        if (holder := next((rank for rank, bodies in held.items() if bodies), None)) is not None:
            held_of = f"rank {holder} holds a body of rank {self._config.rank}"
            return f"{held_of}, and its folder has no ledger of that: {remedy}"
        remembered, own = self._round_clock.remembered, self._round_clock[self._config.rank]
        if self._epochs is not None:
            if not self._epochs.let_in:
                return None
            own = max(own, self._epochs.entry)  # a joiner counts as in its first round, and has released nothing before
        if remembered <= own:
            return None
        found = (
            f"the others know {remembered} rounds of rank {self._config.rank}, and its folder has no ledger of them: "
            f"{remedy}"
        )
        if not self._exchange.has_released:
            return found
        if not self._warned:
            self._warned = True
            self._log("warning", "ledger", f"{found}; until then epsilon counts what this folder's ledger has alone")
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
        if (lost := self._lost_ledger() or self._is_older()) is not None:
            self._wait = None
            return [Fail(CheckpointError(lost))]
        if wait.kind == "meet":
            self._handshake.waited = int(now - wait.since)
            return self._look_for_neighbors(wait, now)
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

    def _in_vain(self, wait: _Wait, now: float) -> bool:
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
        if wait.kind == "meet" and not ranks:
            held = f"no epoch lists rank {self._config.rank} yet"
        return WaitingNow(wait.kind, now - wait.since, ranks, held or "")

    def _why(self, wait: _Wait, rank: int, now: float) -> str:
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

    def _progress(self, wait: _Wait, rank: int, now: float) -> str:
        number, transfer = self._members[rank].current_round, self._transfer(wait, rank, now)
        return f"in round {self._shown(number)}{f'; {transfer}' if transfer else ''}"

    def next_look(self, now: float) -> float:
        """The clock time at which `look` may give something although nothing has happened; infinity for never."""
        wait = self._wait
        if wait is None:
            return math.inf
        times = [wait.log_at]
        if wait.kind == "meet":
            if self._refusal is not None:
                return self._leave_at
            times += [self._give_up_at] if now < self._give_up_at else []
            return min(*times, wait.since + self._config.wait)
        if wait.kind == "pause":
            return min(*times, math.inf if self._comes_early(wait) else self._news_at + self._config.wait)
        if wait.kind == "collect" and self._entry.since is not None:
            over = max(self._news_at, wait.since) + self._config.wait
            times += [self._collected_at, over if now < over else math.inf]  # which waits for those that may still send
        due = wait.since + self._round_deadline.seconds
        times.append(due if now < due else now + _AGAIN)
        ends = [one.gone_at + one.grace + _SOON for one in self._members.all() if one.away]
        times += [end for end in ends if now < end]
        return min(times)

    def _patient(self, kind: Literal["collect", "settle", "linger", "part"], number: int, now: float) -> _Wait:
        return _Wait(kind, number, now, now + self._config.say_waiting, self._config.say_waiting)

    def _ranks(self, wait: _Wait, now: float) -> list[int]:
        match wait.kind:
            case "meet":
                return self._lacking()
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
        """The bodies of a round that are here, all of its epoch."""
        schedule = self._exchange.schedule
        return self._exchange.inbox.take(number, schedule.at(number).in_neighbors, schedule.epoch(number))

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

    def _look_for_bodies_to_adopt(self, wait: _Wait, ranks: list[int], now: float) -> list[Effect]:
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
            wait.log_at = max(wait.log_at, now + wait.pause)  # one in the past would be due for ever
        return []

    def _look_for_neighbors(self, wait: _Wait, now: float) -> list[Effect]:
        every = {neighbor.rank for neighbor in self._members.all()}
        if self._refusal is not None:
            if self._handshake.apart and not self.met >= every and now < self._leave_at:
                return []
            self._wait = None
            return [Fail(self._refusal)]
        if self._round_clock.over_for_others and self._members.current_round < self._exchange.schedule.rounds:
            for rank in self._members.missing():
                self._members.give_up(rank)
                self._members[rank].current_round = self._round_clock[rank]
        if self._round_clock.assembled:
            self._give_up_at = min(self._give_up_at, now + max(_MET_WITHIN, self._config.liveness.dead_after))
        if now >= self._give_up_at:
            for rank in self._members.missing():
                if not self._comes_back(rank):
                    self._members.give_up(rank)
        agreed = self._round_clock.started or not every
        if agreed and not self._members.missing() and (self._epochs is None or self._epochs.let_in):
            self._wait, self.began = None, True
            self._exchange.send_heartbeats(every)  # neighbors may wait for this news
            return [Wake()]
        if self._is_too_late():
            self._wait = None
            return [Fail(PeersMissing(
                f"the federation has ended, and no epoch lists rank {self._config.rank}: an operator lets a peer in "
                f"while the members train (dpeer join RUN --rank {self._config.rank})"
            ))]  # fmt: skip
        if now >= wait.since + self._config.wait:
            self._wait = None
            if not self._lacking():
                return [Fail(PeersMissing(
                    f"{self._missing(now)} has not come within {self._limit} (--wait): have an operator let this peer "
                    f"in (dpeer join RUN --rank {self._config.rank}), while the members train"
                ))]  # fmt: skip
            advice = "start them, and check the addresses and that all use the same settings"
            if self._epochs is not None and self._epochs.joins:
                advice = "see whether they still train, and check the addresses and that all use the same settings"
            return [Fail(PeersMissing(f"{self._missing(now)} did not appear within {self._limit} (--wait): {advice}"))]
        if now >= wait.log_at:
            self._log_missing(wait, now)
        return []

    def _is_too_late(self) -> bool:
        """Whether a joiner that no epoch lists hears of none any more: by the word of members all rounds are over."""
        if self._epochs is None or self._epochs.let_in:
            return False
        ranks = [one.rank for one in self._members.all()]
        return any(map(self._members.is_done, ranks)) and not any(map(self._members.is_there, ranks))

    def _comes_back(self, rank: int) -> bool:
        """Whether a neighbor that has left before the first round is waited for all the same.

        It has ended with an error, such as settings that differ, or was stopped. Where fewer ranks are enough, or the
        federation runs, it is a returner like any other.
        """
        clock, neighbor = self._round_clock, self._members[rank]
        if self._running or self._members.current_round > 0 or clock.needed < clock.size:
            return False
        return clock.assembled and bool(neighbor.trouble or neighbor.away)

    @property
    def _limit(self) -> str:
        wait = self._config.wait
        return f"{wait:g} s" if wait < 10 * _MINUTE else duration(wait)

    def _log_missing(self, wait: _Wait, now: float) -> None:
        clock, waited = self._round_clock, now - wait.since
        some = clock.size - len(clock.absent)
        lasts = f", for {duration(waited)}" if waited >= _MINUTE else ""
        count = f"; {some} of {clock.size} have been there" if clock.absent else ""
        enough = f", {clock.needed} are enough" if count and clock.needed < clock.size else ""
        self._log(
            "info", "waiting", f"waiting for {self._missing(now)}{lasts}{count}{enough}",
            neighbors=self._members.missing(), absent=clock.absent,
        )  # fmt: skip
        wait.log_at = now + wait.pause
        wait.pause = min(2 * wait.pause, LONG)

    def _look_for_a_quorum(self, wait: _Wait, now: float) -> list[Effect]:
        """End a pause: the round may begin, or this peer has waited for long enough."""
        why, over = self.blocked(wait.number), self._exchange.over(wait.number)
        if why is not None and not over and (now < self._news_at + self._config.wait or self._comes_early(wait)):
            if now >= wait.log_at:
                self._log_pause(wait, why, now)
            return []
        self._wait, self._exchange.paused = None, False
        if not wait.early:
            self.pauses.add(wait.number, now - wait.since)
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

    def _comes_early(self, wait: _Wait) -> bool:
        """Whether a joiner waits for neighbors that are there, and not in the round in which it begins."""
        there = any(self._members.is_there(one.rank) for one in self._members.all())
        return wait.early and there and self._epochs is not None and self._epochs.is_early(wait.number)

    def _log_pause(self, wait: _Wait, why: str, now: float) -> None:
        if self._comes_early(wait):
            self._log("info", "paused", f"waits before round {wait.number + 1}: {why}", reason=why)
            wait.log_at, wait.pause = now + wait.pause, min(2 * wait.pause, LONG)
            return
        left = self._news_at + self._config.wait - now
        self._log(
            "info" if wait.logged else "warning", "paused",
            f"pauses before round {wait.number + 1}: {why}; it keeps its model, goes on once that changes, or ends "
            f"in {left:.0f} s (--wait; --resume goes on later)",
            round=wait.number, reason=why, neighbors=self.ranks(now),
        )  # fmt: skip
        wait.logged = True
        wait.log_at = now + wait.pause
        wait.pause *= 2

    def _lacking(self) -> list[int]:
        """The ranks without which the first round does not begin: neighbors, and others that have not been there."""
        absent = () if self._round_clock.started or not self._members.all() else self._round_clock.absent
        return sorted({*self._members.missing(), *absent})

    def _missing(self, now: float) -> str:
        """The ranks that are not there yet, with the trouble that they report."""
        ranks = self._lacking()
        if not ranks:
            return f"an epoch that lists rank {self._config.rank}"
        by_trouble: dict[str, list[str]] = {}
        for rank in ranks[:_LISTED]:
            by_trouble.setdefault(self._trouble(rank, now), []).append(str(rank))
        without = by_trouble.pop("", [])
        listed = [f"{', '.join(same)} ({trouble})" for trouble, same in by_trouble.items()] + without
        more = f" and {len(ranks) - _LISTED} more" if len(ranks) > _LISTED else ""
        return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(listed)}{more}"

    def _trouble(self, rank: int, now: float) -> str:
        if rank not in self._members:
            return ""
        one, since = self._members[rank], ""
        if one.heard_at and now - one.heard_at >= _MINUTE:
            since = f"last heard {duration(now - one.heard_at)} ago"
        return ", ".join(filter(None, (one.trouble or one.trouble_dialling, since)))

    def _log_for_whom(self, wait: _Wait, ranks: list[int], now: float) -> None:
        if now < wait.log_at:
            return
        wait.pause *= 2
        wait.log_at = now + wait.pause
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

    def _where(self, wait: _Wait, rank: int, now: float) -> str:
        return f"rank {rank} ({self._progress(wait, rank, now)})"

    def _shown(self, number: int) -> int:
        """A round as messages name it: counted from 1, and none after the last one."""
        return min(number, self._round_clock.rounds - 1) + 1

    def _transfer(self, wait: _Wait, rank: int, now: float) -> Transfer | None:
        """The body for which a rank is waited for, if it is on its way: its own, or this peer's, which it lacks."""
        coming = self._transfers.coming(rank, wait.number, now) if wait.kind == "collect" else None
        return coming or self._transfers.going(rank, now)

    def _go_on_without(self, ranks: list[int], wait: _Wait, now: float) -> None:
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
