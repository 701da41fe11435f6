"""Schedules of resets in mid-body: connections break at drawn bytes, and what had come comes again, whole.

A reset costs one body: of a connection that lasts no body begins twice. Where ranks stand still it may, for who is
silent for long is sent it again; and where neighbors dial each other both, for both change to the other link.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from dpeer.peer.core import wire
from dpeer.simulation.network import later
from tests.world.faults import Fault, draw
from tests.world.scenario import Scenario, drawn_links, drawn_topology, graphs

CHUNK = 4
"""Bytes of a chunk: ten are a body."""


@dataclass(frozen=True)
class Reset:
    """The connections of two ranks break once the first has written so many bytes of bodies to the other."""

    source: int
    target: int
    at: int


def generate_resets(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"resets {seed}")
    size, rounds = rng.randint(2, 6), rng.randint(4, 8)
    topology = drawn_topology(rng, size)
    found = graphs(topology, size, 1.0)
    pairs = [(rank, other) for rank in range(size) for other in found.connections(rank, rounds)]
    resets = tuple(Reset(*rng.choice(pairs), rng.randint(1, 40 * rounds)) for _ in range(rng.randint(1, 5)))
    faults: list[Fault] = []
    if rng.random() < 0.3:
        faults = draw(rng, size, 1.3 * rounds, rng.randint(1, 2), ("crash", "stall", "freeze", "slow"), pairs)
        faults = [
            fault if fault.what == "slow" else replace(fault, seconds=min(fault.seconds, 4.0)) for fault in faults
        ]
    line = replace(
        drawn_links(rng, 0.05), capacity=rng.choice((2, 4, 16)), chunk_bytes=CHUNK, keys=rng.random() < 0.5,
        bytes_per_second=rng.choice((2000.0, 20_000.0, float("inf"))), flushed=rng.choice((0.0, 0.5)),
    )  # fmt: skip
    crossed = rng.random() < 0.3
    return Scenario(
        seed, topology, size, rounds, conditions=line, faults=tuple(faults), resets=resets, crossed=crossed
    )  # fmt: skip


@dataclass
class Deliveries:
    """How often each body was begun, how many of their bytes were written, and which resets are to come.

    Attributes:
        begun: By sender's and receiver's process and the body's digest, how often it was announced.
        written: By ranks of sender and receiver, the bytes of bodies.
        breaks: By ranks, lower first, how often their connections were broken.
    """

    world: object
    begun: Counter = field(default_factory=Counter)
    written: Counter = field(default_factory=Counter)
    breaks: Counter = field(default_factory=Counter)
    happened: set[Reset] = field(default_factory=set)

    def sent(self, source, target, frames):
        """A message is written."""
        scenario, pair = self.world.scenario, (min(source, target), max(source, target))
        if not scenario.resets:
            return
        if not wire.is_chunk(frames):
            if (digest := wire.unpack(frames[0]).get("digest")) and len(digest) == wire.DIGEST_BYTES:  # no hello's
                key = self.world.lives[source][-1], self.world.lives[target][-1], digest
                self.begun[key] += 1
                again = self.begun[key] - 1
                self.world.check(
                    again <= self.breaks[pair] or scenario.faults or scenario.crossed,
                    f"rank {source} begins a body to rank {target} {again} times more in {self.breaks[pair]} resets",
                )
            return
        before = self.written[source, target]
        self.written[source, target] += wire.size(frames[1:])
        for reset in scenario.resets:
            due = before < reset.at <= self.written[source, target]
            if (reset.source, reset.target) == (source, target) and due:
                self.happened.add(reset)
                self.breaks[pair] += 1
                later(0.0, lambda: self.world.network.cut(source, target))
