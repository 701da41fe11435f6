"""StartWait: the wait before the first round: who is missing, when it ends, and when a refusal ends it; no I/O."""

from __future__ import annotations

import math

from dpeer.exceptions import PeersMissing, Refused
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.state import State
from dpeer.peer.core.wait import Wait
from dpeer.results.units import duration

_MET_WITHIN = 60.0
"""Seconds after all ranks have been there in which neighbors meet, at least: they dial each other about as often."""

_MINUTE = 60.0

_LISTED = 20
"""Ranks that a line of the log names."""


class StartWait:
    """Waits until enough ranks have been there and all neighbors have shaken hands.

    Attributes:
        accepted: Whether a neighbor has shaken hands.
    """

    def __init__(self, state: State, exchange: Exchange) -> None:
        self.accepted = False
        self._state, self._config, self._exchange = state, state.config, exchange
        self._members, self._round_clock, self._log = state.members, state.round_clock, state.log
        self._refusal: Refused | None = None
        self._leave_at = math.inf
        self._give_up_at = math.inf

    def begin(self, now: float) -> None:
        """Begin to wait. With no round left, this peer waits for neighbors only, and for `dead_after` at most."""
        if self._members.current_round >= self._exchange.schedule.rounds:
            self._give_up_at = now + min(self._config.wait, self._config.liveness.dead_after)

    def refuse(self, refusal: Refused, now: float) -> None:
        """Note that a neighbor and this peer cannot train together: it ends for this reason if none accepts it soon."""
        if self._refusal is None:
            self._refusal, self._leave_at = refusal, now + self._config.refused_after

    def next_look(self, wait: Wait, now: float) -> float:
        """The clock time at which `look` may give something although nothing has happened."""
        times = [at for at in (self._give_up_at, self._leave_at) if now < at]
        return min(*times, wait.log_at, wait.since + self._config.wait)

    def refused(self, now: float) -> Refused | None:
        """Why this peer does not take part: a neighbor refuses it, and none accepts it."""
        none_is_left = all(one.trouble for one in self._members.all())
        return None if self.accepted or not (none_is_left or now >= self._leave_at) else self._refusal

    def agreed(self, now: float) -> bool:
        """Whether rounds begin: enough ranks have been there, and all neighbors are, or have been given up."""
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
            return False
        self._state.began = True
        self._exchange.send_heartbeats(every)  # neighbors may wait for this news
        return True

    def timed_out(self, wait: Wait, now: float) -> PeersMissing | None:
        """Who has not appeared for `--wait`."""
        if now < wait.since + self._config.wait:
            return None
        advice = "start them, and check the addresses and that all use the same settings"
        return PeersMissing(f"{self._missing(now)} did not appear within {self._limit} (--wait): {advice}")

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

    @property
    def _limit(self) -> str:
        wait = self._config.wait
        return f"{wait:g} s" if wait < 10 * _MINUTE else duration(wait)

    def log_missing(self, wait: Wait, now: float) -> None:
        """Log who is not there yet."""
        clock, waited = self._round_clock, now - wait.since
        some = len(clock) - len(clock.absent)
        lasts = f", for {duration(waited)}" if waited >= _MINUTE else ""
        count = f"; {some} of {len(clock)} have been there" if clock.absent else ""
        enough = f", {clock.needed} are enough" if count and clock.needed < len(clock) else ""
        self._log(
            "info", "waiting", f"waiting for {self._missing(now)}{lasts}{count}{enough}",
            neighbors=self._members.missing(), absent=clock.absent,
        )  # fmt: skip

    def lacking(self) -> list[int]:
        """The ranks without which the first round does not begin: neighbors, and others that have not been there."""
        absent = () if self._round_clock.started or not self._members.all() else self._round_clock.absent
        return sorted({*self._members.missing(), *absent})

    def _missing(self, now: float) -> str:
        """The ranks that are not there yet, with the trouble that they report."""
        ranks = self.lacking()
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
