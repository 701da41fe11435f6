"""Calibration of predicted probabilities: bins, and the expected calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

BINS = 10


def confidences(shares: Numbers, guess: Whole, truth: Whole) -> tuple[Numbers, Numbers]:
    """What is held against what, each of shape (rows,).

    Of two classes: the probability of the second one, and whether the row is of it. Of more: the probability of the
    predicted class, and whether it is the true one (Guo et al., On Calibration of Modern Neural Networks, ICML 2017).
    """
    if shares.shape[1] == 2:
        return shares[:, 1], (truth == 1).astype(np.float64)
    return shares[np.arange(len(shares)), guess], (guess == truth).astype(np.float64)


def bin_of(confidence: Numbers) -> Whole:
    """The number of each row's bin of equal width; a border belongs to the bin below it, as in the paper."""
    inner = np.linspace(0, 1, BINS + 1)[1:-1]
    return np.searchsorted(inner, confidence).astype(np.int64)


def bins(confidence: Numbers, hit: Numbers) -> list[dict[str, Any]]:
    """The rows by bin: how many there are, their mean probability, and the share that it is held against."""
    where = bin_of(confidence)
    found = []
    for number in range(BINS):
        inside = where == number
        count = int(inside.sum())
        found.append(
            {
                "from": number / BINS,
                "to": (number + 1) / BINS,
                "rows": count,
                "predicted": float(confidence[inside].mean()) if count else None,
                "observed": float(hit[inside].mean()) if count else None,
            }
        )
    return found
