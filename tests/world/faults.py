"""Accidents that are planned: which ones, whose, when and for how long. `tests.world.director` has them happen.

    Fault("cut", (0, 3), at=2.5, seconds=4.0)

A plan can be drawn from a seed, printed as Python, and played again: with the same seed for the network, the
same happens to the bit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

What = Literal["cut", "vanish", "stall", "part", "freeze", "slow", "stop", "crash", "power"]

KINDS: tuple[What, ...] = get_args(What)
"""Every kind of fault."""

_OF_TWO = ("cut", "vanish", "stall")


@dataclass(frozen=True)
class Fault:
    """One accident.

    | what | what happens |
    |---|---|
    | cut | the connections between two ranks break, and none comes about for `seconds` |
    | vanish | what the first of two ranks sends to the other on their present connections vanishes from now on |
    | stall | nothing passes from the first of two ranks to the other for `seconds`; then everything does |
    | part | nothing passes between the ranks and all others for `seconds`; then everything does |
    | freeze | the ranks' processes stand still for `seconds` |
    | slow | the ranks' jobs take `times` as long for `seconds` |
    | stop | the ranks are told to stop, and begin again `seconds` later |
    | crash | the ranks' processes are killed, and begin again from their checkpoints `seconds` later |
    | power | the same, but their connections do not break: nobody is told |

    Attributes:
        what: One of these.
        ranks: Whose it is.
        at: When it happens: virtual seconds from the start; with `round`, from when the first of the ranks begins that.
        seconds: For how long; inf for good.
        times: By how much a slow rank is slow.
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
        rng: What they are drawn from.
        size: The number of peers.
        seconds: When the last one has begun.
        count: How many.
        kinds: Of which.
        pairs: Between whom the connections are that break, such as the edges of a graph; by default any two.
    """
    pairs = pairs or [(one, other) for one in range(size) for other in range(size) if one != other]
    return [_draw(rng, size, seconds, rng.choice(kinds), pairs) for _ in range(count)]


def _draw(rng: random.Random, size: int, seconds: float, what: What, pairs: Sequence[tuple[int, int]]) -> Fault:
    at = round(rng.uniform(0, seconds), 3)
    # Most are over before anybody is taken for dead; some last longer, so that rounds go on without somebody.
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
