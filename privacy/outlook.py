"""What a start and `dpeer privacy` state of a private run beforehand: its cost, and whether training can survive."""

from __future__ import annotations

import math
from collections.abc import Callable

ADVICE = {
    "client": "use fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds; or "
    "protect single records with --privacy sample, which is what eight hospitals want",
    "sample": "use fewer trained parameters (a small body on a frozen public one, --dp-head post), fewer rounds, or "
    "larger batches in as many steps (--batch-size together with --local-steps)",
}
"""By level of privacy the advice where `noise_over_drift` is above 1."""


def cost(epsilon: float) -> str:
    """An epsilon in few words."""
    return f"epsilon {epsilon:.4g}" if math.isfinite(epsilon) else "epsilon unbounded"


def fitting(planned: int, epsilon: Callable[[int], float], budget: float | None) -> int:
    """The most rounds, but at most so many, whose epsilon is within the budget."""
    if budget is None or not planned or epsilon(planned) <= budget:
        return planned
    low, high = 0, planned
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(middle) <= budget else (low, middle)
    return low


def noise_over_drift(ratio: float, peers: int, releases: int) -> float:
    """The noise left in the peers' average over the furthest that training can have moved it.

    Every release moves one body by at most C, so T rounds move the average of n bodies by at most T C: where all
    updates, of all peers and rounds, point the same way. Noise adds up as sqrt(T), and averages out as sqrt(n): what is
    left has norm s sqrt(p) sqrt(T / n). The quotient is ratio / sqrt(n T). Above 1 the noise is longer than the way
    even in this best of cases; real updates disagree and mixing is slower, so that below 1 training may still fail.

    Args:
        ratio: The norm of one release's noise over the clip norm.
        peers: n, whose bodies are averaged.
        releases: T; at sample level the steps that move a body.
    """
    return ratio / math.sqrt(peers * max(releases, 1))
