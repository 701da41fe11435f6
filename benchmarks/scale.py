"""Growth of a gossip round and of a peer's memory with the numbers of peers, of neighbors, and of parameters.

    python benchmarks/scale.py [--quick] [--repeats 3] [--plot FILE.svg|FILE.png] [--json]

Whole peers whose training does nothing (those of `gossip_round.py`), after some rounds to warm up:

    in process  2 to 1000 peers on a ring in one process (as `dpeer simulate` runs them), bodies of 10 000 parameters
    processes   2 to 16 peers on a ring, a process each, bodies of 1.2 million
    degree      9 peers, a process each, in a random regular graph of 2, 4, 6 or 8 neighbors, bodies of 1.2 million
    bytes       2 peers, a process each, bodies of 10 thousand to 100 million parameters

The baseline of all but the first are plain sockets (rings.raw) that do the same sends, receives and sums; both run in
every repetition, one after the other. The first is held against itself: time a peer and round. Medians of the
repetitions, and the ratio's own. Memory is what a process shares with no other, at the end of the run, the most of any
process; of peers in one process, what they added to it, divided by their number. What does not fit in half of the
memory that is free is left out, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import rings
from fleet import Case, Figures, ring
from gossip_round import measure, peers, ratio, round_ms
from in_process import simulated

from dpeer.topology import build

SMALL, MIDDLE = 10_000, 1_200_000


@dataclass(frozen=True)
class Point:
    """One federation.

    Attributes:
        at: Its place on the panel's axis.
        case: What is measured.
        bytes_needed: The memory of all processes, roughly.
    """

    at: int
    case: Case
    bytes_needed: float = field(kw_only=True)


def _processes(at: int, case: Case) -> Point:
    """A point of one process a peer: own vectors, releases under way, and what neighbors send early."""
    vectors = sum(6 + 2 * len(neighbors) for neighbors in case.neighbors)
    return Point(at, case, bytes_needed=case.size * 250e6 + vectors * 4 * case.parameters)


def points(*, quick: bool) -> dict[str, list[Point]]:
    """What is measured, by panel."""
    sizes = {
        "in process": (10,) if quick else (10, 30, 100, 300, 1000),
        "processes": (2,) if quick else (2, 4, 8, 16),
        "degree": () if quick else (2, 4, 6, 8),
        "bytes": [10**power for power in range(4, 5 if quick else 9)],
    }
    graphs = {degree: build("random-regular", 9, degree=degree) for degree in sizes["degree"]}
    return {
        "in process": [
            Point(n, Case(1, SMALL, max(5, 300 // n), ((),), {"peers": n}), bytes_needed=n * 5e5 + 5e8)
            for n in sizes["in process"]
        ],
        "processes": [_processes(n, Case(n, MIDDLE, 20, ring(n), {})) for n in sizes["processes"]],
        "degree": [
            _processes(
                degree,
                Case(9, MIDDLE, 20, tuple(graph.connections(rank, 1) for rank in range(9)),
                     {"topology": "random-regular", "degree": degree}),
            )
            for degree, graph in graphs.items()
        ],
        "bytes": [
            _processes(n, Case(2, n, min(100, max(6, 100_000_000 // n)), ring(2), {})) for n in sizes["bytes"]
        ],
    }  # fmt: skip


def measured(panel: str, point: Point, repeats: int) -> dict[str, float]:
    """Times, ratio and memory of one point."""
    if panel == "in process":
        ours = measure(point.case, repeats, {"dpeer": (simulated, {})})["dpeer"]
        times = [round_ms(one) for one in ours]
        memory = _unshared(ours) / point.at
        return {"at": point.at, "ms": median(times), "us_a_peer": 1000 * median(times) / point.at, "mb_a_peer": memory}
    found = measure(point.case, repeats, {"dpeer": (peers, {}), "raw": (rings.raw, {})})
    times, others = ([round_ms(one) for one in found[name]] for name in ("dpeer", "raw"))
    memory = _unshared(found["dpeer"])
    return {
        "at": point.at, "ms": median(times), "raw_ms": median(others), "ratio": ratio(times, others),
        "mb_a_peer": memory,
    }  # fmt: skip


def _unshared(runs: Iterable[Iterable[Figures]]) -> float:
    return median(max(one.unshared_mb for one in figures) for figures in runs)


def _free() -> float:
    """Bytes of memory that may be taken (Linux; elsewhere unknown)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def all_panels(repeats: int, shown: TextIO, *, quick: bool) -> dict[str, list[dict[str, float]]]:
    """Everything, by panel; each point is printed as soon as it is there."""
    result: dict[str, list[dict[str, float]]] = {}
    for panel, several in points(quick=quick).items():
        result[panel] = []
        for point in several:
            if point.bytes_needed > _free() / 2:
                print(f"{panel} {point.at}: left out, needs {point.bytes_needed / 1e9:.1f} GB", file=sys.stderr)
                continue
            result[panel].append(measured(panel, point, repeats))
            print(f"{panel} {_line(result[panel][-1])}", file=shown, flush=True)
    return result


def _line(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.4g}" if name != "at" else f"{value:,}" for name, value in found.items())


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a point of each kind, to see that it runs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it (needs matplotlib)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.plot:
        from scale_figure import draw  # before hours of measuring
    result: dict[str, Any] = all_panels(
        arguments.repeats, sys.stderr if arguments.json else sys.stdout, quick=arguments.quick
    )
    if arguments.json:
        print(json.dumps(result))
    if arguments.plot:
        draw(result, arguments.plot)


if __name__ == "__main__":
    main()
