"""Has planned faults happen, each in its time, to the network and the processes of a simulated federation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from dpeer.simulation.network import FaultyNetwork, later
from dpeer.simulation.virtual_time import Process
from tests.world.faults import Fault


class Stage(Protocol):
    """What faults happen to."""

    size: int
    network: FaultyNetwork

    def process(self, rank: int) -> Process:
        """The rank's process at present."""

    def stop(self, rank: int) -> None:
        """Tell a rank to stop."""

    def kill(self, rank: int, *, notice: bool) -> None:
        """End the rank's process at once; its connections break only with `notice`."""

    def restart(self, rank: int) -> None:
        """Have a rank that was stopped or killed go on from its checkpoint."""


class Director:
    """Has faults happen.

    Args:
        stage: To what.
        faults: Which.
    """

    def __init__(self, stage: Stage, faults: Iterable[Fault]) -> None:
        self._stage = stage
        self._faults = list(faults)

    def start(self) -> None:
        """Begin to count the time."""
        for fault in self._faults:
            if fault.round is None:
                later(fault.at, partial(self._happen, fault))

    def begun(self, rank: int, number: int) -> None:
        """Note that a rank begins a round; faults that count from then happen once, also if it begins it again."""
        for fault in [one for one in self._faults if one.round == number and one.ranks[0] == rank]:
            self._faults.remove(fault)
            later(fault.at, partial(self._happen, fault))

    def _happen(self, fault: Fault) -> None:
        stage, network = self._stage, self._stage.network
        match fault.what:
            case "cut":
                one, other = fault.ranks
                network.shut(one, other)
                network.cut(one, other)
                self._end(fault, partial(network.unshut, one, other))
            case "vanish":
                network.vanish(*fault.ranks)
            case "stall":
                one, other = fault.ranks
                self._hold(fault, [(one, other)])
            case "part":
                rest = [rank for rank in range(stage.size) if rank not in fault.ranks]
                self._hold(fault, [pair for a in fault.ranks for b in rest for pair in ((a, b), (b, a))])
            case _:
                for rank in fault.ranks:
                    self._befall(fault, rank)

    def _hold(self, fault: Fault, ways: Sequence[tuple[int, int]]) -> None:
        for way in ways:
            self._stage.network.hold(*way)
        self._end(fault, partial(self._release, ways))

    def _release(self, ways: Sequence[tuple[int, int]]) -> None:
        for way in ways:
            self._stage.network.release(*way)

    def _befall(self, fault: Fault, rank: int) -> None:
        process = self._stage.process(rank)
        match fault.what:
            case "freeze":
                process.freeze()
                self._end(fault, process.thaw)
            case "slow":
                process.slow(fault.times)
                self._end(fault, partial(process.slow, 1 / fault.times))
            case "stop":
                self._stage.stop(rank)
                self._end(fault, partial(self._stage.restart, rank))
            case "crash" | "power":
                self._stage.kill(rank, notice=fault.what == "crash")
                self._end(fault, partial(self._stage.restart, rank))

    def _end(self, fault: Fault, end: Callable[[], None]) -> None:
        if fault.seconds < math.inf:
            later(fault.seconds, end)
