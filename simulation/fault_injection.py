"""Injects the planned faults into a simulation, each in its round, and records their effect by rank."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dpeer.results.files import rank_folder
from dpeer.results.reading import read_entries
from dpeer.simulation.faults import PlannedFault
from dpeer.simulation.links import later
from dpeer.simulation.network import FaultyNetwork
from dpeer.simulation.virtual_time import Process


class FaultTarget(Protocol):
    """What faults happen to."""

    size: int
    network: FaultyNetwork

    def running(self, rank: int) -> Process | None:
        """The process of a rank that runs; None if it does not."""

    def own_round(self, rank: int) -> int:
        """In which round a rank that runs is."""

    def crash(self, rank: int) -> None:
        """End a rank's process at once."""

    def leave(self, rank: int) -> None:
        """Tell a rank to stop, as Ctrl-C does."""

    def begin_again(self, rank: int) -> None:
        """Start a rank from its checkpoint."""


@dataclass
class InjectedFault:
    """What happened to one rank, as summary.json tells it. Times are in rounds' time from the start.

    Attributes:
        what: The kind of fault.
        rank: Whose it was.
        round: In which round the peer was that was furthest.
        own_round: In which round the rank itself was.
        time: When it began.
        until_round: As `round` when it ended; None if it did not.
        until_time: When it ended; None if it did not.
        times: By how much a slow rank was slow; None for other faults.
    """

    what: str
    rank: int
    round: int
    own_round: int
    time: float
    until_round: int | None = None
    until_time: float | None = None
    times: float | None = None

    def as_entry(self) -> dict[str, Any]:
        """Its entry in summary.json."""
        return {name: value for name, value in vars(self).items() if name != "times" or value is not None}


class FaultInjector:
    """Has faults happen.

    Args:
        stage: To what.
        planned: Which.
        round_seconds: How long a round lasts.

    Attributes:
        happened: What has happened so far. A fault of a rank that was not running then did not.
        front: The round of the peer that is furthest.
        pending: How many ranks are down and will begin again.
    """

    def __init__(self, stage: FaultTarget, planned: Iterable[PlannedFault], round_seconds: float) -> None:
        self.happened: list[InjectedFault] = []
        self.front = -1
        self.pending = 0
        self._stage, self._planned, self._round = stage, list(planned), round_seconds
        self._off = False

    def reached(self, number: int) -> None:
        """Note that a peer begins a round."""
        if number <= self.front:
            return
        self.front = number
        due = [one for one in self._planned if one.round <= number]
        self._planned = [one for one in self._planned if one.round > number]
        for accident in due:
            later(accident.at * self._round, partial(self._happen, accident))

    def call_off(self) -> None:
        """Let nothing happen any more, and what stands still go on."""
        self._off, self.pending = True, 0
        for rank in range(self._stage.size):
            process = self._stage.running(rank)
            while process is not None and process.frozen:
                process.thaw()

    @property
    def now(self) -> float:
        """The time in rounds."""
        return round(asyncio.get_running_loop().time() / self._round, 3)

    def _happen(self, accident: PlannedFault) -> None:
        ranks = [rank for rank in accident.ranks if self._stage.running(rank) is not None]
        if self._off or not ranks:
            return
        began = [
            InjectedFault(
                accident.what, rank, self.front, self._stage.own_round(rank), self.now,
                times=accident.times if accident.what == "slow" else None,
            )
            for rank in ranks
        ]  # fmt: skip
        self.happened += began
        if accident.what == "partition":
            self._part(accident, began)
            return
        for incident in began:
            self._befall(accident, incident)

    def _part(self, accident: PlannedFault, began: list[InjectedFault]) -> None:
        rest = [rank for rank in range(self._stage.size) if rank not in accident.ranks]
        ways = [way for one in accident.ranks for other in rest for way in ((one, other), (other, one))]
        for way in ways:
            self._stage.network.hold(*way)

        def heal() -> None:
            for way in ways:
                self._stage.network.release(*way)

        self._end(accident.lasts, began, heal)

    def _befall(self, accident: PlannedFault, incident: InjectedFault) -> None:
        rank = incident.rank
        process = self._stage.running(rank)
        assert process is not None, "looked at by the caller"
        match accident.what:
            case "freeze":
                process.freeze()
                self._end(accident.lasts, [incident], process.thaw)
            case "slow":
                process.slow(accident.times)
                self._end(accident.lasts, [incident], partial(process.slow, 1 / accident.times))
            case "restart":
                self._stage.crash(rank)
                self._outlived(rank, "freeze", "slow")
                self._again(0.0, incident)
            case "crash":
                self._stage.crash(rank)
                self._outlived(rank, "freeze", "slow")
                self._again(accident.lasts, incident)
            case "leave":
                self._stage.leave(rank)
                self._outlived(rank, "slow")
                self._again(accident.lasts, incident)

    def _outlived(self, rank: int, *kinds: str) -> None:
        """Note that what a process had has ended with it: the rank's next one begins without."""
        for incident in self.happened:
            if incident.rank == rank and incident.what in kinds and incident.until_time is None:
                incident.until_round, incident.until_time = self.front, self.now

    def _again(self, rounds: float | None, incident: InjectedFault) -> None:
        if rounds is not None:
            self.pending += 1
            self._end(rounds, [incident], partial(self._begin_again, incident.rank))

    def _begin_again(self, rank: int) -> None:
        self.pending -= 1
        self._stage.begin_again(rank)

    def _end(self, rounds: float | None, incidents: list[InjectedFault], end: Callable[[], None]) -> None:
        if rounds is not None:
            later(rounds * self._round, partial(self._over, incidents, end))

    def _over(self, incidents: list[InjectedFault], end: Callable[[], None]) -> None:
        if self._off:
            return
        for incident in incidents:
            if incident.until_time is None:
                incident.until_round, incident.until_time = self.front, self.now
        end()


def fault_costs(
    out: Path,
    rank: int,
    active: Callable[[int], bool],
    rounds: int,
    *,
    status: str,
    error: str | None,
    restarts: int,
    completed_at: Mapping[int, float],
) -> dict[str, Any]:
    """A rank's entry in summary.json.

    Args:
        out: The run folder.
        rank: The rank.
        active: Whether the rank takes part in a round, faults aside.
        rounds: How many rounds there are.
        status: done; gone, left or failed if it is not there at the end; stopped if the run was.
        error: Why it failed; None if it did not.
        restarts: How often it began again.
        completed_at: By round, when it was complete, in rounds' time.
    """
    entries = read_entries(rank_folder(out, rank))
    trained = [entry for entry in entries if entry.get("active")]
    return {
        "rank": rank,
        "status": status,
        "error": error,
        "restarts": restarts,
        "completed_rounds": len(entries),
        "completed_at": [completed_at.get(entry["round"]) for entry in entries],
        "rounds_trained": len(trained),
        "sat_out": [entry["round"] for entry in entries if not entry.get("active") and active(entry["round"])],
        "rounds_not_run": rounds - len(entries),
        "bodies_missed": sum(len(entry.get("missed", ())) for entry in trained),
        "missed_by_round": {str(entry["round"]): entry["missed"] for entry in trained if entry.get("missed")},
    }
