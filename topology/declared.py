"""Declared weights: the mean that gossip keeps is weighted by what each peer brings (rows, patients, votes).

Hastings, "Monte Carlo sampling methods using Markov chains and their applications", 1970. With p the declared numbers
scaled to sum to one, d_i the number of i's neighbors plus one, and a proposal that is uniform over these and oneself:

    W_ij = min(1 / d_i, (p_j / p_i) / d_j)  on edges, the rest of each row on the diagonal.

W[i, j] multiplies the body of j in receiver i's sum, x_i <- sum_j W_ij x_j. Detailed balance, p_i W_ij = p_j W_ji,
gives p W = p: gossip keeps sum_i p_i x_i, and drives everyone to it. W is reversible. It is doubly stochastic, and the
Metropolis matrix to the bit, only where all numbers are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology.graphs import Graph

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


def message_weights(graph: Graph, degrees: NDArray[np.int64], numbers: Sequence[float]) -> NDArray[np.float64]:
    """W_ij of every message from j to i, in the order of `Graph.messages`, (messages,).

    Args:
        graph: An undirected graph.
        degrees: The number of each peer's neighbors, (size,).
        numbers: What each peer brings, (size,).
    """
    sender, receiver = graph.messages()
    brings, d = np.asarray(numbers, dtype=np.float64), 1.0 + degrees
    return np.asarray(np.minimum(1.0 / d[receiver], brings[sender] / brings[receiver] / d[sender]))


def stationary(numbers: Sequence[float]) -> NDArray[np.float64]:
    """p: the numbers scaled to sum to one, (size,)."""
    brings = [one / max(numbers) for one in numbers]  # the sum of large ones could overflow
    whole = math.fsum(brings)
    return np.array([one / whole for one in brings])
