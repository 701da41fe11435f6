"""Processes that are measured together: started from one server, with each other's addresses; returns their figures."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from emulated_lines import Lines, Loopback

WARM_UP = 5
"""Rounds that are not counted: buffers are touched for the first time, links are made."""

Introduce = Callable[[Any], list[Any]]
"""Sends this process's address to the others, and returns the addresses of all, by rank."""

Worker = Callable[[int, "Case", Introduce], "Figures"]
"""Runs a rank's part of a case."""


@dataclass(frozen=True)
class Case:
    """The parameters of a measurement, the same for every contestant.

    Attributes:
        size: The number of processes.
        parameters: Of a body.
        rounds: The rounds that count.
        neighbors: Of each rank.
        options: Of the contestant.
        lines: The lines between the processes.
        warm_up: Rounds before them that do not count.
        cool_down: Rounds after them that do not.
    """

    size: int
    parameters: int
    rounds: int
    neighbors: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any]
    lines: Lines = field(default_factory=Loopback)
    warm_up: int = WARM_UP
    cool_down: int = 0

    @property
    def all_rounds(self) -> int:
        """The rounds that are run."""
        return self.warm_up + self.rounds + self.cool_down

    @property
    def degree(self) -> float:
        """The number of neighbors of a peer, on average."""
        return sum(map(len, self.neighbors)) / self.size


@dataclass(frozen=True)
class Figures:
    """The measurements of one process over the rounds that count."""

    seconds: float
    cpu_seconds: float
    bytes_sent: int
    round_seconds: tuple[float, ...] = ()
    unshared_mb: float = 0.0


def ring(size: int) -> tuple[tuple[int, ...], ...]:
    """Each rank's neighbors on a ring."""
    return tuple(tuple(sorted({(rank - 1) % size, (rank + 1) % size} - {rank})) for rank in range(size))


class Laps:
    """Takes the time and the CPU time at the end of every round, and makes the figures of it.

    Args:
        warm_up: Rounds at the begin that do not count.
        cool_down: Rounds at the end that do not.
    """

    def __init__(self, warm_up: int = WARM_UP, cool_down: int = 0) -> None:
        self._first, self._after = warm_up - 1, cool_down
        self._laps: list[tuple[float, float]] = []

    def lap(self) -> None:
        """Note that a round is over."""
        self._laps.append((time.perf_counter(), cpu_seconds()))

    def figures(self, bytes_a_round: int) -> Figures:
        """The figures of the rounds that count."""
        laps = self._laps[self._first : len(self._laps) - self._after]
        return Figures(
            seconds=laps[-1][0] - laps[0][0],
            cpu_seconds=laps[-1][1] - laps[0][1],
            bytes_sent=bytes_a_round * (len(laps) - 1),
            round_seconds=tuple(after[0] - before[0] for before, after in pairwise(laps)),
            unshared_mb=unshared_mb(),
        )


def cpu_seconds() -> float:
    """The processor seconds of all threads of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def unshared_mb(pid: int | str = "self") -> float:
    """The resident memory of a process that is not shared, in 10^6 bytes (Linux; elsewhere not a number)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return float("nan")
    return (
        sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) * 1.024e-3
    )


def run(worker: Worker, case: Case) -> list[Figures]:
    """Run one process for each rank; returns their figures, by rank.

    Raises:
        RuntimeError: A process ended without figures.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpeer.federation.preload"])
    pipes, processes = [], []
    for rank in range(case.size):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(worker, rank, case, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        addresses = _all(pipes)
        for pipe in pipes:
            pipe.send(addresses)
        figures = [Figures(**one) for one in _all(pipes)]
        for process in processes:
            process.join(20)
    except EOFError:
        raise RuntimeError(f"{worker.__name__}: a process ended before it had measured") from None
    finally:
        for process in processes:
            process.kill()
    return figures


def _all(pipes: list[Connection]) -> list[Any]:
    """The next message of each process; raises EOFError if one has ended, since the others would wait for it."""
    found: dict[Connection, Any] = {}
    while len(found) < len(pipes):
        for pipe in wait([pipe for pipe in pipes if pipe not in found]):
            assert isinstance(pipe, Connection)
            found[pipe] = pipe.recv()
    return [found[pipe] for pipe in pipes]


def _serve(worker: Worker, rank: int, case: Case, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    case.lines.enter(rank)

    def introduce(address: Any) -> list[Any]:
        pipe.send(address)
        addresses: list[Any] = pipe.recv()
        return addresses

    pipe.send(asdict(worker(rank, case, introduce)))


def say(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result, as one line of JSON or a line for each figure."""
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")
