"""Stability of outer steps on a graph: whether disagreement shrinks over simulated rounds without training.

With a symmetric W, what peers disagree about along an eigenvector with eigenvalue l follows Nesterov's step on a
quadratic loss of curvature 1 - l. With momentum m and learning rate a it shrinks where

    a (1 - l) < (2 + 2m) / (1 + 2m)

for the smallest l; a directed or changing graph has no such formula. So the rounds are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.training.mixing.outer_setting import Outer

ROUNDS = 200
"""Rounds that are simulated, and the most matrices that are of use."""

_FIRST, _COLUMNS = 30, 4
_CANDIDATES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.0)


def shrinks(outer: Outer, matrices: Sequence[Any]) -> bool:
    """Whether the disagreement after `ROUNDS` rounds is below the largest one of the first rounds.

    Args:
        outer: The outer step.
        matrices: The mixing matrix of each round, (size, size), dense or sparse; they repeat.
    """
    found = left(outer, matrices)
    return bool(found[-1] < found[:_FIRST].max())


def left(outer: Outer, matrices: Sequence[Any], *, kept: float = 1.0) -> NDArray[np.float64]:
    """The disagreement after each of `ROUNDS` rounds: the norm of what bodies differ from their mean by.

    Args:
        outer: The outer step.
        matrices: See `shrinks`.
        kept: The share of a body that training keeps, as it does on a quadratic loss with its minimum at zero.
    """
    bodies = np.random.default_rng(0).standard_normal((matrices[0].shape[0], _COLUMNS))
    velocity = np.zeros_like(bodies)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):  # of a step that is far too long
        for number in range(ROUNDS):
            gradient = bodies - matrices[number % len(matrices)] @ (kept * bodies)
            velocity = outer.momentum * velocity + gradient
            bodies = bodies - outer.lr * (gradient + outer.momentum * velocity)
            found.append(float(np.linalg.norm(bodies - bodies.mean(axis=0))))
    return np.array(found)


def steadier(outer: Outer, matrices: Sequence[Any]) -> Outer | None:
    """The same step with the most of a few smaller momenta with which the disagreement shrinks; None for none."""
    found = (replace(outer, momentum=one) for one in _CANDIDATES if one < outer.momentum)
    return next((one for one in found if shrinks(one, matrices)), None)
