"""Scenario of a simulated run: federation, network and faults; `generate` draws the family `faults`."""

import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dpeer.exceptions import TopologyError
from dpeer.peer.core.round_clock import Quorum
from dpeer.simulation.network import Conditions
from dpeer.topology import Graphs, Neighborhood, Participation, Row, ServerSampling, build
from tests.world.faults import KINDS, Fault, draw

STATIC = ("ring", "star", "full", "grid", "exponential-directed", "one-way")
TIME_VARYING = ("one-peer-exponential", "random-matching")
MILD = ("cut", "stall", "freeze", "slow", "crash", "part")
"""Faults that lose nothing, if they are over before a peer is taken for dead."""


LONG = ("vanish", "vanish", "power", "part", "freeze")
"""Faults by which neighbors are taken for dead, and after which they must find each other again."""


@dataclass(frozen=True)
class Scenario:
    """A run that can be played again: `World(scenario).run()`. Its `repr` is code."""

    seed: int
    topology: str
    size: int
    rounds: int
    participation: float = 1.0
    hidden: tuple[int, ...] = ()
    """Ranks without an address, which only dial."""
    pace: float = 1.0
    """The seconds of a round's training, about."""
    checkpoint_every: int = 1
    conditions: Conditions = field(default_factory=Conditions)
    faults: tuple[Fault, ...] = ()
    wait: float = 60.0
    """Seconds for which a peer waits for its neighbors, or for news in a pause."""
    deadline: float | Literal["auto"] | None = None
    """Seconds after which a round goes on without a neighbor that sends nothing; None for never."""
    disk: tuple[float, ...] = (0.0, 0.02, 0.2, 2.0)
    """The seconds that saving may take."""
    budgets: tuple[tuple[int, float | Literal["auto"]], ...] = ()
    """Ranks whose rounds have a budget, and its seconds."""
    announced: bool = True
    """Whether peers that are drained announce their return; else all begin again when the last one has left."""
    quorum: Quorum = "majority"
    arrivals: tuple[float, ...] = ()
    """By rank, when its process begins first; inf for never. Empty where all begin at once."""
    mistaken: tuple[int, ...] = ()
    """Ranks that come with other settings at first, and are corrected some time after a start was refused."""
    resets: tuple[Any, ...] = ()
    """Where connections break in the middle of a body: `tests.world.resets.Reset`."""
    stated: tuple[int, ...] = ()
    """By rank, the rounds that its operator states from the start as perhaps released from a lost disk."""
    private: bool = True
    """Whether each release is charged to a ledger; without, nothing is counted after a lost disk."""
    crossed: bool = False
    """Whether no rank's own file has its address: then of two neighbors each dials the other."""

    @property
    def graphs(self) -> Graphs:
        return graphs(self.topology, self.size, self.participation)

    @property
    def over_at(self) -> float:
        """The end of the last fault that ends, or the last arrival."""
        ends = [fault.at + (fault.seconds if fault.seconds < math.inf else 0) for fault in self.faults]
        return max([*ends, *(at for at in self.arrivals if at < math.inf)], default=0.0)

    @property
    def needed(self) -> int:
        """How many ranks must have been there before a round begins."""
        return self.quorum if isinstance(self.quorum, int) else self.size


@dataclass(frozen=True)
class OneWay:
    """A ring on which each peer sends to the next one only: a peer learns of those behind it by heartbeats alone."""

    size: int

    def at(self, number: int, rank: int) -> Neighborhood:
        before, after = (rank - 1) % self.size, (rank + 1) % self.size
        return Neighborhood(rank, Row(rank, {rank: 0.5, before: 0.5}), (before,), (after,))

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        return tuple(sorted({(rank - 1) % self.size, (rank + 1) % self.size}))


class Remembered:
    """A cache of graphs: all peers of all schedules ask for the same few."""

    def __init__(self, graphs: Graphs) -> None:
        self.size = graphs.size
        self.at = functools.cache(graphs.at)
        self.connections = functools.cache(graphs.connections)


@functools.cache
def graphs(name: str, size: int, participation: float) -> Graphs:
    if name == "server":  # a sample sends to all
        return Remembered(ServerSampling(build("full", size, weights="uniform"), participation, 3))
    if name == "one-way":
        whole = OneWay(size)
    elif name == "line":
        whole = build(f"grid:1x{size}", size)
    else:
        whole = build(name, size, graph_seed=size)
    return Remembered(whole if participation == 1.0 else Participation(whole, participation, 3))


def drawn_topology(rng: random.Random, *sizes: int) -> str:
    """A topology that exists for these sizes."""
    topology = rng.choice(STATIC if rng.random() < 0.8 else TIME_VARYING)
    try:
        for size in sizes:
            graphs(topology, size, 1.0)
    except TopologyError:
        return "ring"
    return topology


def drawn_links(rng: random.Random, slowest: float = 0.3) -> Conditions:
    """Links between peers that find each other soon; `slowest` is the largest latency, in seconds."""
    return Conditions(
        latency=(0.001, rng.choice((0.002, slowest))),
        capacity=rng.choice((2, 16)),
        chunk_bytes=rng.choice((None, 16)),
        redial=(0.1, 1.0),
        notice=(0.0, 0.5),
        listener_told=0.5,
        flushed=0.5,
    )


def generate(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    size, rounds = min(rng.randint(3, 12), rng.randint(3, 12)), rng.randint(4, 8)
    topology = rng.choice(STATIC if rng.random() < 0.75 else TIME_VARYING)
    participation = 1.0 if rng.random() < 0.9 else 0.6
    try:
        found = graphs(topology, size, participation)
    except TopologyError:  # not of this size
        topology, found = "ring", graphs("ring", size, participation)
    conditions = Conditions(
        latency=(0.001, rng.choice((0.002, 0.05, 0.8))),
        capacity=rng.choice((2, 4, 16)),
        chunk_bytes=rng.choice((None, 16)),
        redial=(0.1, rng.choice((0.5, 2.0))),
        notice=(0.0, rng.choice((0.0, 1.0))),
        listener_told=rng.choice((0.0, 0.5, 1.0)),
        flushed=rng.choice((0.0, 0.5)),
    )
    hidden = tuple(rank for rank in range(size) if rng.random() < 0.1)
    if any(set(hidden) & set(found.connections(rank, rounds)) for rank in hidden):
        hidden = ()  # of two neighbors one must have an address
    pace = 10.0 if rng.random() < 0.05 else 1.0
    edges = [(rank, other) for rank in range(size) for other in found.connections(rank, rounds)]
    kind, some = rng.random(), rng.sample(KINDS, rng.randint(1, 5))
    count = rng.choice((1, 1, 2, 2, 3, 4, 6))
    if kind < 0.04:
        faults = []
    elif kind < 0.11:  # early ones, in rounds so long that all peers meet again before the end
        rounds, pace = 8, 10.0
        faults = draw(rng, size, 2 * pace, min(count, 3), LONG, edges)
    elif kind < 0.2:
        faults = _together(rng, size, 1.3 * rounds * pace)
    elif kind < 0.5:  # short ones, after which the bits must be those of a run without faults
        faults = [_short(rng, fault) for fault in draw(rng, size, 1.3 * rounds * pace, count, MILD, edges)]
    else:
        faults = draw(rng, size, 1.3 * rounds * min(pace, 2.0) + 4, count, some, edges)
    if len(faults) > 1 and rng.random() < 0.3:
        faults = _close(rng, faults)
    every = 1 if rng.random() < 0.85 else 3
    return Scenario(seed, topology, size, rounds, participation, hidden, pace, every, conditions, tuple(faults))


def _short(rng: random.Random, fault: Fault) -> Fault:
    seconds = fault.seconds if fault.what == "slow" else round(rng.uniform(0.0, 4.0), 3)
    return replace(fault, seconds=min(seconds, 40.0))


def _close(rng: random.Random, faults: Sequence[Fault]) -> list[Fault]:
    """The same, but soon after each other."""
    first = faults[0].at
    return [replace(fault, at=round(first + rng.uniform(0, 2), 3)) for fault in faults]


def _together(rng: random.Random, size: int, seconds: float) -> list[Fault]:
    """The whole federation is stopped or killed, and resumed."""
    what, at, lasts = rng.choice(("stop", "crash")), rng.uniform(1, seconds), rng.uniform(2, 4)
    return [Fault(what, (rank,), round(at + rng.uniform(0, 1), 3), round(lasts, 3)) for rank in range(size)]
