"""Cells that have not begun, and cells written by hand: the files that `dpeer simulate` leaves, with chosen numbers."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dpeer.experiments.cells import Cell, Condition, make_cell, parse_variant
from dpeer.experiments.outcomes import Result
from dpeer.results.files import write_json

Write = Callable[..., Path]


def silent(what: str, missing: int, total: int) -> nullcontext[Callable[[str], None]]:
    """A comparison's progress, which is not shown."""
    return nullcontext(lambda name: None)


def nothing(rank: int, number: int) -> dict[str, Any]:
    return {}


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    """Three cells without files."""
    condition = Condition({"topology": "ring", "partition": None})
    return [make_cell({}, parse_variant("local"), condition, seed, tmp_path) for seed in range(3)]


def finish(cell: Cell) -> None:
    """Write the file of a cell that is done."""
    write_json(cell.folder / "summary.json", {"status": "done", "algorithm": "local", "size": 8, "rounds": 20})


@pytest.fixture
def write_cell(tmp_path: Path) -> Write:
    """Write a cell: `accuracy[rank][round]`, of what was trained half as much; 100 x (rank + 1) bytes a round.

    A peer computes gradients for 60 samples in each round that it takes part in. `more(rank, round)` are further keys
    of a line. `kept[rank]` is the accuracy of a finished model and `training_kept[rank]` that on its training data,
    `spent[rank]` a private peer's epsilon.
    """

    def write(
        name: str,
        accuracy: Sequence[Sequence[float | None]],
        more: Callable[[int, int], dict[str, Any]] = nothing,
        *,
        algorithm: str = "dfedmdc",
        evaluate_every: int = 1,
        metrics: Sequence[str] = ("accuracy",),
        counts: tuple[list[int], list[int]] | None = ([3, 1], [2, 2]),
        kept: Sequence[float | None] | None = None,
        training_kept: Sequence[float] | None = None,
        spent: Sequence[float | None] | None = None,
    ) -> Path:
        folder, rounds = tmp_path / name, len(accuracy[0])
        for rank, values in enumerate(accuracy):
            own = folder / f"rank-{rank}"
            own.mkdir(parents=True)
            lines: list[dict[str, Any]] = []
            for number, value in enumerate(values):
                found = {
                    "accuracy": value, "accuracy_trained": None if value is None else value / 2, "test_loss": 0.1,
                    "metrics": dict.fromkeys(metrics, value),
                }  # fmt: skip
                if (number + 1) % evaluate_every and number != rounds - 1:
                    found = dict.fromkeys(found)
                line = {"round": number, "train_loss": 0.5, "bytes_sent": 100 * (rank + 1), "samples": 60}
                lines.append({**line, **found, **more(rank, number)})
            (own / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            peer = {
                "rank": rank, "task": "mine", "training_samples": 10, "bytes_sent": 100 * (rank + 1) * rounds,
                "class_counts": counts and counts[0], "evaluated_class_counts": counts and counts[1],
            }  # fmt: skip
            for key in ("accuracy", "test_loss", "metrics"):
                peer |= {key: lines[-1][key], f"{key}_mixed": lines[-1][key]}
            if kept is not None:
                peer |= {"kept_point": "finished", "accuracy": kept[rank]}
            if training_kept is not None:
                peer["training_accuracy"] = training_kept[rank]
            if spent is not None:
                peer |= {"privacy": {"mode": "sample", "epsilon": spent[rank], "delta": 1e-5}}
            (own / "summary.json").write_text(json.dumps(peer))
        summary = {"size": len(accuracy), "rounds": rounds, "algorithm": algorithm, "task": "mine", "status": "done"}
        sent = sum(100 * (rank + 1) * rounds for rank in range(len(accuracy)))
        (folder / "summary.json").write_text(json.dumps({**summary, "bytes_sent": sent}))
        return folder

    return write


@pytest.fixture
def result(write_cell: Write) -> Callable[..., Result]:
    """A result of a cell written by hand."""
    count = 0

    def made(*arguments: Any, **options: Any) -> Result:
        nonlocal count
        count += 1
        return Result(write_cell(f"cell-{count}", *arguments, **options))

    return made
