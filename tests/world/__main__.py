"""Command line of the drawn schedules: plays seeds of all families in parallel, and reports violations."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from dpeer.cores import own_cores
from tests.world.checking import report, why
from tests.world.families import FAMILIES, schedule

_CHUNK = 20
_SAY_EVERY = 500


def play(numbers: range, names: list[str]) -> list[tuple[str, int, str | None, float]]:
    """Family, seed, violation and processor seconds of each of these schedules."""
    found = []
    for number in numbers:
        name, seed = schedule(number, names)
        began = time.process_time()
        problem = why(FAMILIES[name](seed))
        found.append((name, seed, problem, time.process_time() - began))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Play them; returns the exit code."""
    options = parsed(arguments)
    names, first, end = options.families, options.start, options.start + options.schedules
    began, played, failed, used = time.perf_counter(), Counter(), [], Counter()
    chunks = [range(at, min(at + _CHUNK, end)) for at in range(first, end, _CHUNK)]
    with ProcessPoolExecutor(options.processes) as pool:
        for chunk, found in zip(chunks, pool.map(play, chunks, [names] * len(chunks)), strict=True):
            for name, seed, problem, seconds in found:
                played[name] += 1
                used[name] += seconds
                if problem:
                    failed.append((name, seed, problem))
                    print(f"{name} {seed}: {problem}", flush=True)
            if chunk.stop % _SAY_EVERY == 0:
                print(
                    f"{chunk.stop - first} schedules, {len(failed)} failed; the next is --from {chunk.stop}", flush=True
                )
    seconds = time.perf_counter() - began
    bad = Counter(name for name, _, _ in failed)
    for name in played:
        rate = played[name] / max(used[name], 1e-9)
        print(f"{name:<10} {played[name]:>6} schedules, {bad[name]} failed, {rate:.1f} a second of a core")
    total = max(sum(used.values()), 1e-9)
    print(
        f"{end - first} schedules from {first} on in {seconds:.0f} s on {options.processes} cores: "
        f"{(end - first) / seconds:.1f} a second, {(end - first) / total:.1f} a second of a core; {len(failed)} failed"
    )
    if failed:
        name, seed, problem = failed[0]
        print(report(seed, problem, FAMILIES[name](seed)))
    return 1 if failed else 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000, metavar="N", help="how many; 10000 by default")
    parser.add_argument("--from", type=int, default=0, dest="start", metavar="NUMBER", help="the first one, to go on")
    parser.add_argument("--families", type=lambda text: text.split(","), default=list(FAMILIES), metavar="A,B",
                        help=f"which, of {', '.join(FAMILIES)}; all by default")  # fmt: skip
    parser.add_argument(
        "--processes", type=int, default=len(own_cores()), metavar="N", help="as many as cores by default"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.families if name not in FAMILIES]:
        parser.error(f"--families: {unknown[0]!r} is none of {', '.join(FAMILIES)}")
    if min(options.schedules, options.processes) < 1 or options.start < 0:
        parser.error("--schedules and --processes: expected 1 or more; --from: 0 or more")
    return options


if __name__ == "__main__":
    sys.exit(main())
