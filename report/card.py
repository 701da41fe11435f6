"""The page about one model, from its card (results/card.py): HTML that needs no other file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, OutputError
from dpeer.report.templates import CARD, render
from dpeer.results.costs import privacy_line
from dpeer.results.figures import called, in_order, interval, value
from dpeer.results.units import decimals

MARK = '<meta name="generator" content="dpeer card'
"""The beginning of the head of every page, and of no other."""

_LISTED = 30
"""Of more classes or columns the rest is counted."""


def write_card(card: Mapping[str, Any], path: Path) -> None:
    """Write the page; an earlier one is replaced.

    Raises:
        CheckpointError: The card is damaged.
        OutputError: The file is something else, or cannot be written.
    """
    try:
        page = render_card(card)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the model's card is damaged: {error!r}") from error
    try:
        if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:1000]:
            raise OutputError(f"--out {str(path)!r} is something that is no card: name another file")
        path.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OutputError(f"--out {str(path)!r} cannot be written: {error.strerror}") from error


def render_card(card: Mapping[str, Any]) -> str:
    """The page as HTML."""
    figures = card.get("metrics") or {}
    known, classes = figures.get("values", {}), figures.get("classes", [])
    own = [(called(name), decimals(one)) for name, one in (card.get("own_metrics") or {}).items() if name not in known]
    parts, counts = _counts(card)
    what = f" of {card['target']}" if card.get("target") else ""
    return render(
        CARD,
        title=f"A model{what}, from the task {card.get('task')}",
        written=f"{datetime.fromisoformat(str(card.get('written'))):%d %B %Y, %H:%M} UTC",
        about=_about(card),
        training=_training(card),
        privacy=_privacy(card),
        columns=card.get("columns") or [],
        parts=[("class", "name"), *((part, "") for part in parts)],
        counts=counts,
        measured_on=card.get("measured_on"),
        figures=figures,
        values=[(called(name), value(one), one.get("why") or interval(one)) for name, one in in_order(known).items()]
        + [(*one, "-") for one in own],
        own=own,
        protected=(card.get("privacy") or {}).get("mode") == "sample",
        classes=classes[:_LISTED],
        by_class=[
            (one["class"], one["rows"], value(one["sensitivity"]), interval(one["sensitivity"]),
             *(value(one[name]) for name in ("specificity", "f1", "auroc")))
            for one in classes[:_LISTED]
        ],
        more_classes=max(0, len(classes) - _LISTED),
        confusion=figures.get("confusion") if len(classes) <= _LISTED else None,
        bins=figures.get("calibration", []),
    )  # fmt: skip


def _about(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    built, classes = card.get("model") or {}, card.get("classes") or []
    yield "model", str(built.get("model") or "the task's own")
    if shape := card.get("input_shape"):
        yield "input", f"{' x '.join(map(str, shape))} numbers" if len(shape) > 1 else f"{shape[0]} numbers"
    if card.get("target"):
        yield "predicts", str(card["target"])
    if classes:
        more = f", ... ({len(classes)} in all)" if len(classes) > _LISTED else ""
        yield "classes", ", ".join(classes[:_LISTED]) + more
    yield "preparation", "; ".join(_preparation(card)) or "none: inputs are taken as they are"
    samples = card["samples"]
    counted = [f"{samples[name]:,} for {_PARTS[name]}" for name in _PARTS if samples[name]]
    if stated := samples.get("stated"):
        counted.insert(0, f"about {stated['number']:,} {stated['of']}s for training, as stated (not counted)")
    yield "samples", ", ".join(counted)
    yield "versions", ", ".join(f"{name} {number}" for name, number in card["versions"].items())


_PARTS = {"train": "training", "validation": "validation", "test": "testing"}


def _preparation(card: Mapping[str, Any]) -> Iterator[str]:
    built, prepared = card.get("model") or {}, card.get("preparation")
    if prepared and prepared.get("kind") == "schema":
        yield "cells become numbers as the schema says"
    elif prepared:
        yield "columns of numbers, found by name"
    if built.get("pixels"):
        yield "bytes of images are divided by 127.5, less 1"
    if built.get("standardize"):
        yield "the model scales by the mean and deviation of its training data"


def _training(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Peers, graph, algorithm and rounds of its training, by name."""
    run = card["federation"]
    yield "peers", f"{run['size']}; this is rank {run['rank']}"
    yield "graph", str(run["topology"])
    yield "algorithm", str(run["algorithm"])
    rounds = f"{run['completed_rounds']} of {run['rounds']}"
    if run.get("kept_round") is not None and run["kept_round"] + 1 != run["completed_rounds"]:
        rounds += f"; the model is that of round {run['kept_round'] + 1}"
    yield "rounds", rounds + ("" if run["status"] == "done" else f" ({run['status']})")
    if run.get("partition"):
        yield "data", f"divided {run['partition']}" if run["partition"] != "own" else "the peer's own"
    if run.get("lost"):
        yield "lost neighbors", ", ".join(f"rank {rank} ({why})" for rank, why in run["lost"].items())
    if run.get("body_parameters") is not None:
        yield "parameters", f"{run['body_parameters']:,} shared, {run['head_parameters']:,} kept at home"


def _privacy(card: Mapping[str, Any]) -> str:
    spent = card.get("privacy")
    if not spent:
        return (
            "No privacy guarantee: what the peer shared was computed from its data without noise. So was this model; "
            "it may reveal something about single rows."
        )
    if spent.get("mode") == "sample" and spent.get("head") in ("joint", "alternate", "frozen"):
        return (
            f"{privacy_line(spent)}. This holds for what the peer sent to others, for the model beside this card and "
            "for the card's facts on training records; the figures are of records that were held out, which nothing "
            "protects."
        )
    return (
        f"{privacy_line(spent)}. This holds for what the peer sent to others; this file also holds parts that stayed "
        "at home (the head, scales, figures), which have no guarantee."
    )


def _counts(card: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """The parts whose samples were counted by class, and a row for each class."""
    counted = {part: counts for part, counts in card["class_counts"].items() if counts}
    if not counted:
        return [], []
    names = card.get("classes") or [str(number) for number in range(max(map(len, counted.values())))]
    rows = [[name, *(counts[number] for counts in counted.values())] for number, name in enumerate(names[:_LISTED])]
    return [_PARTS[part] for part in counted], rows
