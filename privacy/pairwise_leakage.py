"""How much each peer of a gossip graph learns about each other: Gaussian differential privacy of every pair.

Everyone releases z_j = base_j + update_j + noise_j in every round, and the next base is W z. What observer v receives
from its in-neighbors N is therefore a linear map A of everyone's updates plus the same map of everyone's noises, so a
change d of the updates of one source moves the view by A d under covariance s^2 A A^T, and

    mu^2 = ||P d||^2 / s^2,   P the projection onto the row space of A.

Subtracting from each message what v could already predict changes neither the row space nor v's knowledge: with H the
peers that are neither v nor in N, what is new in round t is

    noise_N(t) + W_NH h(t),   h(t + 1) = noise_H(t) + W_HH h(t)   (h(0) = 0, so h holds the noises up to round t - 1)

(v knows everything that comes back to H from N and from itself). So A becomes [I, G] with G block Toeplitz, and
A A^T = I + G G^T, which no number of rounds makes ill-conditioned, as it does the matrix of powers of W.

This is **open loop**: that later updates of honest peers react to what they received is not in it. What is guaranteed
in closed loop is local differential privacy of the source's messages, without those that cannot have arrived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.csgraph import shortest_path

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.plan import finite

Array = NDArray[np.float64]
Row = dict[str, Any]

_MEASURED = ("eps_guaranteed", "eps_openloop", "mu2_openloop")


@dataclass(frozen=True)
class Views:
    """What each peer can learn of each other; all arrays are (n, n), [source, observer].

    Attributes:
        distance: Messages that it takes from source to observer, infinite if none arrives; 0 on the diagonal.
        mu2_guaranteed: Squared mu that holds whatever the peers do with what they receive; infinite on the diagonal.
        mu2_openloop: An estimate that leaves out how others react; infinite on the diagonal. Never show it alone.
    """

    distance: Array
    mu2_guaranteed: Array
    mu2_openloop: Array


def views(weights: Array, rounds: int, ratio: float) -> Views:
    """The privacy of every source against every observer.

    Args:
        weights: W, (n, n), the same in every round: W[i, j] multiplies what j sends in receiver i's sum.
        rounds: T, at least 1; everyone releases in each.
        ratio: S / s, the sensitivity of one release over the standard deviation of its noise.

    Raises:
        ConfigurationError: W is not square with rows that sum to one, or rounds or ratio is out of range.
    """
    weights = np.asarray(weights, dtype=np.float64)
    _check(weights, rounds, ratio)
    size = len(weights)
    # An edge of csgraph goes from row to column; a message from column to row of W. Ones, because csgraph takes a very
    # small weight for none, and what it carries can be seen all the same.
    distance: Array = shortest_path(np.where(weights.T > 0.0, 1.0, 0.0), method="D")
    guaranteed = ratio**2 * np.clip(rounds + 1.0 - distance, 0.0, None)
    openloop = np.zeros((size, size))
    for observer in range(size):
        openloop[:, observer] = ratio**2 * seen_by(observer, weights, rounds)
    # What cannot have arrived moves nothing: the bound T of `seen_by` is T - distance + 1 of these columns.
    openloop = np.minimum(openloop, guaranteed)
    for array in (guaranteed, openloop):
        np.fill_diagonal(array, np.inf)
    return Views(distance, guaranteed, openloop)


def work(weights: Array, rounds: int) -> tuple[float, float]:
    """The cost of `views`: its multiplications, and the bytes that it needs at once."""
    seen = ((weights > 0.0) & ~np.eye(len(weights), dtype=bool)).sum(axis=1).astype(np.float64)
    hidden = len(weights) - 1.0 - seen
    rows, columns = seen * rounds, hidden * rounds
    busy = hidden > 0.0
    multiplications = (rows**2 * (2.0 * columns + rows) + rows * rounds * (rows + columns))[busy].sum()
    return float(multiplications), float((8.0 * rows * (3.0 * columns + 3.0 * rows))[busy].max(initial=0.0))


def seen_by(observer: int, weights: Array, rounds: int) -> Array:
    """The worst open-loop mu^2 of every source against one observer, for sensitivity and noise 1; (n,).

    Over all changes with ||d_t|| <= 1 in each round it is at most sum |M|, M the (T, T) part of P that belongs to the
    source, and at most T because a projection lengthens nothing. It is exactly sum |M| where M >= 0.
    The observer's own entry is 0: it has nothing to learn of itself.
    """
    others = np.arange(len(weights)) != observer
    seen = np.flatnonzero(others & (weights[observer] > 0.0))
    hidden = np.flatnonzero(others & ~(weights[observer] > 0.0))
    worst = np.zeros(len(weights))
    if hidden.size == 0:
        # Nothing is hidden: every noise follows from the messages.
        worst[seen] = rounds
        return worst
    if seen.size == 0:
        return worst
    response = _response(weights, seen, hidden, rounds)
    factor = cholesky(np.eye(len(response)) + response @ response.T, lower=True, overwrite_a=True, check_finite=False)
    for ranks, matrix in ((seen, np.eye(len(response))), (hidden, response)):
        root = solve_triangular(factor, matrix, lower=True, check_finite=False)
        # A contiguous (rows, T) block for each source: strided ones would not reach BLAS.
        blocks = np.ascontiguousarray(root.reshape(len(root), rounds, len(ranks)).transpose(2, 0, 1))
        for block, rank in zip(blocks, ranks, strict=True):
            worst[rank] = min(float(np.abs(block.T @ block).sum()), float(rounds))
    return worst


def _response(weights: Array, seen: NDArray[np.intp], hidden: NDArray[np.intp], rounds: int) -> Array:
    """G: how what is new to the observer in (round, seen peer) responds to the noise of (round, hidden peer)."""
    lags = np.zeros((rounds, len(seen), len(hidden)))  # lags[k]: k rounds after the noise
    if rounds > 1:
        lags[1] = weights[np.ix_(seen, hidden)]
    among = weights[np.ix_(hidden, hidden)]
    for lag in range(2, rounds):
        lags[lag] = lags[lag - 1] @ among
    response = np.zeros((rounds, len(seen), rounds, len(hidden)))
    for number in range(1, rounds):
        response[number, :, : number + 1] = lags[number::-1].transpose(1, 0, 2)
    return response.reshape(rounds * len(seen), rounds * len(hidden))


def _check(weights: Array, rounds: int, ratio: float) -> None:
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ConfigurationError(f"weights of shape {weights.shape}: give a square matrix, a row for each receiver")
    if not (np.all(weights >= 0.0) and np.allclose(weights.sum(axis=1), 1.0, atol=1e-6)):
        raise ConfigurationError("weights: rows must be 0 or more and sum to one")
    if rounds < 1:
        raise ConfigurationError(f"rounds {rounds}: choose 1 or more")
    if not (ratio >= 0.0 and np.isfinite(ratio)):
        raise ConfigurationError(f"sensitivity over noise {ratio:g}: choose 0 or more")


def epsilon_of_pairs(found: Views, delta: float, accountant: Accountant) -> list[Row]:
    """A row for each source and observer, in plain JSON values; what is infinite is None.

    Args:
        found: What each peer can learn of each other.
        delta: Of the epsilons.
        accountant: What computes them.
    """

    @cache
    def epsilon(mu2: float) -> float:
        return accounting.epsilon(1.0 / math.sqrt(mu2), 1, delta, accountant) if mu2 else 0.0

    rows = []
    ranks = range(len(found.distance))
    for source, observer in ((source, observer) for source in ranks for observer in ranks if source != observer):
        distance = float(found.distance[source, observer])
        # Equal by symmetry up to rounding: rounded alike, they are accounted for once.
        openloop = float(f"{found.mu2_openloop[source, observer]:.12g}")
        rows.append({
            "source": source,
            "observer": observer,
            "distance": round(distance) if math.isfinite(distance) else None,
            "eps_guaranteed": finite(epsilon(float(found.mu2_guaranteed[source, observer]))),
            "eps_openloop": finite(epsilon(openloop)),
            "mu2_openloop": openloop,
        })  # fmt: skip
    return rows


def by_distance(rows: Sequence[Row]) -> list[Row]:
    """The means of such rows at each distance, the nearest first, and how many pairs are at it."""
    grouped: dict[int | None, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["distance"], []).append(row)
    ordered = sorted(grouped, key=lambda distance: math.inf if distance is None else distance)
    return [
        {
            "distance": distance,
            "pairs": len(grouped[distance]),
            **{key: _mean([row[key] for row in grouped[distance]]) for key in _MEASURED},
        }
        for distance in ordered
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(values) if len(known) == len(values) else None
