"""A round of gossip without training: peers as they are, beside actors of Ray that pass the same bodies.

    python benchmarks/ray_actors.py [--peers 4] [--parameters 91000] [--repeats 5] [--rounds 15] [--json]

Peers are those of `gossip_round.py`: whole ones, over tcp://. An actor has what Ray gives it and no more: it puts its
body into the object store, takes those of its neighbors on a ring out of it, and sums. It checks nothing, counts
nothing and recovers from nothing. A round ends once all actors have summed. Both are measured in every repetition, one
after the other; medians of the repetitions, and of the ratio within one.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
from fleet import WARM_UP, Case, ring, run, say
from gossip_round import peers, round_ms


class Actor:
    """A body of so many parameters."""

    def __init__(self, parameters: int) -> None:
        self.body = np.random.default_rng(0).random(parameters, np.float32)

    def release(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The body, as an object of the store."""
        return self.body

    def mix(self, *bodies: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        """Take the mean with the neighbors' bodies."""
        weight = np.float32(1 / (len(bodies) + 1))
        self.body = self.body * weight
        for body in bodies:
            self.body += body * weight


@contextmanager
def ray_here(peers: int, parameters: int) -> Iterator[None]:
    """A Ray cluster of this machine, with room for the bodies of some rounds."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    store = max(100 * 2**20, 4 * 4 * peers * parameters)
    ray.init(
        num_cpus=peers, object_store_memory=store, include_dashboard=False, logging_level=logging.ERROR,
        log_to_driver=False,
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


def actors_ms(case: Case) -> float:
    """Milliseconds of a round of actors, on average over the rounds that count."""
    import ray

    made = ray.remote(num_cpus=1)(Actor)
    actors: list[Any] = [made.remote(case.parameters) for _ in range(case.size)]
    began = 0.0
    for number in range(WARM_UP + case.rounds):
        if number == WARM_UP:
            began = time.perf_counter()
        bodies = [actor.release.remote() for actor in actors]
        ray.get([
            actor.mix.remote(*(bodies[neighbor] for neighbor in case.neighbors[rank]))
            for rank, actor in enumerate(actors)
        ])  # fmt: skip
    seconds = time.perf_counter() - began
    for actor in actors:
        ray.kill(actor)
    return 1000 * seconds / case.rounds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=91_000)
    parser.add_argument("--rounds", type=int, default=15, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), {})
    found: list[tuple[float, float]] = []
    with ray_here(arguments.peers, arguments.parameters):
        for _ in range(arguments.repeats):
            one = round_ms(run(peers, case))
            found.append((one, actors_ms(case)))
    result = {
        "peers": arguments.peers,
        "parameters": arguments.parameters,
        "peer_round_ms": median(one for one, _ in found),
        "actor_round_ms": median(other for _, other in found),
        "ratio": median(other / one for one, other in found),
        "repetitions_ms": found,
    }
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
