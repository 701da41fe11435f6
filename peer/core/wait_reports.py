"""Wait reports: why each rank is waited for, in status and log, and whether a deadline has passed; no I/O."""

from __future__ import annotations

import math

from dpeer.peer.core.membership import Status
from dpeer.peer.core.round_deadline import RoundDeadline
from dpeer.peer.core.state import State
from dpeer.peer.core.transfer_progress import LONGEST, Transfer, TransferProgress
from dpeer.peer.core.wait import Wait


class WaitReports:
    """What people read of a wait.

    A neighbor that is there counts as slow or hanging once `say_waiting` has brought no sign of progress.
    """

    def __init__(self, state: State, transfers: TransferProgress, deadline: RoundDeadline) -> None:
        self._members, self._log = state.members, state.log
        self._rounds, self._quiet = state.config.rounds, state.config.say_waiting
        self._transfers, self._deadline = transfers, deadline

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
            rank for rank in ranks if self.transfer(wait, rank, now) is None and self._transfers.moved(rank) <= quiet
        ]
        due = max(wait.since, *(self._transfers.moved(rank) for rank in ranks)) + self._deadline.seconds
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
        comes = wait.kind in ("collect", "adopt")
        coming = self._transfers.coming(rank, wait.number, now) if comes else None
        return coming or self._transfers.going(rank, now)

    def overdue(self, wait: Wait, rank: int, now: float) -> str | None:
        """Why a round waits no longer for a neighbor that is there, now that its deadline is over; None if it does.

        A neighbor that has just got this peer's body has a deadline from then on, as long as a body might take.
        """
        deadline, transfer = self._deadline.seconds, self.transfer(wait, rank, now)
        if transfer is not None and transfer.worth_waiting(now - wait.since, deadline):
            return None
        if transfer is None and now < min(self._transfers.moved(rank), wait.since + LONGEST * deadline) + deadline:
            return None
        fault = "sent nothing within" if transfer is None else "its body comes too slowly for"
        return f"{fault} {deadline:.{0 if deadline >= 10 else 2}f} s ({self._deadline})"

    def _progress(self, wait: Wait, rank: int, now: float) -> str:
        number, transfer = self._members[rank].current_round, self.transfer(wait, rank, now)
        return f"in round {self._shown(number)}{f'; {transfer}' if transfer else ''}"

    def _shown(self, number: int) -> int:
        """A round as messages name it: counted from 1, and none after the last one."""
        return min(number, self._rounds - 1) + 1
