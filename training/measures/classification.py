"""Figures of a classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.training.measures.calibration import bins
from dpeer.training.measures.intervals import Rows, bootstrap, undefined, weighted, wilson

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

_BOOTSTRAPPED = ("auroc", "balanced_accuracy", "f1", "brier", "ece")


def measure_classes(shares: Numbers, guess: Whole, truth: Whole, names: tuple[str, ...]) -> dict[str, Any]:
    """All figures of a classification, with intervals.

    Args:
        shares: Predicted probabilities, shape (rows, classes).
        guess: Predicted classes, shape (rows,).
        truth: True classes, shape (rows,).
        names: The classes' names.
    """
    binary = len(names) == 2
    figures: dict[str, Any] = {"kind": "classification", "rows": len(truth)}
    figures |= {"positive": names[1]} if binary else {}
    if not np.isfinite(shares).all():
        wanted = ("accuracy", *_BOOTSTRAPPED, *(("sensitivity", "specificity") if binary else ()))
        return figures | {"values": {name: undefined("the model's outputs are not finite") for name in wanted}}
    rows = Rows.of(shares, guess, truth)
    points = _points(rows, names)
    ends = bootstrap(lambda weights: weighted(rows, weights), len(truth), truth)
    found = {
        name: undefined(value)
        if isinstance(value, str)
        else {"value": value, "low": ends[name][0], "high": ends[name][1]}
        for name, value in points.items()
    }
    classes = [
        {
            "class": name,
            "rows": int((truth == number).sum()),
            **_shares_of(rows, number, name),
            **{key: found[f"{key} {number}"] for key in ("f1", "auroc")},
        }
        for number, name in enumerate(names)
    ]
    values = {"accuracy": wilson(int((guess == truth).sum()), len(truth))}
    values |= {name: found[name] for name in _BOOTSTRAPPED}
    values |= {name: classes[1][name] for name in ("sensitivity", "specificity")} if binary else {}
    return figures | {
        "values": values,
        "classes": classes,
        "confusion": _confusion(guess, truth, len(names)),
        "calibration": bins(rows.confidence, rows.hit),
    }


def auroc_of(shares: Numbers, guess: Whole, truth: Whole) -> float | None:
    """The AUROC, of two classes that of the second, else the mean over those that are there; None where there is none.

    Args:
        shares: Predicted probabilities, shape (rows, classes).
        guess: Predicted classes, shape (rows,).
        truth: True classes, shape (rows,).
    """
    found = _points(Rows.of(shares, guess, truth), tuple(map(str, range(shares.shape[1]))))["auroc"]
    return None if isinstance(found, str) else found


def _points(rows: Rows, names: tuple[str, ...]) -> dict[str, float | str]:
    """Figures by name, those of a class as ``"f1 0"``; why there is none, where there is none."""
    there = np.bincount(rows.truth, minlength=len(names))
    alone = f"all rows are of class {names[int(rows.truth[0])]!r}"
    why = {f"{key} {n}": alone if there[n] else f"no row is of class {names[n]!r}"
           for key in ("f1", "auroc") for n in range(len(names))}  # fmt: skip
    if len(names) == 2:
        why |= {key: why[f"{key} 1"] for key in ("f1", "auroc")}
    every = weighted(rows, np.ones((1, len(rows.truth))))
    return {name: float(one) if np.isfinite(one) else why.get(name, alone) for name, (one,) in every.items()}


def _shares_of(rows: Rows, number: int, name: str) -> dict[str, Any]:
    """Sensitivity and specificity of one class against the rest."""
    is_it, guessed = rows.truth == number, rows.guess == number
    here, elsewhere = int(is_it.sum()), int((~is_it).sum())
    return {
        "sensitivity": wilson(int((guessed & is_it).sum()), here)
        if here
        else undefined(f"no row is of class {name!r}"),
        "specificity": (
            wilson(int((~guessed & ~is_it).sum()), elsewhere)
            if elsewhere
            else undefined(f"all rows are of class {name!r}")
        ),
    }


def _confusion(guess: Whole, truth: Whole, count: int) -> list[list[int]]:
    """By true class, how often each class was predicted."""
    found: list[list[int]] = np.bincount(truth * count + guess, minlength=count**2).reshape(count, count).tolist()
    return found
