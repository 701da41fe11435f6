"""Wait: the present wait's data, and what people read of it; no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpeer.peer.core.deadline import LONGEST, RoundDeadline, Transfer
from dpeer.peer.core.membership import Status
from dpeer.peer.core.send_queue import Acknowledged
from dpeer.peer.core.state import State
from dpeer.results.units import duration

Kind = Literal["meet", "pause", "collect", "adopt", "settle", "linger", "part"]
"""The aim of a wait: the neighbors, the begin of a round, its bodies, those that a returner adopts, the round's end, or
neighbors that need this peer after it: after the last round ("linger"), or the one after which it leaves ("part")."""

LONG_WAIT = 3600.0
"""Seconds between two lines of the log about a long wait, at most."""

_MINUTE = 60.0

_LISTED = 20
"""Ranks that a line of the log names."""


@dataclass
class Wait:
    """The present wait.

    Attributes:
        kind: Its aim.
        number: The round.
        since: Clock time at which it began.
        log_at: Clock time of the next line of the log about it.
        log_every: Seconds from then until the line after that.
        logged: Whether a line has been written.
    """

    kind: Kind
    number: int
    since: float
    log_at: float
    log_every: float
    logged: bool = False

    def said(self, now: float) -> None:
        """Note that a line was written: the next ones get rarer."""
        self.logged, self.log_at = True, now + self.log_every
        self.log_every = min(2 * self.log_every, LONG_WAIT)


@dataclass(frozen=True)
class WaitingNow:
    """The present wait, for people."""

    kind: Kind
    seconds: float
    ranks: Mapping[int, str]
    """The ranks that it is for, and why each is not there yet."""
    why: str = ""
    """Why the next round may not begin, in a pause."""


class WaitReports:
    """What people read of a wait.

    A neighbor that is there counts as slow or hanging once `say_waiting` has brought no sign of progress. A body of
    which no bytes have moved for `dead_after` is not on its way any more.
    """

    def __init__(self, state: State, deadline: RoundDeadline) -> None:
        self._state, self._members, self._log = state, state.members, state.log
        self._rounds, self._quiet = state.config.rounds, state.config.say_waiting
        self._deadline = deadline

    def why(self, wait: Wait, rank: int, now: float) -> str:
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

    def log_pause(self, wait: Wait, why: str, left: float, neighbors: list[int]) -> None:
        """Log that a round may not begin, for this reason; the peer ends in `left` seconds if nothing changes."""
        self._log(
            "info" if wait.logged else "warning", "paused",
            f"pauses before round {wait.number + 1}: {why}; it keeps its model, goes on once that changes, or ends "
            f"in {left:.0f} s (--wait; --resume goes on later)",
            round=wait.number, reason=why, neighbors=neighbors,
        )  # fmt: skip

    def log_ranks(self, wait: Wait, ranks: list[int], now: float) -> None:
        """Log for which ranks a round waits, how far their bodies are, and which of them seem to hang."""
        where = [f"rank {rank} ({self._progress(wait, rank, now)})" for rank in ranks]
        quiet = now - self._quiet if wait.kind != "adopt" else -math.inf  # no deadline counts for a returner
        still = [
            rank for rank in ranks if self.transfer(wait, rank, now) is None and self._acknowledged(rank).moved <= quiet
        ]
        due = max(wait.since, *(self._acknowledged(rank).moved for rank in ranks)) + self._deadline.seconds
        one = "which is" if len(still) == len(ranks) else f"of which {', '.join(map(str, still))} is"
        advice = f"it goes on without in {due - now:.0f} s, {self._deadline}" if now < due < math.inf else (
            "--deadline SECONDS: go on without it")  # fmt: skip
        self._log(
            "info",
            "waiting",
            f"round {self._shown(wait.number)} has been waiting for {', '.join(where)} for "
            f"{now - wait.since:.0f} s{f', {one} there, and slow or hanging ({advice})' if still else ''}",
            neighbors=ranks,
            round=wait.number,
        )

    def log_lost(self, rank: int, reason: str, number: int) -> None:
        """Log that rounds go on without a rank from round `number` on."""
        one = self._members[rank]
        todo = ""
        if one.overdue and not one.away:
            todo = "; see whether its process or its disk hangs; it is used again once it has caught up"
        self._log(
            "warning",
            "neighbor-lost",
            f"lost rank {rank} ({reason}): rounds go on without it{todo}",
            neighbor=rank,
            round=number,
            reason=reason,
        )

    def transfer(self, wait: Wait, rank: int, now: float) -> Transfer | None:
        """The body for which a rank is waited for, if it is on its way: its own, or this peer's, which it lacks."""
        dead_after, link = self._state.config.liveness.dead_after, self._members[rank].link
        coming = self._state.reassembly.get(link) if wait.kind in ("collect", "adopt") else None
        if coming is not None and coming.body.round <= wait.number and now - coming.last < dead_after:
            return Transfer(coming.got, coming.body.payload_bytes, now - coming.since, incoming=True)
        going, queue = self._acknowledged(rank), self._state.send_queues.get(link)
        if queue is None or not going.done or now - going.moved >= dead_after:
            return None
        seconds = (now - going.since) * going.done / more if (more := going.done - going.first) else 0.0
        return Transfer(going.done, queue.total, seconds, incoming=False)

    def _acknowledged(self, rank: int) -> Acknowledged:
        """How much of this peer's body a rank has."""
        queue = self._state.send_queues.get(self._members[rank].link)
        return Acknowledged() if queue is None else queue.acknowledged

    def overdue(self, wait: Wait, rank: int, now: float) -> str | None:
        """Why a round waits no longer for a neighbor that is there, now that its deadline is over; None if it does.

        A neighbor that has just got this peer's body has a deadline from then on, as long as a body might take.
        """
        deadline, transfer = self._deadline.seconds, self.transfer(wait, rank, now)
        if transfer is not None and transfer.worth_waiting(now - wait.since, deadline):
            return None
        if transfer is None and now < min(self._acknowledged(rank).moved, wait.since + LONGEST * deadline) + deadline:
            return None
        fault = "sent nothing within" if transfer is None else "its body comes too slowly for"
        return f"{fault} {deadline:.{0 if deadline >= 10 else 2}f} s ({self._deadline})"

    def _progress(self, wait: Wait, rank: int, now: float) -> str:
        number, transfer = self._members[rank].current_round, self.transfer(wait, rank, now)
        return f"in round {self._shown(number)}{f'; {transfer}' if transfer else ''}"

    def _shown(self, number: int) -> int:
        """A round as messages name it: counted from 1, and none after the last one."""
        return min(number, self._rounds - 1) + 1

    # -- the start ---------------------------------------------------------------------------------------------

    def log_missing(self, wait: Wait, ranks: list[int], now: float) -> None:
        """Log which ranks are not there yet, of those without which the first round does not begin."""
        clock, waited = self._state.round_clock, now - wait.since
        some = len(clock) - len(clock.absent)
        lasts = f", for {duration(waited)}" if waited >= _MINUTE else ""
        count = f"; {some} of {len(clock)} have been there" if clock.absent else ""
        enough = f", {clock.needed} are enough" if count and clock.needed < len(clock) else ""
        self._log(
            "info", "waiting", f"waiting for {self.missing(ranks, now)}{lasts}{count}{enough}",
            neighbors=self._members.missing(), absent=clock.absent,
        )  # fmt: skip

    def missing(self, ranks: list[int], now: float) -> str:
        """These ranks, which are not there yet, with the trouble that they report."""
        troubles = {rank: self._trouble(rank, now) for rank in ranks[:_LISTED]}
        listed = [f"{rank} ({trouble})" if trouble else str(rank) for rank, trouble in troubles.items()]
        more = f" and {len(ranks) - _LISTED} more" if len(ranks) > _LISTED else ""
        return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(listed)}{more}"

    def _trouble(self, rank: int, now: float) -> str:
        if rank not in self._members:
            return ""
        one, since = self._members[rank], ""
        if one.heard_at and now - one.heard_at >= _MINUTE:
            since = f"last heard {duration(now - one.heard_at)} ago"
        return ", ".join(filter(None, (one.trouble or one.trouble_dialling, since)))
