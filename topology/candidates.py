"""Which graphs `dpeer topology advise` compares, and which it leaves out and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import TopologyError

NEIGHBORS = (2, 3, 4, 6, 8)
"""The numbers of neighbors tried where one is to be chosen."""

CHOOSING = {
    "random-regular": "degree",
    "small-world": "degree",
    "fresh-neighbors": "fresh_neighbors",
    "fresh-directed": "fresh_neighbors",
}
"""Graphs whose number of neighbors is to be chosen, and the option of `build` that says it."""

_DRAWN_FAST = 32
"""Graphs of more neighbors are not tried: each would take seconds to draw."""

DEFAULT_WEIGHTS = "metropolis"

_WHY = (
    ("is prime", "a prime number makes no rectangle"),
    ("not a power of two", "not a power of two"),
    ("one of them must be even", "odd degree of an odd number of peers"),
    ("draws is connected", "no draw connects everyone"),
    ("no draw is connected", "no draw connects everyone"),
    ("not regular", "weights uniform needs equal numbers of neighbors"),
    ("another graph every round", "weights for a graph that stays the same"),
)
"""Words of an error -> the same in short, so that graphs can be listed together."""


@dataclass(frozen=True)
class Terms:
    """What the graphs are compared for.

    Attributes:
        size: The number of peers.
        body_bytes: The bytes of one message.
        bandwidth: Bits per second that a peer can send, and receive at the same time.
        train_seconds: Seconds of training in a round.
        latency: Seconds of delay in a round.
        max_degree: The most messages that a peer may send or receive in a round; None for any number.
        weights: The weights rule.
        graph_seed: What random graphs are drawn from.
        rounds: The rounds of the run, in which partners are counted.
    """

    size: int
    body_bytes: int
    bandwidth: float
    train_seconds: float = 0.0
    latency: float = 0.0
    max_degree: int | None = None
    weights: str = DEFAULT_WEIGHTS
    graph_seed: int = 0
    rounds: int = 20


@dataclass(frozen=True)
class LeftOut:
    """A graph that is not ranked: its name, the reason, and the reason in a few words, by which graphs are grouped."""

    topology: str
    reason: str
    short: str
    options: dict[str, Any] = field(default_factory=dict)


def choices(name: str, terms: Terms) -> tuple[list[dict[str, Any]], list[LeftOut]]:
    """The options to try this graph with, or why there are none to try."""
    if name not in CHOOSING:
        return [{}], []
    if terms.size < 4:
        return [], [LeftOut(name, f"two neighbors of {terms.size} peers are all there are", "from 4 peers on")]
    most = terms.size - 2  # one more is everybody, which is `full`
    numbers = set(NEIGHBORS)
    if terms.max_degree is not None:
        most = min(most, terms.max_degree)
        if terms.max_degree <= _DRAWN_FAST:
            numbers.add(terms.max_degree)
    step = 2 if name == "small-world" else 1
    fitting = sorted(number for number in numbers if number <= most and number % step == 0 and number > 1)
    if not fitting:
        return [], [too_many(name, {}, 2, terms)]
    return [{CHOOSING[name]: number} for number in fitting], []


def too_many(name: str, options: dict[str, Any], count: int, terms: Terms) -> LeftOut:
    """A graph left out because a peer has `count` messages in a round, which is more than was allowed."""
    return LeftOut(
        name,
        f"a peer sends or receives {count} messages in a round, more than --max-degree {terms.max_degree}",
        f"more than {terms.max_degree} in a round",
        options,
    )


def impossible(name: str, options: dict[str, Any], error: TopologyError) -> LeftOut:
    """A graph left out because it does not exist, for the reason that `build` gives."""
    said = str(error)
    return LeftOut(name, said, next((short for words, short in _WHY if words in said), said), options)
