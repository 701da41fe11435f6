"""Which graph makes the peers agree soonest: the numbers behind `dpeer topology advise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpeer.exceptions import ConfigurationError, TopologyError
from dpeer.topology import TOPOLOGIES, AnyTopology, ChangingTopology, analyse, build
from dpeer.topology.candidates import CHOOSING, DEFAULT_WEIGHTS, LeftOut, Terms, choices, impossible, too_many
from dpeer.topology.circulant import Circulant
from dpeer.topology.exchange import messages
from dpeer.topology.vertex_connectivity import survives

LIMIT = 2000
"""The largest size: it takes about ten seconds."""

FASTEST_LIMIT = 32
"""The largest size with weights that a convex solver finds, which grows with the square of the edges."""

DRAWN = (*CHOOSING, "erdos-renyi", "random-matching")
"""Graphs that are drawn at random."""


@dataclass(frozen=True)
class Ranked:
    """A graph and what it costs to reduce disagreement 1000-fold.

    Attributes:
        topology: Its name.
        options: What else `build` must be told.
        size: The number of peers.
        sends: The most messages that a peer sends in one round.
        receives: The most messages that a peer receives in one round.
        partners: The most peers that any peer is connected to in the run.
        rounds: Rounds of gossip until disagreement is a thousandth.
        seconds_per_round: How long one round takes.
        seconds: How long all these rounds take.
        bytes_sent: The most bytes that any peer sends in all these rounds.
        doubly_stochastic: Whether the average over the peers is kept.
        survives: How many peers may be lost and the rest stays in one piece; None where there are too many to tell.
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


def rank(terms: Terms) -> tuple[list[Ranked], list[LeftOut]]:
    """Every graph that suits these terms, the soonest done first, and the graphs that are left out.

    Raises:
        ConfigurationError: The terms suit no graph at all.
    """
    _check(terms)
    ranked: list[Ranked] = []
    left_out: list[LeftOut] = []
    for name in TOPOLOGIES:
        every, missing = choices(name, terms)
        left_out += missing
        for options in every:
            found = _measure(name, options, terms)
            if isinstance(found, Ranked):
                ranked.append(found)
            else:
                left_out.append(found)
    ranked.sort(key=lambda one: (one.seconds, one.bytes_sent, one.topology, list(one.options.values())))
    return ranked, left_out


def best(ranked: list[Ranked]) -> Ranked:
    """The graph that is done soonest and keeps the average; among equals one that is not drawn at random.

    There is always one: one-peer-exponential has every size, any weights and one message a round.
    """
    return min(
        (one for one in ranked if one.doubly_stochastic),
        key=lambda one: (one.seconds, one.bytes_sent, one.topology in DRAWN),
    )


def _check(terms: Terms) -> None:
    if terms.size > LIMIT:
        raise ConfigurationError(f"--size {terms.size}: graphs are compared up to {LIMIT} peers")
    if terms.graph_seed < 0:
        raise ConfigurationError(f"--graph-seed {terms.graph_seed}: choose 0 or more")
    if terms.weights == "fastest" and terms.size > FASTEST_LIMIT:
        raise ConfigurationError(
            f"--weights fastest: solved for every graph up to {FASTEST_LIMIT} peers, not for {terms.size}: "
            "use best-constant, which is instant"
        )
    # A ring takes every rule and every size from 2: what it does not take is wrong for all graphs.
    build("ring", terms.size, weights=terms.weights)


def _measure(name: str, options: dict[str, Any], terms: Terms) -> Ranked | LeftOut:
    try:
        topology = build(name, terms.size, weights=terms.weights, graph_seed=terms.graph_seed, **options)
        analysis = analyse(topology)
        sends, receives, sent = _load(topology, analysis.rounds)
    except TopologyError as error:
        return impossible(name, options, error)
    if terms.max_degree is not None and max(sends, receives) > terms.max_degree:
        return too_many(name, options, max(sends, receives), terms)
    transfer = max(sends, receives) * terms.body_bytes * 8 / terms.bandwidth
    a_round = terms.train_seconds + terms.latency + transfer
    options = dict(options)
    if topology.weights_rule == terms.weights != DEFAULT_WEIGHTS:
        options["weights"] = terms.weights
    if terms.graph_seed and "graph_seed" in topology.parameters:
        options["graph_seed"] = terms.graph_seed
    return Ranked(
        topology=name,
        options=options,
        size=terms.size,
        sends=sends,
        receives=receives,
        partners=_partners(topology, terms.rounds),
        rounds=analysis.rounds,
        seconds_per_round=_plain(a_round),
        seconds=_plain(analysis.rounds * a_round),
        bytes_sent=sent * terms.body_bytes,
        doubly_stochastic=analysis.averages,
        survives=survives(topology, terms.rounds),
    )


def _load(topology: AnyTopology, rounds: int) -> tuple[int, int, int]:
    """The most messages sent and received by a peer in one round, and the most sent by a peer in all rounds."""
    changing = isinstance(topology, ChangingTopology)
    sends = receives = 0
    sent = np.zeros(topology.size, dtype=np.int64)
    for number in range(rounds if changing else 1):
        mixing = topology.during(number)
        sending = messages(mixing)
        receiving = sending if isinstance(mixing, Circulant) else messages(csr_array(mixing.T))
        sends, receives = max(sends, int(sending.max())), max(receives, int(receiving.max()))
        sent += sending
    return sends, receives, int(sent.max()) * (1 if changing else rounds)


def _partners(topology: AnyTopology, rounds: int) -> int:
    # In a circulant graph everyone sees the same, only from its own place.
    ranks = 1 if isinstance(topology.during(0), Circulant) else topology.size
    return max(len(topology.connections(rank, rounds)) for rank in range(ranks))


def _plain(seconds: float) -> float:
    """The time without its last digits, which depend on the order of multiplication: equal times must tie."""
    return float(f"{seconds:.12g}")
