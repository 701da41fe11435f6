"""Mixing matrices: the weights rules that make them of graphs, and what each rank sees of them.

W is (size, size) and doubly stochastic: nonnegative, every row and column sums to one, so gossip keeps the average
over the peers and (the graph being connected) drives everyone to it. W[i, j] multiplies the body of j in receiver i's
sum. A new rule is one function in `WEIGHT_RULES`. With declared weights W is reversible instead, p W = p, and gossip
keeps the average by p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError
from dpeer.topology.draws import Ranks
from dpeer.topology.eigen import Sparse, smallest
from dpeer.topology.graphs import Graph
from dpeer.topology.neighborhood import Neighborhood, Row

Weights = NDArray[np.float64]

_ROUNDING = 1e-12


class MixingMatrix:
    """A mixing matrix W: body j goes to i, with weight W[i, j], where that is not zero.

    Args:
        sparse: W, (size, size), without stored zeros; kept, and read-only from here on.
    """

    def __init__(self, sparse: Sparse) -> None:
        self.sparse = sparse
        self.sparse.sort_indices()
        for array in (sparse.data, sparse.indices, sparse.indptr):
            array.setflags(write=False)
        self._seen: dict[int, Neighborhood] = {}

    @cached_property
    def transposed(self) -> Sparse:
        """W^T, (size, size)."""
        return csr_array(self.sparse.T)

    def neighborhood(self, rank: int) -> Neighborhood:
        """The round as `rank` sees it."""
        if rank not in self._seen:
            receiving = slice(*self.sparse.indptr[rank : rank + 2])
            sending = slice(*self.transposed.indptr[rank : rank + 2])
            senders = self.sparse.indices[receiving].tolist()
            self._seen[rank] = Neighborhood(
                rank=rank,
                row=Row(rank, dict(zip(senders, self.sparse.data[receiving].tolist(), strict=True))),
                in_neighbors=tuple(other for other in senders if other != rank),
                out_neighbors=tuple(other for other in self.transposed.indices[sending].tolist() if other != rank),
            )
        return self._seen[rank]

    def edges(self, *, directed: bool) -> list[list[int]]:
        """The edges: sorted [i, j] with i < j, or sorted [sender, receiver] when directed."""
        sender, receiver = self.transposed.nonzero()
        kept = sender != receiver if directed else sender < receiver
        found: list[list[int]] = np.stack([sender[kept], receiver[kept]], axis=1).tolist()
        return found

    def messages(self) -> NDArray[np.int64]:
        """The number of messages that each peer sends in a round, (size,)."""
        return np.asarray(np.diff(self.transposed.indptr) - (self.sparse.diagonal() != 0.0))


def metropolis(graph: Graph) -> Weights:
    """W_ij = 1 / (1 + max(d_i, d_j)) on edges, the rest of each row on the diagonal.

    Doubly stochastic and symmetric on every undirected graph (Xiao, Boyd and Kim, "Distributed average
    consensus with least-mean-square deviation", 2007: Metropolis-Hastings weights).
    """
    degrees = _degrees(graph)
    return 1.0 / (1.0 + np.maximum(degrees[graph.sender], degrees[graph.receiver]))


def uniform(graph: Graph) -> Weights:
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


def max_degree(graph: Graph) -> Weights:
    """W_ij = 1 / (1 + d), d being the largest number of neighbors that any peer has: I - L / (1 + d).

    The 1 keeps a share of every peer's own body, without which peers in two camps that only hear each other
    (a bipartite graph) would swap their bodies for ever.
    """
    return np.full(len(graph.sender), 1.0 / (1.0 + _degrees(graph).max()))


def best_constant(graph: Graph) -> Weights:
    """W = I - a L, L being the Laplacian, with the a of the largest gap: 2 / (L's largest + its second smallest).

    Xiao and Boyd, "Fast linear iterations for distributed averaging", 2004, section 4.1. Clamped to 1 over the largest
    number of neighbors, beyond which a peer's own weight would be negative.
    """
    degrees = _degrees(graph)
    most = float(degrees.max())
    if graph.circulant:
        indicator = np.zeros(graph.size)
        indicator[graph.receiver[graph.sender == 0]] = 1.0
        spectrum = most - np.fft.fft(indicator).real[1:]  # the Laplacian's, without its 0
        largest, second = float(spectrum.max()), float(spectrum.min())
    else:
        laplacian = csr_array(diags_array(degrees.astype(float)) - _off_diagonal(graph, np.ones(len(graph.sender))))
        # The largest, at most 2 d, is the distance of the smallest of (bound I - L) from the bound. The 1 keeps that
        # away from zero where the largest is 2 d (two camps that only hear each other): nothing is exact there.
        bound = 2.0 * most + 1.0
        largest = bound - smallest(csr_array(bound * eye_array(graph.size) - laplacian))
        second = smallest(laplacian, laplacian=True)
    return np.full(len(graph.sender), min(2.0 / (largest + second), 1.0 / most))


WEIGHT_RULES: dict[str, Callable[[Graph], Weights]] = {
    "metropolis": metropolis,
    "uniform": uniform,
    "max-degree": max_degree,
    "best-constant": best_constant,
}
"""Rule -> the weight of each message; only `uniform` is defined on directed graphs."""

CONNECTED = ("best-constant",)
"""Rules that do not suit the graph of a single round, which need not connect everyone."""


def mixing_matrix(graph: Graph, rule: str, declared: Sequence[float] = ()) -> MixingMatrix:
    """The mixing matrix of a graph; `declared`: what each peer brings, in place of a rule.

    Raises:
        TopologyError: The rule does not suit the graph.
    """
    if declared:
        weights = message_weights(graph, declared)
    else:
        weights = WEIGHT_RULES[rule](graph) if graph.weights is None else graph.weights
    others = _off_diagonal(graph, weights)
    rest = 1.0 - row_sums(others)
    rest[np.abs(rest) <= _ROUNDING] = 0.0  # possibly negative
    matrix = csr_array(others + diags_array(rest))
    matrix.eliminate_zeros()  # no body need travel over an edge of weight 0
    return MixingMatrix(matrix)


def check_stochastic(matrix: Sparse, *, columns: bool = True, counts: NDArray[np.float64] | None = None) -> None:
    """Refuse a matrix with a negative entry, or a row (or column) that does not sum to one within 1e-12.

    Where peers count by `counts`, p of shape (size,), a column's sum is that of p_i W_ij / p_j.

    Raises:
        TopologyError: Naming the entry, row or column.
    """
    if matrix.data.min() < 0.0:
        raise TopologyError(f"mixing matrix: {matrix.data.min():g} is negative")
    scaled = matrix if counts is None else diags_array(counts) @ matrix @ diags_array(1.0 / counts)
    for line, lines in (("row", matrix), ("column", csr_array(scaled.T)))[: 2 if columns else 1]:
        sums = row_sums(lines)
        worst = int(np.argmax(np.abs(sums - 1.0)))
        if not abs(sums[worst] - 1.0) <= _ROUNDING:  # catches a NaN, too
            raise TopologyError(f"mixing matrix: {line} {worst} sums to {float(sums[worst])!r}, not 1")


def component_count(matrix: Sparse) -> int:
    """The number of groups of peers that reach each other through a matrix: 1 if it connects everyone."""
    return int(connected_components(matrix, directed=True, connection="strong")[0])


def row_sums(matrix: Sparse) -> NDArray[np.float64]:
    """The sum of every row, (size,), as if added up exactly: the rows of a star have as many entries as peers."""
    values, starts = matrix.data.tolist(), matrix.indptr.tolist()
    return np.array([math.fsum(values[first:end]) for first, end in pairwise(starts)])


def _degrees(graph: Graph) -> Ranks:
    """The number of peers that each hears."""
    return np.bincount(graph.receiver, minlength=graph.size)


def _off_diagonal(graph: Graph, weights: Weights) -> Sparse:
    return coo_array((weights, (graph.receiver, graph.sender)), shape=(graph.size, graph.size)).tocsr()


DECLARED = "declared"
"""The weights rule; with its numbers it is spelled declared:400,20,30, by rank."""

MOST_APART = 1e9
"""How many times the smallest number the largest may be: beyond, float32 loses what a small peer adds."""

_RIGHT = "expected a number above 0 for each rank, such as declared:400,20,30"


def spelled(numbers: Sequence[float]) -> str:
    """The rule with its numbers, as `parse` takes it."""
    return f"{DECLARED}:{','.join(repr(float(one)).removesuffix('.0') for one in numbers)}"


def parse(weights: str, size: int) -> tuple[float, ...]:
    """The numbers of a rule that is spelled with them, by rank.

    Raises:
        TopologyError: They are no numbers above 0, too far apart, or not as many as peers.
    """
    _, colon, text = weights.partition(":")
    if not colon:
        raise TopologyError(
            f"weights {DECLARED}: no rank has a weight: write weight = NUMBER into each [rank.N] of the federation "
            f"file, or give {DECLARED}:400,20,30"
        )
    try:
        numbers = tuple(float(one) for one in text.split(","))
    except ValueError:
        raise TopologyError(f"weights {weights[:60]!r}: {_RIGHT}") from None
    if wrong := [one for one in numbers if not 0 < one < math.inf]:
        raise TopologyError(f"weights {DECLARED}: {wrong[0]:g}: {_RIGHT}")
    if len(numbers) != size:
        raise TopologyError(f"weights {DECLARED}: {len(numbers)} numbers, and size is {size}: {_RIGHT}")
    least, most = min(numbers), max(numbers)
    if most / least > MOST_APART:
        raise TopologyError(
            f"weights {DECLARED}: {most:g} is more than {MOST_APART:g} times {least:g}: give closer numbers"
        )
    return numbers


def check_graph(graph: Graph) -> None:
    """Refuse a graph on which no such weights exist.

    Raises:
        TopologyError: It is directed, or brings the weights of its edges.
    """
    if graph.directed:
        raise TopologyError(
            f"weights {DECLARED}: peers of a directed graph hear others than hear them, and these weights need edges "
            "both ways: choose another graph, such as exponential, or weights uniform"
        )
    if graph.weights is not None:
        raise TopologyError(
            f"weights {DECLARED}: the graph brings the weights of its edges: leave out their attribute 'weight', or "
            f"choose other weights than {DECLARED}"
        )


def message_weights(graph: Graph, numbers: Sequence[float]) -> Weights:
    """W_ij of every message from j to i, (messages,)."""
    brings, d = np.asarray(numbers, dtype=np.float64), 1.0 + _degrees(graph)
    sender, receiver = graph.sender, graph.receiver
    return np.asarray(np.minimum(1.0 / d[receiver], brings[sender] / brings[receiver] / d[sender]))


def stationary(numbers: Sequence[float]) -> NDArray[np.float64]:
    """p: the numbers scaled to sum to one, (size,)."""
    brings = [one / max(numbers) for one in numbers]  # the sum of large ones could overflow
    whole = math.fsum(brings)
    return np.array([one / whole for one in brings])
