"""Weights rules: the entries of the mixing matrix of a graph.

W is (size, size) and doubly stochastic: nonnegative, every row and column sums to one, so gossip keeps the
average over the peers and (the graph being connected) drives everyone to it. W[i, j] multiplies the body of j
in receiver i's sum.

A new rule is one `Rule` in `WEIGHT_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from dpeer.exceptions import TopologyError
from dpeer.topology.eigen import smallest
from dpeer.topology.graph_types import CirculantGraph, EdgeList, Graph, Ranks
from dpeer.topology.mixing_matrix import TOLERANCE, CirculantMatrix, MixingMatrix, Sparse, row_sums


@dataclass(frozen=True)
class Rule:
    """A weights rule.

    Attributes:
        of_edges: The weight of each edge of an undirected graph, (edges,).
        of_offsets: The one weight of all edges of a circulant graph.
        changing: Whether it also suits the graph of a single round, which need not connect everyone.
    """

    of_edges: Callable[[EdgeList], NDArray[np.float64]]
    of_offsets: Callable[[CirculantGraph], float]
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


WEIGHT_RULES: dict[str, Rule] = {
    "metropolis": Rule(metropolis, _equal),
    "uniform": Rule(uniform, _equal),
    "max-degree": Rule(max_degree, _equal),
    "best-constant": Rule(best_constant, _best_constant_of_offsets, changing=False),
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
        return CirculantMatrix(graph, WEIGHT_RULES["uniform" if graph.directed else rule].of_offsets(graph))
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
