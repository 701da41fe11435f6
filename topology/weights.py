"""Weights rules: the entries of the mixing matrix of a graph.

W is (size, size) and doubly stochastic: nonnegative, every row and column sums to one, so gossip keeps the
average over the peers and (the graph being connected) drives everyone to it. W[i, j] multiplies the body of j
in receiver i's sum.

A new rule is one `Rule` in `WEIGHT_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from dpeer.exceptions import TopologyError
from dpeer.topology.eigen import smallest
from dpeer.topology.graph_types import CirculantGraph, EdgeList, Graph, Ranks
from dpeer.topology.mixing_matrix import TOLERANCE, CirculantMatrix, MixingMatrix, Sparse, row_sums

SOLVED_SIZE = 256
"""The largest size with weights `fastest`: 100 peers take seconds, 200 about a minute."""

_UNITS = 2**20


@dataclass(frozen=True)
class Rule:
    """A weights rule.

    Attributes:
        of_edges: The weight of each edge of an undirected graph, (edges,).
        of_offsets: The one weight of all edges of a circulant graph; None if they need not be equal.
        changing: Whether it also suits the graph of a single round, which need not connect everyone.
    """

    of_edges: Callable[[EdgeList], NDArray[np.float64]]
    of_offsets: Callable[[CirculantGraph], float] | None
    changing: bool = True


def metropolis(graph: EdgeList) -> NDArray[np.float64]:
    """W_ij = 1 / (1 + max(d_i, d_j)) on edges, the rest of each row on the diagonal.

    Doubly stochastic and symmetric on every undirected graph (Xiao, Boyd and Kim, "Distributed average
    consensus with least-mean-square deviation", 2007: Metropolis-Hastings weights).
    """
    degrees = _degrees(graph)
    return 1.0 / (1.0 + np.maximum(degrees[graph.sender], degrees[graph.receiver]))


def max_degree(graph: EdgeList) -> NDArray[np.float64]:
    """W_ij = 1 / (1 + d), d being the largest number of neighbors that any peer has: I - L / (1 + d).

    The 1 keeps a share of every peer's own body, without which peers in two camps that only hear each other
    (a bipartite graph) would swap their bodies for ever.
    """
    return np.full(len(graph.sender), 1.0 / (1.0 + _degrees(graph).max()))


def best_constant(graph: EdgeList) -> NDArray[np.float64]:
    """W = I - a L, L being the Laplacian, with the a of the largest gap: 2 / (L's largest + its second smallest).

    Xiao and Boyd, "Fast linear iterations for distributed averaging", 2004, section 4.1. Clamped to 1 over the largest
    number of neighbors, beyond which a peer's own weight would be negative.
    """
    ones = np.ones(len(graph.sender))
    degrees = _degrees(graph)
    laplacian = csr_array(diags_array(degrees.astype(float)) - _off_diagonal(graph, ones))
    # The largest, at most 2 d, is the distance of the smallest of (bound I - L) from the bound. The 1 keeps that away
    # from zero where the largest is 2 d (two camps that only hear each other): nothing is exact relative to zero.
    bound = 2.0 * float(degrees.max()) + 1.0
    largest = bound - smallest(csr_array(diags_array(np.full(graph.size, bound)) - laplacian))
    return ones * _constant(largest, smallest(laplacian, laplacian=True), int(degrees.max()))


def _best_constant_of_offsets(graph: CirculantGraph) -> float:
    indicator = np.zeros(graph.size)
    indicator[graph.offsets] = 1.0
    degree = len(graph.offsets)
    spectrum = degree - np.fft.fft(indicator).real[1:]  # the Laplacian's, without its 0
    return _constant(float(spectrum.max()), float(spectrum.min()), degree)


def _constant(largest: float, second_smallest: float, degree: int) -> float:
    return min(2.0 / (largest + second_smallest), 1.0 / degree)


def uniform(graph: EdgeList) -> NDArray[np.float64]:
    """W_ij = 1 / (d + 1) for everyone heard and for oneself: regular graphs only.

    Raises:
        TopologyError: If peers differ in their number of neighbors: a column would not sum to one.
    """
    degrees = np.unique(_degrees(graph))
    if len(degrees) > 1:
        raise TopologyError(
            f"weights uniform: the graph is not regular (numbers of neighbors: "
            f"{', '.join(map(str, degrees[:9]))}{', ...' if len(degrees) > 9 else ''}): use weights metropolis"
        )
    return np.full(len(graph.sender), 1.0 / (1.0 + degrees[0]))


def _equal(graph: CirculantGraph) -> float:
    return 1.0 / (1.0 + len(graph.offsets))


def fastest_weights(graph: EdgeList) -> NDArray[np.float64]:
    """The symmetric weights with the largest spectral gap, by a convex solver (an optional extra).

    Boyd, Diaconis and Xiao, "Fastest mixing Markov chain on a graph", 2004, problem (6), a semidefinite program:

        minimize    s
        subject to  -s I <= W - 11^T/m <= s I,   W_ij = W_ji >= 0,   W_ij = 0 off the edges,   W 1 = 1

    Written with one unknown for each edge, W = I - sum_e w_e b_e b_e^T, b_e being +1 and -1 at the ends of e: then W is
    symmetric and its rows sum to one by themselves, and the diagonal is nonnegative where the w_e around a peer sum to
    at most one. Every peer solves the program for itself: the weights are rounded to multiples of 2^-20, so that the
    last digits of another machine's solver do not show.

    Raises:
        TopologyError: If the solver is not installed or gives up, or the graph is too large for it.
    """
    if graph.size > SOLVED_SIZE:
        raise TopologyError(
            f"weights fastest: size {graph.size}: the solver takes up to {SOLVED_SIZE} peers: use weights best-constant"
        )
    try:
        from cvxopt import matrix, solvers, spmatrix
    except ImportError as error:
        raise TopologyError(
            "weights fastest: the convex solver is not installed: pip install 'dpeer[fastest]', or use best-constant"
        ) from error
    size, edges = graph.size, len(graph.sender)
    numbers = np.arange(edges)

    def sparse(values: Any, rows: Any, columns: Any, height: int) -> Any:
        return spmatrix(values.tolist(), rows.tolist(), columns.tolist(), (height, edges + 1))

    def within(sign: float) -> Any:
        """The constraint sign * sum_e w_e b_e b_e^T - s I, column by column of the unknowns (w, s)."""
        one, other = graph.sender * size, graph.receiver * size
        entries = [one + graph.sender, other + graph.receiver, one + graph.receiver, other + graph.sender]
        rows = np.concatenate([*entries, np.arange(size) * (size + 1)])
        values = np.concatenate([np.repeat([sign, sign, -sign, -sign], edges), np.full(size, -1.0)])
        return sparse(values, rows, np.concatenate([*[numbers] * 4, np.full(size, edges)]), size * size)

    deviation = np.eye(size) - 1.0 / size
    nonnegative = np.concatenate([numbers, edges + graph.sender, edges + graph.receiver])
    solution = solvers.sdp(
        matrix(np.append(np.zeros(edges), 1.0)),
        sparse(np.repeat([-1.0, 1.0, 1.0], edges), nonnegative, np.tile(numbers, 3), edges + size),
        matrix(np.concatenate([np.zeros(edges), np.ones(size)])),
        [within(-1.0), within(1.0)],
        [matrix(-deviation), matrix(deviation)],
        options={"show_progress": False},
    )
    if solution["x"] is None:
        raise TopologyError(f"weights fastest: the solver ended with {solution['status']!r}: use weights best-constant")
    return on_grid(graph, np.maximum(np.array(solution["x"]).ravel()[:edges], 0.0))


WEIGHT_RULES: dict[str, Rule] = {
    "metropolis": Rule(metropolis, _equal),
    "uniform": Rule(uniform, _equal),
    "max-degree": Rule(max_degree, _equal),
    "best-constant": Rule(best_constant, _best_constant_of_offsets, changing=False),
    "fastest": Rule(fastest_weights, None, changing=False),
}


def mixing_matrix(graph: Graph, rule: str, name: str) -> MixingMatrix:
    """The mixing matrix of a graph. Directed ones take equal weights, the only ones that are defined on them.

    Args:
        graph: A graph that is undirected, or in which all peers have equally many in-neighbors.
        rule: One of `WEIGHT_RULES`; a graph that brings its own weights keeps them.
        name: The graph's name in errors.

    Raises:
        TopologyError: If the rule does not suit the graph.
    """
    if isinstance(graph, CirculantGraph):
        of_offsets = WEIGHT_RULES["uniform" if graph.directed else rule].of_offsets
        if of_offsets is not None:
            return CirculantMatrix(graph, of_offsets(graph))
        graph = graph.edge_list()
    if graph.weights is not None:
        return MixingMatrix(_with_diagonal(graph, graph.weights))
    if graph.directed:
        equal = 1.0 / (1.0 + np.bincount(graph.receiver)[0])
        return MixingMatrix(_with_diagonal(graph, np.full(len(graph.sender), equal)))
    try:
        return MixingMatrix(_with_diagonal(graph, WEIGHT_RULES[rule].of_edges(graph)))
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from error


def _with_diagonal(graph: EdgeList, weight: NDArray[np.float64]) -> Sparse:
    """The matrix with these weights on the edges and the rest of each row on the diagonal.

    Edges of weight 0 are left out: no body need travel over them.
    """
    others = _off_diagonal(graph, weight)
    rest = 1.0 - row_sums(others)
    rest[np.abs(rest) <= TOLERANCE] = 0.0  # rounding, possibly negative
    matrix = csr_array(others + diags_array(rest))
    matrix.eliminate_zeros()
    return matrix


def _degrees(graph: EdgeList) -> Ranks:
    return np.bincount(np.concatenate([graph.sender, graph.receiver]), minlength=graph.size)


def _off_diagonal(graph: EdgeList, weight: NDArray[np.float64]) -> Sparse:
    sender, receiver = graph.messages()
    values = weight if graph.directed else np.tile(weight, 2)
    return coo_array((values, (receiver, sender)), shape=(graph.size, graph.size)).tocsr()


def on_grid(graph: EdgeList, found: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights rounded to multiples of 2^-20, so that the weights around a peer still sum to at most one.

    A weight that should be a multiple, as the simple fractions of symmetric graphs are, must become that very one on
    every machine, also if the solver's last digits are a little low. So weights are rounded up within a quarter below a
    multiple, and down elsewhere; where this makes too much of the weights around a peer, they are lowered again.
    """
    units = np.floor(found * _UNITS + 0.25).astype(np.int64)
    ends = np.concatenate([graph.sender, graph.receiver])
    for rank in range(graph.size):
        too_much = int(np.bincount(ends, weights=np.tile(units, 2), minlength=graph.size)[rank]) - _UNITS
        if too_much > 0:
            mine = np.flatnonzero((graph.sender == rank) | (graph.receiver == rank))
            mine = mine[np.argsort(-units[mine], kind="stable")]
            share, rest = divmod(too_much, len(mine))
            units[mine] = np.maximum(0, units[mine] - share - (np.arange(len(mine)) < rest))
    return units / _UNITS
