"""Figures of a classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.training.measures.calibration import bins, calibration_error
from dpeer.training.measures.intervals import bootstrap, undefined, wilson
from dpeer.training.measures.resampled import Rows, weighted

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
    from sklearn.metrics import precision_recall_fscore_support

    numbers = range(len(names))
    _, recall, f1, there = precision_recall_fscore_support(
        rows.truth, rows.guess, labels=numbers, average=None, zero_division=0.0
    )
    present = there > 0
    missing = {number: f"no row is of class {names[number]!r}" for number in numbers if not present[number]}
    found: dict[str, float | str] = {f"f1 {number}": missing.get(number, float(f1[number])) for number in numbers}
    found |= {f"auroc {number}": value for number, value in enumerate(_auroc(rows, missing, names))}
    found["balanced_accuracy"] = float(recall[present].mean())
    if len(names) == 2:
        found |= {"f1": found["f1 1"], "auroc": found["auroc 1"]}
    else:
        found["f1"] = float(f1[present].mean())
        known = [value for name, value in found.items() if name.startswith("auroc") and not isinstance(value, str)]
        found["auroc"] = float(np.mean(known)) if known else f"all rows are of class {names[int(rows.truth[0])]!r}"
    return found | {"brier": float(rows.squares.mean()), "ece": calibration_error(rows.confidence, rows.hit)}


def _auroc(rows: Rows, missing: Mapping[int, str], names: tuple[str, ...]) -> list[float | str]:
    """Of each class against the rest; why there is none, if there is none."""
    from sklearn.metrics import roc_auc_score

    known = [number for number in range(len(names)) if number not in missing]
    if len(known) == 1:
        return [missing.get(number, f"all rows are of class {name!r}") for number, name in enumerate(names)]
    is_it = rows.truth[:, None] == np.array(known)
    found = iter(roc_auc_score(is_it, rows.shares[:, known], average=None).tolist())
    return [missing[number] if number in missing else float(next(found)) for number in range(len(names))]


def _shares_of(rows: Rows, number: int, name: str) -> dict[str, Any]:
    """Sensitivity and specificity of one class against the rest."""
    is_it, said = rows.truth == number, rows.guess == number
    here, elsewhere = int(is_it.sum()), int((~is_it).sum())
    return {
        "sensitivity": wilson(int((said & is_it).sum()), here) if here else undefined(f"no row is of class {name!r}"),
        "specificity": (
            wilson(int((~said & ~is_it).sum()), elsewhere)
            if elsewhere
            else undefined(f"all rows are of class {name!r}")
        ),
    }


def _confusion(guess: Whole, truth: Whole, count: int) -> list[list[int]]:
    """By true class, how often each class was predicted."""
    from sklearn.metrics import confusion_matrix

    found: list[list[int]] = confusion_matrix(truth, guess, labels=range(count)).tolist()
    return found
