"""Planned faults, and the director that injects them into a simulated federation.

    Fault("cut", (0, 3), at=2.5, seconds=4.0)

A plan can be drawn from a seed, printed as Python, and played again: with the same seed for the network, the
run is the same to the bit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from dpeer.simulation.network import later

Drawn = Literal["cut", "vanish", "stall", "part", "freeze", "slow", "stop", "crash", "power"]

What = Drawn | Literal["drain", "lose", "back up", "restore"]

KINDS: tuple[What, ...] = get_args(Drawn)
"""The kinds that are drawn; drains, lost disks and backups have generators of their own (`drains`, `returns`, ...)."""

_OF_TWO = ("cut", "vanish", "stall")


@dataclass(frozen=True)
class Fault:
    """One fault.

    | kind | effect |
    |---|---|
    | cut | the connections between two ranks break, and none comes about for `seconds` |
    | vanish | messages of the first of two ranks to the other on their present connections are lost from now on |
    | stall | nothing passes from the first of two ranks to the other for `seconds`; then everything does |
    | part | nothing passes between the ranks and all others for `seconds`; then everything does |
    | freeze | the ranks' processes stand still for `seconds` |
    | slow | the ranks' jobs take `times` as long for `seconds` |
    | drain | the ranks complete their round and leave, and begin again `seconds` after that |
    | stop | the ranks stop, and begin again `seconds` later |
    | crash | the ranks' processes are killed, and begin again from their checkpoints `seconds` later |
    | power | the same, but their connections do not break: no other peer learns of it |
    | lose | the same, but with empty disks, as on new machines |
    | back up | the ranks' disks are copied |
    | restore | as lose, but with the last copy of the disk |

    Attributes:
        what: One of these kinds.
        ranks: The ranks that it hits.
        at: Its begin: virtual seconds from the start; with `round`, from when the first of the ranks begins that.
        seconds: Its duration; inf for good.
        times: The factor of a slow rank's time.
        round: As above; None to count from the start.
    """

    what: What
    ranks: tuple[int, ...]
    at: float
    seconds: float = 0.0
    times: float = 1.0
    round: int | None = None

    def __post_init__(self) -> None:
        if self.what in _OF_TWO and len(set(self.ranks)) != 2:
            raise ValueError(f"ranks: a {self.what!r} is between two ranks, got {list(self.ranks)}")
        if not self.ranks or min(self.ranks) < 0:
            raise ValueError(f"ranks: expected some from 0, got {list(self.ranks)}")
        for name in ("at", "seconds", "times"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected a number from 0, got {getattr(self, name)}")


def draw(
    rng: random.Random,
    size: int,
    seconds: float,
    count: int,
    kinds: Sequence[What] = KINDS,
    pairs: Sequence[tuple[int, int]] = (),
) -> list[Fault]:
    """Some faults of a federation's first seconds, drawn at random.

    Args:
        rng: The generator of the draws.
        size: The number of peers.
        seconds: The latest begin.
        count: The number of faults.
        kinds: The kinds among which to draw.
        pairs: The ranks whose connections break, such as the edges of a graph; by default any two.
    """
    pairs = pairs or [(one, other) for one in range(size) for other in range(size) if one != other]
    return [_draw(rng, size, seconds, rng.choice(kinds), pairs) for _ in range(count)]


def _draw(rng: random.Random, size: int, seconds: float, what: What, pairs: Sequence[tuple[int, int]]) -> Fault:
    at = round(rng.uniform(0, seconds), 3)
    # Most are over before a peer is taken for dead; some last longer, so that rounds go on without it.
    lasts = round(rng.choice((rng.uniform(0, 1), rng.uniform(0, 5), rng.uniform(5, 40))), 3)
    if what in _OF_TWO:
        return Fault(what, rng.choice(pairs), at, 0.0 if what == "vanish" else lasts)
    if what == "part":
        return Fault(what, tuple(sorted(rng.sample(range(size), rng.randint(1, size - 1)))), at, lasts)
    ranks = (rng.randrange(size),)
    if what == "slow":
        return Fault(what, ranks, at, lasts, times=round(rng.uniform(1.5, 10), 1))
    if what in ("crash", "power") and rng.random() < 0.25:
        return Fault(what, ranks, at, math.inf)
    return Fault(what, ranks, at, lasts)


class Director:
    """Injects faults, each at its time.

    Args:
        stage: The federation: `size`, `network`, and a rank's methods `process`, `stop`, `drain`, `kill` and `restart`.
        faults: The faults.
    """

    def __init__(self, stage: Any, faults: Iterable[Fault]) -> None:
        self._stage = stage
        self._faults = list(faults)

    def start(self) -> None:
        """Begin to count the time."""
        for fault in self._faults:
            if fault.round is None:
                later(fault.at, partial(self._inject, fault))

    def begun(self, rank: int, number: int) -> None:
        """Note that a rank begins a round; faults that count from there happen once, also if it begins it again."""
        for fault in [one for one in self._faults if one.round == number and one.ranks[0] == rank]:
            self._faults.remove(fault)
            later(fault.at, partial(self._inject, fault))

    def _inject(self, fault: Fault) -> None:
        stage, network = self._stage, self._stage.network
        match fault.what:
            case "cut":
                one, other = fault.ranks
                network.cut(one, other)
                self._hold(fault, [(one, other), (other, one)])
            case "vanish":
                network.vanish(*fault.ranks)
            case "stall":
                one, other = fault.ranks
                self._hold(fault, [(one, other)])
            case "part":
                rest = [rank for rank in range(stage.size) if rank not in fault.ranks]
                self._hold(fault, [pair for a in fault.ranks for b in rest for pair in ((a, b), (b, a))])
            case _:
                for rank in fault.ranks:
                    self._inject_into(fault, rank)

    def _hold(self, fault: Fault, pairs: Sequence[tuple[int, int]]) -> None:
        for pair in pairs:
            self._stage.network.hold(*pair)
        self._end(fault, partial(self._release, pairs))

    def _release(self, pairs: Sequence[tuple[int, int]]) -> None:
        for pair in pairs:
            self._stage.network.release(*pair)

    def _inject_into(self, fault: Fault, rank: int) -> None:
        process = self._stage.process(rank)
        match fault.what:
            case "freeze":
                process.freeze()
                self._end(fault, process.thaw)
            case "slow":
                process.slow(fault.times)
                self._end(fault, partial(process.slow, 1 / fault.times))
            case "stop":
                self._stage.stop(rank)
                self._end(fault, partial(self._stage.restart, rank))
            case "drain":
                self._stage.drain(rank, fault.seconds)
            case "crash" | "power":
                self._stage.kill(rank, notice=fault.what == "crash")
                self._end(fault, partial(self._stage.restart, rank))
            case "back up":
                self._stage.back_up(rank)
            case "restore":
                self._stage.kill(rank, notice=False)
                self._end(fault, partial(self._stage.put_back, rank))
            case "lose":
                self._stage.kill(rank, notice=False)
                self._end(fault, partial(self._stage.begin_anew, rank))

    def _end(self, fault: Fault, end: Callable[[], None]) -> None:
        if fault.seconds < math.inf:
            later(fault.seconds, end)
