"""Mixing matrices: how much of each neighbor's body goes into a peer's next one.

W is (size, size) and doubly stochastic: nonnegative, every row and column sums to one, so gossip keeps the
average over the peers and (the graph being connected) drives everyone to it. W[i, j] multiplies what j
sends in receiver i's sum.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError

TOLERANCE = 1e-12
"""How far from one a row or column of a mixing matrix may sum."""


def metropolis(graph: nx.Graph[int]) -> csr_array[np.float64]:
    """W_ij = 1 / (1 + max(d_i, d_j)) on edges, the rest of each row on the diagonal.

    Doubly stochastic and symmetric on every undirected graph (Xiao, Boyd and Kim, "Distributed average
    consensus with least-mean-square deviation", 2007: Metropolis-Hastings weights).
    """
    one, other = _edges(graph)
    degrees = np.bincount(np.concatenate([one, other]), minlength=len(graph))
    weight = 1.0 / (1.0 + np.maximum(degrees[one], degrees[other]))
    return _filled(len(graph), np.concatenate([one, other]), np.concatenate([other, one]), np.tile(weight, 2))


def uniform(graph: nx.Graph[int]) -> csr_array[np.float64]:
    """W_ij = 1 / (d + 1) for everyone heard and for oneself: regular graphs only, directed ones too.

    Raises:
        TopologyError: If peers differ in their number of neighbors: a column would not sum to one.
    """
    sender, receiver = _edges(graph)
    if not graph.is_directed():
        sender, receiver = np.concatenate([sender, receiver]), np.concatenate([receiver, sender])
    size = len(graph)
    degrees = np.unique([np.bincount(sender, minlength=size), np.bincount(receiver, minlength=size)])
    if len(degrees) > 1:
        raise TopologyError(
            f"weights uniform: {graph.name} is not regular (numbers of neighbors: "
            f"{', '.join(map(str, degrees))}): use weights metropolis"
        )
    return _filled(size, receiver, sender, np.full(len(sender), 1.0 / (1.0 + degrees[0])))


WEIGHT_RULES: dict[str, Callable[[nx.Graph[int]], csr_array[np.float64]]] = {
    "metropolis": metropolis,
    "uniform": uniform,
}


def check(matrix: csr_array[np.float64], *, symmetric: bool) -> None:
    """Refuse a matrix that would not average: the last gate of every matrix built.

    Args:
        matrix: The mixing matrix, (size, size).
        symmetric: Whether W = W^T is promised (it is where the graph is undirected).

    Raises:
        TopologyError: If an entry is negative, a row or column does not sum to one within 1e-12, a promised
            symmetry is broken, or some peer's information cannot reach some other.
    """
    if matrix.data.min() < 0.0:
        raise TopologyError(f"mixing matrix: {matrix.data.min():g} is negative")
    for axis, what in ((1, "row"), (0, "column")):
        sums: NDArray[np.float64] = np.asarray(matrix.sum(axis=axis))
        worst = int(np.argmax(np.abs(sums - 1.0)))
        # "not within" rather than "beyond", so that a NaN is caught too
        if not abs(sums[worst] - 1.0) <= TOLERANCE:
            raise TopologyError(f"mixing matrix: {what} {worst} sums to {sums[worst]!r}, not 1")
    if symmetric and abs(matrix - matrix.T).max() > TOLERANCE:
        raise TopologyError("mixing matrix: not symmetric, though the graph is undirected")
    parts, _ = connected_components(matrix, directed=True, connection="strong")
    if parts > 1:
        raise TopologyError(f"the graph is not connected: {parts} groups of peers would never agree")


def _edges(graph: nx.Graph[int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    ends = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _filled(
    size: int, receiver: NDArray[np.intp], sender: NDArray[np.intp], weight: NDArray[np.float64]
) -> csr_array[np.float64]:
    """The off-diagonal entries given, and on the diagonal what each row lacks to one."""
    others = coo_array((weight, (receiver, sender)), shape=(size, size)).tocsr()
    matrix = csr_array(others + diags_array(1.0 - np.asarray(others.sum(axis=1))))
    matrix.sort_indices()
    return matrix
