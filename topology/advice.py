"""Ranking of graphs by the time to agreement: the numbers behind `dpeer topology advise`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpeer.exceptions import ConfigurationError, TopologyError
from dpeer.topology import TOPOLOGIES, AnyTopology, TimeVaryingTopology, analyse, build
from dpeer.topology.connectivity import survivable_edge_losses, survivable_losses
from dpeer.topology.mixing_matrix import CirculantMatrix
from dpeer.topology.overlapped_mixing import LIMIT as LATE_LIMIT
from dpeer.topology.overlapped_mixing import late_rounds
from dpeer.topology.transfer_time import MeasuredLines

MEASURED_LIMIT = 256
"""The largest size with measured lines: each graph's edges are looked at one by one."""

LIMIT = 2000
"""The largest size: it takes about ten seconds."""

FASTEST_LIMIT = 32
"""The largest size with weights that a convex solver finds, which grows with the square of the edges."""

NEIGHBORS = (2, 3, 4, 6, 8)
"""The numbers of neighbors tried where one is to be chosen."""

CHOOSING = {
    "random-regular": "degree",
    "small-world": "degree",
    "fresh-neighbors": "fresh_neighbors",
    "fresh-directed": "fresh_neighbors",
}
"""Graphs whose number of neighbors is to be chosen, and the option of `build` that sets it."""

DRAWN = (*CHOOSING, "erdos-renyi", "random-matching")
"""Graphs that are drawn at random."""

_DRAWN_FAST = 32  # neighbors; a graph of more would take seconds to draw

DEFAULT_WEIGHTS = "metropolis"

_SHORT_REASONS = (
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
class Requirements:
    """The federation for which graphs are compared.

    Attributes:
        size: The number of peers.
        body_bytes: The bytes of one message.
        bandwidth: Bits per second that a peer can send, and receive at the same time.
        train_seconds: Seconds of training in a round.
        latency: Seconds of delay in a round.
        max_degree: The most messages that a peer may send or receive in a round; None for any number.
        weights: The weights rule.
        graph_seed: The seed of random graphs.
        rounds: The rounds of the run, in which partners are counted.
        overlap: Whether bodies travel while the next round trains, and are mixed one round late.
        lines: The lines between peers as measured, in place of bandwidth; None for that. Latency is added to both.
        steady: What needs the same neighbors in every round, such as a codec; None where graphs may change.
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
    overlap: bool = False
    lines: MeasuredLines | None = None
    steady: str | None = None


@dataclass(frozen=True)
class Excluded:
    """A graph that is not ranked: its name, the reason, and the reason in a few words, by which graphs are grouped."""

    topology: str
    reason: str
    short: str
    options: dict[str, Any] = field(default_factory=dict)


def _option_values(name: str, asked: Requirements) -> tuple[list[dict[str, Any]], list[Excluded]]:
    """The options to try this graph with, or the reason that it is left out."""
    if name not in CHOOSING:
        return [{}], []
    if asked.size < 4:
        return [], [Excluded(name, f"two neighbors are all of {asked.size} peers", "from 4 peers on")]
    most = asked.size - 2  # one more is `full`
    numbers = set(NEIGHBORS)
    if asked.max_degree is not None:
        most = min(most, asked.max_degree)
        if asked.max_degree <= _DRAWN_FAST:
            numbers.add(asked.max_degree)
    step = 2 if name == "small-world" else 1
    fitting = sorted(number for number in numbers if number <= most and number % step == 0 and number > 1)
    if not fitting:
        return [], [_too_many(name, {}, 2, asked)]
    return [{CHOOSING[name]: number} for number in fitting], []


def _too_many(name: str, options: dict[str, Any], count: int, asked: Requirements) -> Excluded:
    return Excluded(
        name,
        f"a peer sends or receives {count} messages in a round, more than --max-degree {asked.max_degree}",
        f"more than {asked.max_degree} in a round",
        options,
    )


def _excluded_by_error(name: str, options: dict[str, Any], error: TopologyError) -> Excluded:
    reason = str(error)
    return Excluded(name, reason, next((short for words, short in _SHORT_REASONS if words in reason), reason), options)


@dataclass(frozen=True)
class Ranked:
    """A graph and its cost of reducing disagreement 1000-fold.

    Attributes:
        topology: Its name.
        options: The other arguments of `build`.
        size: The number of peers.
        sends: The most messages that a peer sends in one round.
        receives: The most messages that a peer receives in one round.
        partners: The most peers that any peer is connected to in the run.
        rounds: Rounds of gossip until disagreement is a thousandth.
        seconds_per_round: The seconds of one round.
        seconds: The seconds of all these rounds.
        bytes_sent: The most bytes that any peer sends in all these rounds.
        doubly_stochastic: Whether the average over the peers is kept.
        survives: The number of peers that may be lost so that the rest stays connected; None for large sizes.
        survives_edges: The same of lines between peers.
    """

    topology: str
    options: dict[str, Any]
    size: int
    sends: int
    receives: int
    partners: int
    rounds: int
    seconds_per_round: float
    seconds: float
    bytes_sent: int
    doubly_stochastic: bool
    survives: int | None
    survives_edges: int | None


def rank_graphs(asked: Requirements) -> tuple[list[Ranked], list[Excluded]]:
    """The graphs that meet the requirements, the fastest first, and the graphs that are left out.

    Raises:
        ConfigurationError: No graph at all meets them.
    """
    if asked.size > LIMIT:
        raise ConfigurationError(f"--size {asked.size}: graphs are compared up to {LIMIT} peers")
    for why, most in (("--overlap 1", LATE_LIMIT if asked.overlap else None),
                      ("measured lines", None if asked.lines is None else MEASURED_LIMIT)):  # fmt: skip
        if most is not None and asked.size > most:
            raise ConfigurationError(f"--size {asked.size} with {why}: graphs are compared up to {most} peers")
    if asked.graph_seed < 0:
        raise ConfigurationError(f"--graph-seed {asked.graph_seed}: choose 0 or more")
    if asked.weights == "fastest" and asked.size > FASTEST_LIMIT:
        raise ConfigurationError(
            f"--weights fastest: solved for every graph up to {FASTEST_LIMIT} peers, not for {asked.size}: "
            "use best-constant, which is instant"
        )
    # A ring takes every rule and every size from 2: its refusal is one for all graphs.
    build("ring", asked.size, weights=asked.weights)
    ranked: list[Ranked] = []
    left_out: list[Excluded] = []
    for name in TOPOLOGIES:
        every, missing = _option_values(name, asked)
        left_out += missing
        for options in every:
            found = _measure(name, options, asked)
            if isinstance(found, Ranked):
                ranked.append(found)
            else:
                left_out.append(found)
    if not any(one.doubly_stochastic for one in ranked):
        raise ConfigurationError(
            f"no graph of {asked.size} peers with at most {asked.max_degree} bodies in a round stays the same, which "
            f"{asked.steady} needs: allow more (--max-degree), or use a codec for graphs that change"
        )
    ranked.sort(key=lambda one: (one.seconds, one.bytes_sent, one.topology, list(one.options.values())))
    return ranked, left_out


def best(ranked: list[Ranked]) -> Ranked:
    """The fastest graph that keeps the average; among equals one that is not drawn at random.

    One always exists: one-peer-exponential has every size, any weights and one message a round; where graphs may not
    change, rings do.
    """
    return min(
        (one for one in ranked if one.doubly_stochastic),
        key=lambda one: (one.seconds, one.bytes_sent, one.topology in DRAWN),
    )


def _measure(name: str, options: dict[str, Any], asked: Requirements) -> Ranked | Excluded:
    try:
        topology = build(name, asked.size, weights=asked.weights, graph_seed=asked.graph_seed, **options)
        if asked.steady is not None and isinstance(topology, TimeVaryingTopology):
            reason = f"{asked.steady} needs the same neighbors in every round"
            return Excluded(name, reason, reason, options)
        analysis = analyse(topology)
        rounds = late_rounds(topology) if asked.overlap else analysis.rounds
        if rounds is None:
            return Excluded(
                name, "mixed a round late, peers do not come to agree", "no agreement with --overlap 1", options
            )
        sends, receives, sent = _load(topology, rounds)
    except TopologyError as error:
        return _excluded_by_error(name, options, error)
    if asked.max_degree is not None and max(sends, receives) > asked.max_degree:
        return _too_many(name, options, max(sends, receives), asked)
    if asked.lines is None:
        exchange = asked.latency + max(sends, receives) * asked.body_bytes * 8 / asked.bandwidth
    else:
        exchange = asked.latency + _exchange(topology, rounds, asked.lines, asked.body_bytes)
    a_round = max(asked.train_seconds, exchange) if asked.overlap else asked.train_seconds + exchange
    options = dict(options)
    if topology.weights_rule == asked.weights != DEFAULT_WEIGHTS:
        options["weights"] = asked.weights
    if asked.graph_seed and "graph_seed" in topology.parameters:
        options["graph_seed"] = asked.graph_seed
    return Ranked(
        topology=name,
        options=options,
        size=asked.size,
        sends=sends,
        receives=receives,
        partners=_partners(topology, asked.rounds),
        rounds=rounds,
        seconds_per_round=_plain(a_round),
        seconds=_plain(rounds * a_round),
        bytes_sent=sent * asked.body_bytes,
        doubly_stochastic=analysis.doubly_stochastic,
        survives=survivable_losses(topology, asked.rounds),
        survives_edges=survivable_edge_losses(topology, asked.rounds),
    )


def _load(topology: AnyTopology, rounds: int) -> tuple[int, int, int]:
    """The most messages sent and received by a peer in one round, and the most sent by a peer in all rounds."""
    changing = isinstance(topology, TimeVaryingTopology)
    sends = receives = 0
    sent = np.zeros(topology.size, dtype=np.int64)
    for number in range(rounds if changing else 1):
        sending, receiving = topology.mixing_at(number).messages()
        sends, receives = max(sends, int(sending.max())), max(receives, int(receiving.max()))
        sent += sending
    return sends, receives, int(sent.max()) * (1 if changing else rounds)


def _exchange(topology: AnyTopology, rounds: int, lines: MeasuredLines, body_bytes: int) -> float:
    """The seconds of the slowest round's exchange; of a graph that changes each of its rounds counts."""
    changing = isinstance(topology, TimeVaryingTopology)
    found = 0.0
    for number in range(rounds if changing else 1):
        edges = topology.mixing_at(number).sparse.toarray().T != 0.0
        np.fill_diagonal(edges, val=False)
        found = max(found, lines.seconds(edges, body_bytes))
    return found


def _partners(topology: AnyTopology, rounds: int) -> int:
    # In a circulant graph every peer has equally many.
    ranks = 1 if isinstance(topology.mixing_at(0), CirculantMatrix) else topology.size
    return max(len(topology.connections(rank, rounds)) for rank in range(ranks))


def _plain(seconds: float) -> float:
    """The time without its last digits, which depend on the order of multiplication: equal times must tie."""
    return float(f"{seconds:.12g}")
