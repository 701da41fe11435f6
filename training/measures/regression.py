"""Figures of a regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpeer.training.measures.intervals import Numbers, bootstrap, undefined


def measure_values(predicted: Numbers, truth: Numbers) -> dict[str, Any]:
    """MAE, RMSE and R2, with intervals.

    Args:
        predicted: Shape (rows,).
        truth: Shape (rows,).
    """
    figures: dict[str, Any] = {"kind": "regression", "rows": len(truth)}
    if not np.isfinite(predicted).all():
        why = "the model's outputs are not finite"
        return figures | {"values": {name: undefined(why) for name in ("mae", "rmse", "r2")}}
    ends = bootstrap(lambda weights: _weighted(weights, predicted, truth), len(truth))
    found = {name: float(one) for name, (one,) in _weighted(np.ones((1, len(truth))), predicted, truth).items()}
    if len(np.unique(truth)) == 1:
        del found["r2"]
    values = {name: {"value": value, "low": ends[name][0], "high": ends[name][1]} for name, value in found.items()}
    if "r2" not in values:
        values["r2"] = undefined("all rows have the same value")
    return figures | {"values": values}


def _weighted(weights: Numbers, predicted: Numbers, truth: Numbers) -> dict[str, Numbers]:
    count = weights.sum(axis=1)
    errors = predicted - truth
    squares = weights @ errors**2
    moved = truth - truth.mean()  # around the mean, or squares of large values leave no digits for their differences
    spread = weights @ moved**2 - (weights @ moved) ** 2 / count
    # A resample of one value has a spread of rounding errors.
    known = spread > 1e-12 * (moved**2).sum()
    r2 = np.where(known, 1 - squares / np.where(known, spread, 1.0), np.nan)
    return {"mae": weights @ np.abs(errors) / count, "rmse": np.sqrt(squares / count), "r2": r2}
