"""Spectral gap of a topology and the cost of a round, for any number of peers.

With J = 11^T/m the matrix that averages at once, the worst disagreement left after t rounds is the spectral norm of
(I - J) W_(t-1) ... W_0 (I - J), which is W^t - J where W is doubly stochastic and the same in every round. A round of
such a W shrinks it by lambda = ||W - J||, W's second largest singular value, and every built-in fixed W is symmetric or
circulant, hence normal: t rounds shrink it by lambda^t exactly. Where the graph changes, lambda is that of one period.

With declared weights "worst" is in the norm sqrt(sum_i p_i x_i^2): W is D^1/2 W D^-1/2 there, which is symmetric, and J
projects onto sqrt(p) in place of the constant vector.

Circulant matrices are diagonal in the Fourier basis: their eigenvalues are the discrete Fourier transform of their
first column (Gray, "Toeplitz and circulant matrices: a review", 2006, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array

from dpeer.exceptions import TopologyError
from dpeer.topology.eigen import Agreement, Sparse, agreed, norm_of_product, smallest
from dpeer.topology.mixing_matrix import stationary
from dpeer.topology.neighborhood import Graphs
from dpeer.topology.topologies import Topology

_ROUNDING = 1e-12
_PATIENCE = 10_000
_SHRINK = 1e-3
_HALF = 0.5
_GENEROSITY = 1e-9
"""The relative excess over the threshold that counts as below: lambda = 0.1 takes 3 rounds, though 0.1**3 > 1e-3."""
_JSON_KEYS = {"second_singular_value": "lambda", "rounds": "rounds_to_1e-3"}


@dataclass(frozen=True)
class Analysis:
    """The mixing speed and the cost of a topology.

    Attributes:
        second_singular_value: lambda, the factor by which a period shrinks disagreement at least.
        spectral_gap: 1 - lambda: 1 is the exact average after a period, 0 no mixing at all.
        rounds: Gossip rounds until the worst disagreement has shrunk 1000-fold.
        degree_min: The fewest messages that a peer sends in a round; so the most, and their mean (the factor).
        gap_per_message: The gap of a period, divided by the messages that a peer sends in it on average.
        stationary: p of declared weights, by rank: the average by p is kept; None for other weights.
    """

    topology: str
    size: int
    second_singular_value: float
    spectral_gap: float
    rounds: int
    degree_min: int
    degree_max: int
    bytes_per_round_factor: float
    paper_formula: dict[str, Any] | None
    gap_per_message: float
    period: int
    doubly_stochastic: bool
    rounds_to_half: int
    stationary: list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The analysis under its JSON keys, in their order; `stationary` only with declared weights."""
        found = {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}
        return {name: value for name, value in found.items() if name != "stationary" or value is not None}


def analyse(topology: Topology) -> Analysis:
    """Compute how fast `topology` mixes and how many messages a round of it takes.

    The gap has an error below 1e-12, or for more than two thousand peers a relative one below 1e-6.
    """
    gap = spectral_gap(topology)
    if topology.changing:
        rounds, half = (_first_below(topology, target * (1.0 + _GENEROSITY)) for target in (_SHRINK, _HALF))
    else:
        rounds, half = rounds_to_agree(gap), rounds_to_agree(gap, _HALF)
    sent = np.concatenate([topology.mixing_at(number).messages() for number in range(topology.period)])
    return Analysis(
        topology=topology.label,
        size=topology.size,
        second_singular_value=1.0 - gap,
        spectral_gap=gap,
        rounds=rounds,
        degree_min=int(sent.min()),
        degree_max=int(sent.max()),
        bytes_per_round_factor=float(sent.mean()),
        paper_formula=paper_formula(topology.name, topology.size),
        gap_per_message=gap / (float(sent.mean()) * topology.period),
        period=topology.period,
        doubly_stochastic=topology.doubly_stochastic,
        rounds_to_half=half,
        stationary=stationary(topology.declared).tolist() if topology.declared else None,
    )


def spectral_gap(topology: Topology) -> float:
    """The spectral gap alone, as `analyse` finds it."""
    if topology.changing or (topology.draw(0).circulant and topology.agreement is None):
        return 1.0 - _left(topology, topology.period)
    return _symmetric_gap(balanced(topology, 0), topology.agreement)


def balanced(topology: Topology, number: int) -> Sparse:
    """W of a round; with declared weights D^1/2 W D^-1/2, D = diag(p), which is symmetric and has W's eigenvalues."""
    matrix, root = topology.mixing_at(number).sparse, topology.agreement
    return matrix if root is None else csr_array(diags_array(root) @ matrix @ diags_array(1.0 / root))


def rounds_to_agree(gap: float, left: float = _SHRINK) -> int:
    """The smallest t with (1 - gap)^t <= `left`."""
    if gap >= 1.0:
        return 1
    return max(1, math.ceil((math.log(left) + _GENEROSITY) / math.log1p(-gap)))


def _left(topology: Topology, rounds: int) -> float:
    """||(I - J) W_(t-1) ... W_0 (I - J)|| for t = `rounds` >= 1; no larger than rounding errors is 0."""
    matrices = [balanced(topology, number) for number in range(rounds)]
    if topology.draw(0).circulant and topology.agreement is None:
        columns = np.stack([matrix[:, [0]].toarray().ravel() for matrix in matrices])
        norm = float(np.abs(np.fft.fft(columns).prod(axis=0)[1:]).max())
    else:
        norm = norm_of_product(matrices, topology.agreement)
    return norm if norm > _ROUNDING else 0.0


def _first_below(topology: Topology, threshold: float) -> int:
    """The first number of rounds that leave no more than the threshold.

    Raises:
        TopologyError: If ten thousand rounds do not get there.
    """
    left = np.random.default_rng(0).standard_normal((topology.size, 4))
    left -= agreed(left, topology.agreement)
    start = np.linalg.norm(left, axis=0)
    for number in range(_PATIENCE):
        left = np.asarray(balanced(topology, number) @ left)
        # The share left of any start is no more than the norm, which is dear and need not be known as yet.
        shares = np.linalg.norm(left - agreed(left, topology.agreement), axis=0) / start
        if float(shares.max()) <= threshold and _left(topology, number + 1) <= threshold:
            return number + 1
    raise TopologyError(f"{topology.name}: {_PATIENCE} rounds do not shrink disagreement 1000-fold")


def _symmetric_gap(matrix: Sparse, agreement: Agreement) -> float:
    """The gap 1 - ||W - J|| of a symmetric W, or of the `balanced` one of declared weights."""
    own = matrix.diagonal()
    others = csr_array(matrix - diags_array(own))
    # The sum of the others, not 1 less the own weight: the gap may be far smaller than rounding.
    left = np.asarray(others.sum(axis=1) if agreement is None else others @ agreement)
    left = left if agreement is None else left / agreement
    gap = smallest(csr_array(diags_array(left) - others), laplacian=True, agreement=agreement)
    # The other end of the spectrum is above 2 min W_ii - 1 (Gershgorin).
    if 2.0 * float(own.min()) < gap:
        gap = min(gap, smallest(csr_array(matrix + eye_array(len(own)))))
    return 1.0 if gap > 1.0 - _ROUNDING else gap


def paper_formula(topology: str, size: int) -> dict[str, Any] | None:
    """The papers' spectral gap with m peers, `name` and `value` (None where it is an order); None if they have none."""
    exponential = ("2 / (1 + log2 m)", 2.0 / (1.0 + math.log2(size)))
    known = {
        "ring": ("16 pi^2 / (3 m^2)", 16.0 * math.pi**2 / (3.0 * size**2)),
        "grid": ("O(1 / (m log2 m))", None),
        "torus": ("O(1 / m)", None),
        "exponential": exponential,
        "exponential-directed": exponential,
        "full": ("1", 1.0),
        "star": ("O(1 / m^2)", None),
        "random-regular": ("O(1)", None),
    }.get(topology)
    return known and dict(zip(("name", "value"), known, strict=True))


LIMIT = 32
"""The largest size whose vertex connectivity is found: the time grows with more than its square."""

_STARTS = 3  # rounds from which a message is followed: time-varying graphs spread it at different speeds


def temporal_diameter(graphs: Graphs, rounds: int) -> int:
    """The most rounds that a message of one peer takes to reach all others, if each peer forwards it in every round.

    For a fixed graph this is its (directed) diameter. For a time-varying one it is the largest temporal diameter found
    from a few rounds on.

    Returns:
        A number of rounds, at least 1 and at most `rounds`; `rounds` where a message does not reach every peer.
    """
    fixed = _is_fixed(graphs)

    @cache
    def senders(number: int) -> list[tuple[int, ...]]:
        return [graphs.at(number, rank).in_neighbors for rank in range(graphs.size)]

    starts = {0} if fixed else {rounds * part // _STARTS for part in range(_STARTS)}
    period = 1 if fixed else rounds

    def steps(start: int) -> int:
        everyone = (1 << graphs.size) - 1
        known = [1 << rank for rank in range(graphs.size)]  # a bit for each rank whose message is there
        for step in range(rounds):
            if all(one == everyone for one in known):
                return step
            before = list(known)
            for rank, heard in enumerate(senders((start + step) % period)):
                for sender in heard:
                    known[rank] |= before[sender]
        return rounds

    return max(1, *(steps(start) for start in starts))


def survivable_losses(graphs: Graphs, rounds: int) -> int | None:
    """The number of peers, whichever they are, that may be lost so that the others stay connected.

    That is the vertex connectivity less one, of all edges of the run together: each peer that is left still reaches
    every other one. Whether those that are left go on is another matter: they must be a quorum.

    Returns:
        A number from 0 to size - 2; None for more than `LIMIT` peers.
    """
    if graphs.size > LIMIT:
        return None
    together: nx.DiGraph[int] = nx.DiGraph()
    together.add_nodes_from(range(graphs.size))
    together.add_edges_from(
        (sender, rank)
        for number in range(1 if _is_fixed(graphs) else rounds)
        for rank in range(graphs.size)
        for sender in graphs.at(number, rank).in_neighbors
    )
    mutual = all(together.has_edge(receiver, sender) for sender, receiver in together.edges)
    return int(nx.node_connectivity(together.to_undirected() if mutual else together)) - 1


def _is_fixed(graphs: Graphs) -> bool:
    return isinstance(graphs, Topology) and not graphs.changing
