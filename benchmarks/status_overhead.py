"""Overhead of status: rounds of peers that serve it and are scraped each second, beside rounds of peers that do not.

    python benchmarks/status_overhead.py [--task digits] [--local-steps 50] [--peers 2] [--seconds 20] [--repeats 5]
                                         [--json]

Two federations of `dpeer start` on this machine, equal but for `--serve`. One runs at a time, for `--seconds` and three
rounds at least, and the other is stopped (SIGSTOP) meanwhile; which goes first alternates. Each peer of the watched one
is scraped (`/metrics`) once a second. A round counts if it lies whole in a stretch. A ratio is that of two stretches
right after each other, and its median and quartiles are given: of a round's time, and of processor time a round.

Afterwards the peers are asked while they train: over HTTP for all that a page needs, and over the control socket, as
`dpeer status` does. It prints the times until an answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from fleet import say
from link_emulator import free_ports

from dpeer.federation.control_client import ask

_PATIENCE = 120.0
_ROUNDS = 1_000_000


class Stretch(NamedTuple):
    """A federation's turn.

    Attributes:
        seconds: The median length of a round.
        processor: Processor seconds of all peers a round.
    """

    seconds: float
    processor: float


class Federation:
    """Peers of `dpeer start` that share this machine with another federation, each in its turn.

    Args:
        folder: Where they run.
        name: The name of their run folder.
        peers: How many.
        flags: Of `dpeer start`.
    """

    def __init__(self, folder: Path, name: str, peers: int, flags: Sequence[object]) -> None:
        self.folders = [folder / name / f"rank-{rank}" for rank in range(peers)]
        file = folder / f"{name}.toml"
        addresses = (
            f'rank.{rank}.address = "tcp://127.0.0.1:{port}"' for rank, port in enumerate(free_ports(peers))
        )  # fmt: skip
        file.write_text("\n".join([f"size = {peers}", *addresses]))
        words = (
            "--federation", file, "--out", name, "--rounds", _ROUNDS, "--dead-after", 3600, "--alone", "never",
            "--threads", 1, *flags,
        )  # fmt: skip
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "dpeer", "start", "--rank", str(rank), *map(str, words)],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(peers)
        ]  # fmt: skip

    def rounds(self) -> list[float]:
        """When each round of rank 0 was complete, in Unix seconds."""
        log = self.folders[0] / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        with contextlib.suppress(ValueError):  # the last line may be half written
            return [line["time"] for line in map(json.loads, lines) if line["event"] == "round"]
        return self.rounds()

    def urls(self) -> list[str]:
        """Where the peers serve their status."""
        found = (re.search(r"status at (http://\S+/)", (one / "log.jsonl").read_text()) for one in self.folders)
        return [one[1] for one in found if one is not None]

    def wait_for_rounds(self, count: int) -> None:
        """Wait until so many rounds are complete."""
        end = time.monotonic() + _PATIENCE
        while len(self.rounds()) < count:
            if time.monotonic() > end or any(one.poll() is not None for one in self._processes):
                raise RuntimeError(f"the peers of {self.folders[0].parent.name!r} do not train: see their log.jsonl")
            time.sleep(0.1)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all peers."""
        for one in self._processes:
            one.send_signal(number)

    def processor_seconds(self) -> float:
        """Processor time of all peers so far (Linux)."""
        ticks = 0
        for one in self._processes:
            fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End the peers."""
        for one in self._processes:
            one.kill()
            one.wait()


@contextlib.contextmanager
def each_second(questions: Sequence[Callable[[], object]], times: list[float]) -> Iterator[None]:
    """Context in which all questions are asked once a second; adds the seconds that each answer took."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for question in questions:
                began = time.perf_counter()
                question()
                times.append(time.perf_counter() - began)
            over.wait(1.0)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def fetch(url: str) -> None:
    """Read a page to its end."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()


def stretch(federation: Federation, seconds: float, watch: contextlib.AbstractContextManager[None]) -> Stretch:
    """Let a federation run for so long, watched or not; it is stopped before and after."""
    federation.signal(signal.SIGCONT)
    with watch:
        began, used = time.time(), federation.processor_seconds()
        before = len(federation.rounds())
        time.sleep(seconds)
        federation.wait_for_rounds(before + 3)
        ended, used = time.time(), federation.processor_seconds() - used
    federation.signal(signal.SIGSTOP)
    within = [one for one in federation.rounds() if began <= one <= ended]
    return Stretch(median(after - before for before, after in pairwise(within)), used / len(within))


def measure(task: str, steps: int, peers: int, seconds: float, repeats: int) -> dict[str, Any]:
    """Ratios of watched to unwatched rounds, and seconds until an answer."""
    found: dict[bool, list[Stretch]] = {True: [], False: []}
    scraped: list[float] = []
    pages_seconds: list[float] = []
    status: list[float] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        sides = {}
        for watched in (True, False):
            flags = ("--task", task, "--local-steps", steps, *(("--serve", 0) if watched else ()))
            name = "watched" if watched else "unwatched"
            sides[watched] = Federation(Path(folder), name, peers, flags)
            stack.callback(sides[watched].end)
            sides[watched].wait_for_rounds(3)
            if watched:
                urls = sides[True].urls()
                sides[True].signal(signal.SIGSTOP)
        sides[False].signal(signal.SIGSTOP)
        for number in range(repeats):
            for watched in (True, False) if number % 2 else (False, True):
                scrapes = [partial(fetch, f"{url}metrics") for url in urls]
                watch = each_second(scrapes, scraped) if watched else contextlib.nullcontext()
                found[watched].append(stretch(sides[watched], seconds, watch))
        sides[True].signal(signal.SIGCONT)
        pages = [partial(fetch, f"{url}{path}") for url in urls for path in ("", "view", "status.json")]
        sockets = [partial(ask, one, {"ask": "status"}) for one in sides[True].folders]
        with each_second(pages, pages_seconds), each_second(sockets, status):
            time.sleep(seconds)
    ratios = [
        [watched[part] / alone[part] for watched, alone in zip(found[True], found[False], strict=True)]
        for part in range(2)
    ]
    return {
        "round_ms": 1000 * median(one for one, _ in found[False]),
        "watched_round_ms": 1000 * median(one for one, _ in found[True]),
        "ratio": median(ratios[0]),
        "ratio_quartiles": _quartiles(ratios[0]),
        "processor_ratio": median(ratios[1]),
        "processor_ratio_quartiles": _quartiles(ratios[1]),
        "scrape_ms": 1000 * median(scraped),
        "page_ms": 1000 * median(pages_seconds),
        "page_ms_most": 1000 * max(pages_seconds),
        "status_answer_ms": 1000 * median(status),
        "status_answer_ms_most": 1000 * max(status),
    }


def _quartiles(values: Sequence[float]) -> list[float]:
    if len(values) < 2:
        return [round(values[0], 3)] * 2
    low, _, high = quantiles(values, n=4, method="inclusive")
    return [round(low, 3), round(high, 3)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="digits", help="as that of dpeer start")
    parser.add_argument("--local-steps", type=int, default=50, help="minibatches a round")
    parser.add_argument("--peers", type=int, default=2, help="how many")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a stretch")
    parser.add_argument("--repeats", type=int, default=5, help="how many pairs of stretches")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    result = measure(arguments.task, arguments.local_steps, arguments.peers, arguments.seconds, arguments.repeats)
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
