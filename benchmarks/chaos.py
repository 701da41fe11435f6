"""Faults on real peers: eight over TCP with keys, of which some are killed or stopped, on lines that are cut or slow.

    python benchmarks/chaos.py [--out chaos] [--seeds 0-49] [--rounds 60] [--show] [--json]

Each seed is a schedule: a graph, a delay and a bandwidth of all lines, and two faults, one after the other. The peers
are processes of `dpeer start` on this host, and each edge is a proxy (`line_emulator.py`). A schedule takes half a
minute on idle cores, two on slow lines, and its result is a line of OUT/results.jsonl; seeds that are there are not run
again. OUT/seed-N keeps the runs with a problem. The reference of a schedule is `dpeer simulate` with the same settings.
By kind of fault:

    kill-N-K   kill -9 of N peers, which resume when the others have completed K rounds more
    stop-N     SIGSTOP of N peers, and SIGCONT ten rounds later
    halves     no line between two halves for ten rounds
    one-way    nothing arrives from some peers at their neighbors for ten rounds, and everything the other way
    resets     all connections of some lines end, ten times

    schedules  with this kind among their faults
    problems   see below
    accuracy   final mean over peers less that of the reference, in points; mean over the schedules
    drop       most that a neighbor lost in the round in which it mixed a returner's body again, in points
    change     what neighbors gained in such rounds in the mean, in points
    swing      most that a peer of the reference lost in a round after the first fault
    lag        most rounds from a returner's entry until each neighbor had mixed it
    seconds    of a schedule

Problems: a connected quorum that completed no round within a fault; another part that ran ahead; a peer that ended
early or late, or not with exit 0; a returner that was not mixed within two rounds; a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import mean
from typing import Any

import chaos_peer
from line_emulator import Line, held_ports

from dpeer.federation import forking
from dpeer.federation.keys import write_secret
from dpeer.topology import build, temporal_diameter

SIZE = 8
DEAD_AFTER = 3.0
LASTS = 10
"""Rounds of the others for which peers are stopped, and lines cut."""

_ALONE = 12.0
"""Seconds that a fault lasts where no part is a quorum, so that no peer counts rounds."""

_PATIENCE = 120.0
"""Seconds in which a quorum completes the rounds that a fault lasts, on slow lines and a busy host."""

_TASK = Path(__file__).with_name("chaos_task.py")

_LAG = 2
"""Rounds from its entry within which a returner is mixed."""

KINDS = [
    *(f"kill-{count}-{back}" for count in (1, 2, 4) for back in (0, 3, 20)), "stop-1", "stop-3", "halves", "one-way",
    "resets",
]  # fmt: skip
DELAYS = (0.0, 0.1, 0.3)
"""Seconds for a message and its answer."""

RATES = (math.inf, 10e6, 1e6)
"""Bits per second of each direction."""


@dataclass(frozen=True)
class Schedule:
    """What happens to a federation; it follows from the seed."""

    seed: int
    topology: str
    delay: float
    rate: float
    kinds: tuple[str, ...]
    data_seed: int

    def edges(self) -> list[tuple[int, int]]:
        """The edges, lower rank first."""
        graph = build(self.topology, SIZE)
        return [(rank, other) for rank in range(SIZE) for other in graph.at(0, rank).in_neighbors if rank < other]


def draw(seed: int) -> Schedule:
    """The schedule of a seed: over fourteen seeds each kind comes first once, and over nine each kind of line."""
    rng = random.Random(f"chaos {seed}")
    kinds = (KINDS[seed % len(KINDS)], rng.choice(KINDS))
    topology = "exponential" if rng.random() < 0.7 else "ring"
    return Schedule(seed, topology, DELAYS[seed % 3], RATES[seed // 3 % 3], kinds, rng.randrange(2))


@dataclass
class Watched:
    """One fault as it was seen.

    Attributes:
        away: Ranks that were killed or stopped.
        parts: The parts of the others that could hear each other both ways.
        quorate: The ranks of the part that is a quorum; empty without one.
        before, after: Completed rounds of all ranks when it had taken hold, and at its end.
    """

    kind: str
    away: list[int]
    parts: list[list[int]]
    quorate: list[int]
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    seconds: float = 0.0


class Federation:
    """The processes of a schedule, and the lines between them."""

    def __init__(self, schedule: Schedule, rounds: int, folder: Path) -> None:
        self.schedule, self.rounds, self.folder = schedule, rounds, folder
        self.rng = random.Random(f"chaos of {schedule.seed}")
        self.edges = schedule.edges()
        self.lines: dict[tuple[int, int], Line] = {}
        self.processes: list[BaseProcess] = []
        self.watched: list[Watched] = []
        self.problems: list[str] = []

    # -- beginning and ending ----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make keys, lines and files, and start all peers."""
        keys = [write_secret(rank, self.folder / "keys")[1].hex() for rank in range(SIZE)]
        with held_ports(SIZE) as ports:  # lines must not listen at those of peers
            for low, high in self.edges:
                line = Line(ports[high], self.schedule.delay / 2, self.schedule.rate / 8)
                await line.listen()
                self.lines[low, high] = line
        for rank in range(SIZE):
            text = []
            for other in range(SIZE):
                port = self.lines[rank, other].port if (rank, other) in self.lines else ports[other]
                text.append(f'[rank.{other}]\naddress = "tcp://127.0.0.1:{port}"\nkey = "{keys[other]}"\n')
            (self.folder / f"rank-{rank}.toml").write_text("\n".join(text))
        self.processes = [self._start(rank) for rank in range(SIZE)]

    def _start(self, rank: int, *more: str) -> BaseProcess:
        arguments = [
            "start", "--federation", str(self.folder / f"rank-{rank}.toml"), "--rank", str(rank),
            "--secret", str(self.folder / "keys" / f"rank-{rank}.secret"), *settings(self.schedule, self.rounds),
            "--threads", "1", "--alone", "never", "--wait", "5min", "--dead-after", str(DEAD_AFTER),
            "--out", str(self.folder / "run"), *more,
        ]  # fmt: skip
        process: BaseProcess = _server().Process(
            target=chaos_peer.run, args=(arguments, str(self.folder / f"output-{rank}"))
        )
        forking.start(process)
        return process

    async def end(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join(10)
        for line in self.lines.values():
            await line.close()

    # -- what is seen ------------------------------------------------------------------------------------------

    def completed(self) -> list[int]:
        """The completed rounds of each rank."""
        return [len(lines_of(self.folder / "run" / f"rank-{rank}" / "metrics.jsonl")) for rank in range(SIZE)]

    async def until(self, reached: Any, seconds: float) -> bool:
        """Wait until this is true of the completed rounds; returns whether it was within so many seconds."""
        end = time.monotonic() + seconds
        while not reached(self.completed()):
            if time.monotonic() > end or all(not one.is_alive() for one in self.processes):
                return False
            await asyncio.sleep(0.1)
        return True

    def parts(self, away: Sequence[int], cut: Sequence[tuple[int, int]]) -> list[list[int]]:
        """The parts of the ranks that are not away, without the cut edges."""
        left, found = {*range(SIZE)} - {*away}, []
        while left:
            part, near = set(), {min(left)}
            while near:
                part |= near
                near = {
                    other
                    for edge in self.edges if edge not in cut
                    for rank, other in (edge, edge[::-1]) if rank in part
                } & left - part  # fmt: skip
            found.append(sorted(part))
            left -= part
        return found

    def quorate(self, parts: Sequence[list[int]]) -> list[int]:
        """The part that is a quorum: more than half, or half with rank 0, which is not done."""
        return next((part for part in parts if 2 * len(part) > SIZE or (2 * len(part) == SIZE and 0 in part)), [])

    # -- faults ------------------------------------------------------------------------------------------------

    async def fault(self, kind: str, at: int) -> None:
        """Wait until most peers are in this round, and let a fault happen and end."""
        if not await self.until(lambda completed: sorted(completed)[SIZE // 2] >= at, _PATIENCE + 60):
            self.problems.append(f"round {at} did not come within {_PATIENCE + 60:.0f} s")
            return
        await asyncio.sleep(self.rng.random())
        name, *numbers = kind.split("-")
        if name == "resets":
            for _ in range(10):
                for edge in self.rng.sample(self.edges, 3):
                    self.lines[edge].reset()
                await asyncio.sleep(self.rng.uniform(0.1, 0.6))
            self.watched.append(Watched(kind, [], [[*range(SIZE)]], []))
            return
        away: list[int] = []
        cut: list[tuple[int, int]] = []
        match name:
            case "kill" | "stop":
                away = sorted(self.rng.sample(range(SIZE), int(numbers[0])))
            case "halves":
                half = {*self.rng.sample(range(SIZE), SIZE // 2)}
                cut = [edge for edge in self.edges if (edge[0] in half) != (edge[1] in half)]
            case "one":
                half = {*self.rng.sample(range(SIZE), self.rng.choice((1, 2, 3)))}
                cut = [edge for edge in self.edges if (edge[0] in half) != (edge[1] in half)]
        parts = self.parts(away, cut)
        seen = Watched(kind, away, parts, self.quorate(parts))
        self.watched.append(seen)
        begun, lasts = self.completed(), int(numbers[1]) if name == "kill" else LASTS
        since = time.monotonic()
        for rank in away:
            self._signal(rank, signal.SIGKILL if name == "kill" else signal.SIGSTOP)
        for low, high in cut:
            line = self.lines[low, high]
            line.cut() if name == "halves" else (line.there if low in half else line.back).cut()
        if lasts:
            await self._last(seen, begun, lasts)
        seen.seconds = round(time.monotonic() - since, 1)
        for edge in cut:
            self.lines[edge].mend()
        for rank in away:
            if name == "kill":
                self.processes[rank].join()
                self.processes[rank] = self._start(rank, "--resume")
            else:
                self._signal(rank, signal.SIGCONT)

    async def _last(self, seen: Watched, begun: Sequence[int], lasts: int) -> None:
        """Wait while a quorum completes so many rounds, or for a while where no part is one."""
        slack = temporal_diameter(build(self.schedule.topology, SIZE), self.rounds) + 2
        seen.before = list(begun)
        if seen.quorate:
            goal = max(begun[rank] for rank in seen.quorate) + lasts
            went_on = await self.until(lambda done: min(done[rank] for rank in seen.quorate) >= goal, _PATIENCE)
            if not went_on:
                self.problems.append(f"{seen.kind}: ranks {seen.quorate} are a connected quorum and did not go on")
        else:
            await asyncio.sleep(_ALONE)
        seen.after = self.completed()
        if seen.kind == "one-way":
            return  # those that are not heard hear how far the others are, and follow them
        for part in seen.parts:
            ahead = max(seen.after[rank] for rank in part) - max(begun)
            if part != seen.quorate and ahead > slack:
                self.problems.append(f"{seen.kind}: ranks {part} are no quorum and ran {ahead} rounds ahead")

    def _signal(self, rank: int, number: signal.Signals) -> None:
        process = self.processes[rank]
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)

    # -- judgment ----------------------------------------------------------------------------------------------

    async def judge(self, seconds: float) -> dict[str, Any]:
        """Wait until all peers have ended; returns the figures."""
        end = time.monotonic() + seconds
        await self.until(lambda completed: time.monotonic() > end, seconds)
        runs = [lines_of(self.folder / "run" / f"rank-{rank}" / "metrics.jsonl") for rank in range(SIZE)]
        for rank, process in enumerate(self.processes):
            summary = self.folder / "run" / f"rank-{rank}" / "summary.json"
            status = json.loads(summary.read_text())["status"] if summary.exists() else None
            if process.is_alive():
                self.problems.append(f"rank {rank} is still in round {len(runs[rank]) + 1}")
            elif process.exitcode != 0 or status != "done" or len(runs[rank]) != self.rounds:
                self.problems.append(
                    f"rank {rank} has ended with exit {process.exitcode}, {status}, after {len(runs[rank])} rounds"
                )
            if "Traceback" in (self.folder / f"output-{rank}").read_text():
                self.problems.append(f"rank {rank} has printed a traceback")
        returns = list(self._returns(runs))
        for one in returns:
            if one["lag"] is None or one["lag"] > _LAG:
                self.problems.append(
                    f"rank {one['rank']} entered in round {one['entry'] + 1}, and rank {one['neighbor']} mixed it "
                    f"{'never' if one['lag'] is None else str(one['lag']) + ' rounds later'}"
                )
        last = [run[-1]["accuracy"] for run in runs if len(run) == self.rounds]
        return {
            "accuracy": mean(last) if last else None,
            "drops": [round(100 * one["drop"], 2) for one in returns if one["drop"] is not None],
            "lag": max((one["lag"] for one in returns if one["lag"] is not None), default=None),
            "returns": len(returns),
            "sat_out": sum(not line["active"] for run in runs for line in run),
            "nothing": sum(line["active"] and not line["heard"] for run in runs for line in run),
            "faults": [asdict(one) for one in self.watched],
            "problems": self.problems,
        }

    def _returns(self, runs: Sequence[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
        """Each return to each neighbor that took part: when it mixed the returner, and what it lost in that round."""
        for rank, run in enumerate(runs):
            neighbors = {other for edge in self.edges if rank in edge for other in edge} - {rank}
            for entry in range(1, len(run)):
                if not run[entry]["active"] or run[entry - 1]["active"]:
                    continue
                for other in neighbors:
                    both = [*run[entry : entry + _LAG + 1], *runs[other][entry : entry + _LAG + 1]]
                    if len(both) < 2 * (_LAG + 1) or not all(line["active"] for line in both):
                        continue  # one of them was away again, or the run ended
                    lines = runs[other]
                    mixed = next((at for at in range(entry, len(lines)) if rank in lines[at]["heard"]), None)
                    found = {"rank": rank, "neighbor": other, "entry": entry, "lag": None, "drop": None}
                    if mixed is not None:
                        found["lag"] = mixed - entry
                        found["drop"] = lines[mixed - 1]["accuracy"] - lines[mixed]["accuracy"]
                    yield found


def settings(schedule: Schedule, rounds: int) -> list[str]:
    """The settings of a schedule that its reference has, too."""
    return [
        "--size", str(SIZE), "--topology", schedule.topology, "--task", f"{_TASK}:task", "--algorithm", "dfedavgm",
        "--rounds", str(rounds), "--seed", str(schedule.data_seed), "--body-epochs", "2", "--keep", "last",
        "--checkpoint-every", "1",
    ]  # fmt: skip


async def play(schedule: Schedule, rounds: int, folder: Path) -> dict[str, Any]:
    """Play a schedule; returns its result."""
    federation = Federation(schedule, rounds, folder)
    began = time.monotonic()
    try:
        await federation.begin()
        for number, kind in enumerate(schedule.kinds):
            await federation.fault(kind, (rounds // 10) * (1 + 4 * number))
        found = await federation.judge(_PATIENCE + rounds * 3)
    finally:
        await federation.end()
    return {**asdict(schedule), "rate": None if schedule.rate == math.inf else schedule.rate, "rounds": rounds,
            "seconds": round(time.monotonic() - began, 1), **found}  # fmt: skip


def reference(schedule: Schedule, rounds: int, out: Path) -> dict[str, float]:
    """Without faults: the final mean accuracy, and the most points that a peer lost in a round from the first fault on.

    A fault in which no round is lost changes no bit, so this is how far accuracies swing by themselves.
    """
    name = f"reference-{schedule.topology}-{schedule.data_seed}-{rounds}"
    folder = out / name
    if not (folder / "rank-0" / "summary.json").exists():
        command = ["simulate", *settings(schedule, rounds), "--alone", "never", "--overwrite", "--out", str(folder)]
        process = _server().Process(target=chaos_peer.run, args=(command, str(folder) + ".output"))
        forking.start(process)
        process.join()
        if process.exitcode:
            raise SystemExit(Path(str(folder) + ".output").read_text())
    runs = [[one["accuracy"] for one in lines_of(folder / f"rank-{rank}" / "metrics.jsonl")] for rank in range(SIZE)]
    lost = [before - after for run in runs for before, after in pairwise(run[rounds // 10 :])]
    return {"reference": mean(run[-1] for run in runs), "swing": 100 * max(lost)}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that may just be written."""
    try:
        text = path.read_text()
    except OSError:
        return []
    return [json.loads(one) for one in text.splitlines(keepends=True) if one.endswith("\n")]


def _server() -> Any:
    return forking.context(["dpeer.cli", "chaos_peer"])


# -- results -----------------------------------------------------------------------------------------------------------


def show(results: Sequence[dict[str, Any]]) -> None:
    """Print a table of all results by kind of fault, by line, and of all together."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in results:
        for kind in dict.fromkeys(one["kinds"]):
            groups[kind].append(one)
    for one in results:
        rate = "any" if one["rate"] is None else f"{one['rate'] / 1e6:g} Mbit/s"
        groups[f"{1000 * one['delay']:g} ms, {rate}"].append(one)
    names = [*(kind for kind in KINDS if kind in groups), *sorted(name for name in groups if name not in KINDS)]
    print("| faults, lines | schedules | problems | accuracy | returns | drop | change | swing | lag | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in names:
        _row(name, groups[name])
    _row("all", results)
    for one in results:
        for problem in one["problems"]:
            print(f"seed {one['seed']}: {problem}")


def _row(name: str, group: Sequence[dict[str, Any]]) -> None:
    change = [100 * (one["accuracy"] - one["reference"]) for one in group if one["accuracy"] is not None]
    drops = [drop for one in group for drop in one["drops"]]
    lags = [one["lag"] for one in group if one["lag"] is not None]
    cells = [
        len(group), sum(bool(one["problems"]) for one in group), f"{mean(change):+.2f}" if change else "-",
        len(drops), f"{max(drops):.1f}" if drops else "-", f"{-mean(drops):+.2f}" if drops else "-",
        f"{max(one['swing'] for one in group):.1f}", max(lags, default="-"),
        f"{mean(one['seconds'] for one in group):.0f}",
    ]  # fmt: skip
    print(" | ".join([f"| {name}", *map(str, cells)]) + " |")


def main() -> None:
    """Run the schedules that are not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("chaos"))
    parser.add_argument("--seeds", default="0-49", metavar="FIRST-LAST")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="faults in place of those that the seed draws")
    parser.add_argument("--show", action="store_true", help="print the results so far, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the results as JSON lines in place of the table")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.jsonl"
    there = {one["seed"] for one in lines_of(path)}
    for seed in [] if options.show else [one for one in seeds if one not in there]:
        schedule = draw(seed)
        if options.kinds:
            schedule = replace(schedule, kinds=tuple(options.kinds))
        known = reference(schedule, options.rounds, options.out)
        folder = (options.out / f"seed-{seed}").absolute()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result = {**asyncio.run(play(schedule, options.rounds, folder)), **known}
        with path.open("a") as file:
            print(json.dumps(result), file=file)
        words = f"{', '.join(schedule.kinds)}: {result['seconds']:.0f} s, {len(result['problems'])} problems"
        print(f"seed {seed}: {words}", file=sys.stderr, flush=True)
        if not result["problems"]:
            shutil.rmtree(folder)
    found = sorted((one for one in lines_of(path) if one["seed"] in seeds), key=lambda one: one["seed"])
    if options.json:
        print(*map(json.dumps, found), sep="\n")
    else:
        show(found)


if __name__ == "__main__":
    main()
