"""Fastest symmetric weights of a graph, by a convex solver (an optional extra).

Boyd, Diaconis and Xiao, "Fastest mixing Markov chain on a graph", 2004, problem (6), a semidefinite program:

    minimize    s
    subject to  -s I <= W - 11^T/m <= s I,   W_ij = W_ji >= 0,   W_ij = 0 off the edges,   W 1 = 1

Written with one unknown for each edge, W = I - sum_e w_e b_e b_e^T, b_e being +1 and -1 at the ends of e: then W is
symmetric and its rows sum to one by themselves, and the diagonal is nonnegative where the w_e around a peer sum to at
most one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import EdgeList

LIMIT = 256
"""The largest size that is solved: 100 peers take seconds, 200 about a minute."""

_UNITS = 2**20


def fastest_weights(graph: EdgeList) -> NDArray[np.float64]:
    """The weight of each edge, (edges,), with the largest spectral gap that symmetric weights can have.

    Every peer solves the program for itself: the weights are rounded to multiples of 2^-20, so that the last digits of
    another machine's solver do not show.

    Raises:
        TopologyError: If the solver is not installed or gives up, or the graph is too large for it.
    """
    if graph.size > LIMIT:
        raise TopologyError(
            f"weights fastest: size {graph.size}: the solver takes up to {LIMIT} peers: use weights best-constant"
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
    return _on_grid(graph, np.maximum(np.array(solution["x"]).ravel()[:edges], 0.0))


def _on_grid(graph: EdgeList, found: NDArray[np.float64]) -> NDArray[np.float64]:
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
