"""Rounds over wide-area lines: dpeer with each codec beside raw sockets and pickled objects over ZeroMQ.

    python benchmarks/wide_area.py [--lines a b c] [--parameters 11173962 1200000] [--train 0] [--only dpeer ...]
                                   [--peers 4] [--rounds 3] [--repeats 3] [--emulator packets|proxy]
                                   [--out FOLDER] [--json]

Each peer is a host with a line of its own: what it sends to all its neighbors shares the uplink. The lines:

    a   100 Mbit/s, 100 ms
    b   20 Mbit/s, 40 ms
    c   1 Gbit/s, 10 ms

and any other as `50Mbit/30ms`. A delay is a round trip between two peers, half of it each way. `emulated_lines.py` has
the emulators; the first that works here is used, and printed, with what four plain connections get through it.

A round is `--train` seconds in which the processor has nothing to do, as where a GPU trains, and the exchange with both
neighbors on a ring. With a column for each:

    seconds     a round: the median of all that count, and the shortest and longest
    waits       the share of a round in which nothing trains
    MB          that a peer sends in a round
    line        seconds that its line needs for these bytes, at its bandwidth and without delay: what can be reached
    ratio       the round over the longer of training and the line's own time

Contestants:

    raw           plain TCP sockets, both directions at once (`rings.py`): no framing, no codec, no training meanwhile
    pickle        send_pyobj and recv_pyobj of ZeroMQ
    dpeer         whole peers; with `-keys` encrypted, with `-CODEC` bodies travel as `--compress CODEC` makes them

Repetitions are interleaved: all contestants of a line and a size run one after the other, then again. A round is the
mean over the peers; the first one and the last do not count. Results of OUT are kept, and not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

import rings
from emulated_lines import Shape, emulators, opened
from fleet import Case, Worker, ring, run
from gossip_round import RESNET18, peers

from dpeer.federation.keys import keyrings
from dpeer.training import Hyperparameters

Cell = dict[str, Any]
"""What distinguishes one run from the others, in plain JSON."""

Line = dict[str, Any]
"""The results of a run, in plain JSON."""

LINES = {"a": "100Mbit/100ms", "b": "20Mbit/40ms", "c": "1Gbit/10ms"}
NAMES = ["raw", "pickle", "dpeer", "dpeer-keys", "dpeer-int8", "dpeer-int4"]


def contestant(name: str, size: int = 2) -> tuple[Worker, Mapping[str, Any]]:
    """What exchanges the bodies of so many peers, by its name: a worker, and its options.

    Raises:
        argparse.ArgumentTypeError: No contestant has the name.
        pydantic.ValidationError: No such codec.
    """
    kind, _, way = name.partition("-")
    if name in ("raw", "pickle"):
        return (rings.raw if name == "raw" else rings.pickle), {}
    if kind != "dpeer":
        raise argparse.ArgumentTypeError(f"{name!r}: expected raw, pickle, dpeer, dpeer-keys or dpeer-CODEC")
    if way == "keys":
        return peers, {"keyrings": keyrings(size)}
    settings: dict[str, Any] = {"compress": way} if way else {}
    Hyperparameters(**settings)
    return peers, {"settings": settings}


def _name(text: str) -> str:
    contestant(text)
    return text


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """All cells, interleaved: line, parameters of a body, seconds of training, peers, contestant, repetition."""
    same = {"train": options.train, "peers": options.peers}
    for line in options.lines:
        for parameters in options.parameters:
            for repetition in range(options.repeats):
                for name in options.only:
                    yield {"line": line, "parameters": parameters, **same, "name": name, "repetition": repetition}


def shape_of(line: str) -> Shape:
    """The shape of a line by its name, or as it is written.

    Raises:
        ValueError: It is neither.
    """
    return Shape.parse(LINES.get(line) or line)


def measured(cell: Cell, rounds: int, emulator: str | None) -> Line:
    """The figures of one cell."""
    shape, size = shape_of(cell["line"]), cell["peers"]
    worker, options = contestant(cell["name"], size)
    with opened([shape] * size, emulator) as (name, lines):
        options = {**options, "sleeps": cell["train"]}
        case = Case(size, cell["parameters"], rounds, ring(size), options, lines, warm_up=1, cool_down=1)
        found = run(worker, case)
    count = fmean(figures.bytes_sent / len(figures.round_seconds) for figures in found)
    return {
        "emulator": name,
        "round_seconds": [fmean(times) for times in zip(*(figures.round_seconds for figures in found), strict=True)],
        "bytes_sent": count,
        "line_seconds": count / shape.bytes_per_second,
        "cpu_seconds": fmean(figures.cpu_seconds / len(figures.round_seconds) for figures in found),
    }


def reached(shape: Shape, size: int, emulator: str | None) -> tuple[str, float]:
    """The emulator, and the bits a second that a host sends through it on a ring of plain connections."""
    parameters = int(shape.bytes_per_second * 3 / 8)  # of three seconds: TCP takes a part of one to find the rate
    with opened([shape] * size, emulator) as (name, lines):
        found = run(rings.raw, Case(size, parameters, 1, ring(size), {}, lines, warm_up=1))
    return name, max(8 * one.bytes_sent / one.seconds for one in found)


def results(options: argparse.Namespace) -> Iterator[Line]:
    """A line for each cell: those of an earlier run, and the others as they are measured."""
    path = None if options.out is None else options.out / "wide_area.jsonl"
    there = [] if path is None or not path.exists() else [json.loads(line) for line in path.read_text().splitlines()]
    for cell in cells(options):
        found = next((one for one in there if one["cell"] == cell), None)
        if found is None:
            found = {"cell": cell, **measured(cell, options.rounds, options.emulator)}
            print(found, file=sys.stderr)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(found) + "\n")
        yield found


def table(found: Sequence[Line]) -> list[dict[str, Any]]:
    """A row for each line, size, training and contestant, of all its repetitions."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for one in found:
        key = tuple(one["cell"][name] for name in ("line", "parameters", "train", "peers", "name"))
        groups.setdefault(key, []).append(one)
    rows = []
    for (line, parameters, train, size, name), same in groups.items():
        times = [seconds for one in same for seconds in one["round_seconds"]]
        own = fmean(one["line_seconds"] for one in same)
        seconds = median(times)
        rows.append({
            "line": line, "parameters": parameters, "train": train, "peers": size, "name": name,
            "emulator": "/".join(sorted({one["emulator"] for one in same})),
            "seconds": seconds, "least": min(times), "most": max(times), "rounds": len(times),
            "waits": 1 - train / seconds, "mb": fmean(one["bytes_sent"] for one in same) / 1e6, "line_seconds": own,
            "ratio": seconds / max(train, own),
        })  # fmt: skip
    return rows


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as a table of Markdown, as docs/results.md has it."""
    print("| line | parameters | contestant | seconds a round | waits | MB a peer | line alone | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for one in rows:
        size = f"{one['parameters'] / 1e6:.1f}M" if one["parameters"] >= 10**5 else str(one["parameters"])
        spread = f"{_seconds(one['seconds'])} ({_seconds(one['least'])} to {_seconds(one['most'])})"
        print(
            f"| {one['line']} | {size} | {one['name']} | {spread} | {100 * one['waits']:.0f} % | {one['mb']:.1f} | "
            f"{_seconds(one['line_seconds'])} s | {one['ratio']:.2f} |"
        )


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def versions() -> dict[str, str]:
    """What was measured, and on what."""
    import zmq

    from dpeer.cores import own_cores

    control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "dpeer": version("dpeer"), "torch": version("torch"), "pyzmq": version("pyzmq"), "libzmq": zmq.zmq_version(),
        "python": platform.python_version(), "cores": str(len(own_cores())), "kernel": platform.release().split("-")[0],
        "congestion control": control.read_text().strip() if control.exists() else "unknown",
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", nargs="+", default=[*LINES], metavar="LINE", help="a, b, c, or as 50Mbit/30ms")
    parser.add_argument("--parameters", nargs="+", type=int, default=[RESNET18, 1_200_000])
    parser.add_argument("--train", type=float, default=0.0, help="seconds of training in a round")
    parser.add_argument("--only", nargs="+", type=_name, default=[*NAMES], metavar="CONTESTANT")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--emulator", choices=[*emulators()], help="default: the first that works here")
    parser.add_argument("--out", type=Path, help="keep results in this folder, and go on from those that are there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for line in options.lines:
        shape = shape_of(line)
        name, rate = reached(shape, options.peers, options.emulator)
        print(f"line {line}, {shape}: emulator {name} passes {rate / 1e6:.0f} Mbit/s", file=sys.stderr)
    rows = table(list(results(options)))
    if options.json:
        print(json.dumps({"versions": versions(), "rows": rows}))
        return
    print(", ".join(f"{name} {value}" for name, value in versions().items()) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
