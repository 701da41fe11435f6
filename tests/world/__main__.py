"""Plays many schedules: python -m tests.world [COUNT] [FIRST SEED]. Prints the rate and the schedules that fail."""

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from dpeer.cores import own_cores
from tests.world.scenario import generate
from tests.world.shrinking import report, why


def problems(seeds: range) -> list[tuple[int, str]]:
    """The seeds whose scenario fails, with the violation."""
    return [(seed, problem) for seed in seeds if (problem := why(generate(seed)))]


def main(count: int = 10_000, first: int = 0) -> int:
    """Play the schedules of `count` seeds on all cores; returns the exit code."""
    began, cores, failed = time.perf_counter(), len(own_cores()), []
    chunks = [range(start, min(start + 50, first + count)) for start in range(first, first + count, 50)]
    with ProcessPoolExecutor(cores) as pool:
        for chunk, found in zip(chunks, pool.map(problems, chunks), strict=True):
            failed += found
            for seed, problem in found:
                print(f"seed {seed}: {problem}", flush=True)
            if chunk.stop % 1000 == 0:
                print(f"{chunk.stop - first} schedules, {len(failed)} failed", flush=True)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    print(
        f"{count} schedules in {seconds:.0f} s on {cores} cores: {count / seconds:.1f} a second, "
        f"{count / used:.1f} per second of processor time; {len(failed)} failed"
    )
    if failed:
        print(report(*failed[0], generate(failed[0][0])))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
