"""Schedules of resets in mid-body: connections break at drawn bytes, and what has come is not sent again.

A receiver is told by its own core what came of a body, so the check is independent of what hellos say: of a body whose
receiver lives on, no byte is written that the receiver has got already. In other families that is no rule: a returner's
neighbors forget its bodies, and who is silent for long may ask for what is on its way. Nor is it where neighbors dial
each other both: what is under way on one link when both change to the other one comes twice.
"""

import random
from dataclasses import dataclass, field, replace

from dpeer.peer.core import wire
from dpeer.simulation.network import later
from tests.world.faults import Fault, draw
from tests.world.scenario import Scenario, drawn_links, drawn_topology, graphs

RESETS = 160
"""The number of schedules, from seed 0 on, in the test suite."""

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
    """What of each body has come to each process, and which resets are to come.

    Attributes:
        bytes_again: Bytes that were written although their receiver had got them.
    """

    world: object
    came: dict[tuple[object, bytes], int] = field(default_factory=dict)
    written: dict[tuple[int, int], int] = field(default_factory=dict)
    names: dict[tuple[object, bytes], bytes] = field(default_factory=dict)
    happened: set[Reset] = field(default_factory=set)
    bytes_again: int = 0

    def watch(self, life, core):
        """Note what comes to a process."""
        add = core.reassembly.add

        def noted(link, chunk, now=0.0):
            arriving = add(link, chunk, now)
            if arriving.wanted:
                key = life, arriving.name
                self.came[key] = max(self.came.get(key, 0), arriving.got)
            return arriving

        core.reassembly.add = noted

    def sent(self, source, target, frames):
        """A message is written."""
        sender, receiver = self.world.lives[source][-1], self.world.lives[target][-1]
        header = bytes(frames[0])
        if header[:1] != b"\xc1":
            process = f"{source}.{sender.incarnation}".encode()
            self.names[sender, wire.tag(header)] = wire.body_name(process, header)
            return
        tag, offset = header[1:9], int.from_bytes(header[9:17], "little")
        came = self.came.get((receiver, self.names[sender, tag]), 0)
        self.bytes_again += max(0, min(came, offset + wire.size(frames[1:])) - offset)
        self.world.check(
            offset >= came or not self.world.scenario.resets or self.world.scenario.crossed,
            f"rank {source} sends rank {target} byte {offset} of a body of which {came} have come",
        )
        before = self.written.get((source, target), 0)
        after = self.written[source, target] = before + wire.size(frames[1:])
        for reset in self.world.scenario.resets:
            if (reset.source, reset.target) == (source, target) and reset not in self.happened and after >= reset.at:
                self.happened.add(reset)
                later(0.0, lambda: self.world.network.cut(source, target))
