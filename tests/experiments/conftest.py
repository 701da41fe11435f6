"""Cells written by hand: the files that `dpeer simulate` leaves, with numbers that a test has chosen."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.experiments.outcomes import Result

Write = Callable[..., Path]


_FIGURES = ("accuracy", "test_loss", "metrics")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models: threads only get into the way of whatever else runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def write_cell(tmp_path: Path) -> Write:
    """Write a cell: `accuracy[rank][round]`, of what was trained half as much; 100 x (rank + 1) bytes a round.

    Who takes part in a round computes gradients for 60 samples in it, unless `samples(rank, round)` says otherwise;
    where that is None the line is an older version's. `kept[rank]` is the accuracy of a finished model
    and `training_kept[rank]` that on its training data, `spent[rank]` what a private peer's epsilon is.
    """

    def write(
        name: str,
        accuracy: Sequence[Sequence[float | None]],
        *,
        algorithm: str = "dfedmdc",
        evaluate_every: int = 1,
        samples: Callable[[int, int], int | None] = lambda rank, number: 60,
        active: Callable[[int, int], bool] = lambda rank, number: True,
        lost: Callable[[int, int], bool] = lambda rank, number: False,
        metrics: Sequence[str] = ("accuracy",),
        counts: tuple[list[int], list[int]] | None = ([3, 1], [2, 2]),
        trains: bool = True,
        kept: Sequence[float | None] | None = None,
        training_kept: Sequence[float] | None = None,
        spent: Sequence[float | None] | None = None,
    ) -> Path:
        folder, size, rounds = tmp_path / name, len(accuracy), len(accuracy[0])
        sent = 0
        for rank, values in enumerate(accuracy):
            own = folder / f"rank-{rank}"
            own.mkdir(parents=True)
            lines = []
            for number, value in enumerate(values):
                evaluated = (number + 1) % evaluate_every == 0 or number == rounds - 1
                trained = None if value is None else value / 2
                worked = samples(rank, number) if active(rank, number) else 0
                lines.append(
                    {
                        "round": number,
                        "accuracy": value if evaluated else None,
                        "accuracy_trained": trained if evaluated else None,
                        "test_loss": 0.1 if evaluated else None,
                        "metrics": dict.fromkeys(metrics, value) if evaluated else None,
                        "train_loss": None if lost(rank, number) or not active(rank, number) else 0.5,
                        "active": active(rank, number),
                        "diverged": trains and lost(rank, number) and active(rank, number),
                        **({} if trains else {"train_loss": None}),
                        "bytes_sent": 100 * (rank + 1),
                        **({} if worked is None else {"samples": worked}),
                    }
                )
            sent += 100 * (rank + 1) * rounds
            (own / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            peer = {
                "rank": rank, "task": "mine", "training_samples": 10, "bytes_sent": 100 * (rank + 1) * rounds,
                "class_counts": counts and counts[0], "evaluated_class_counts": counts and counts[1],
                **{f"{key}{of}": lines[-1][key] for key in _FIGURES for of in ("", "_mixed")},
            }  # fmt: skip
            if kept is not None:
                peer |= {"kept_point": "finished", "accuracy": kept[rank]}
            if training_kept is not None:
                peer["training_accuracy"] = training_kept[rank]
            if spent is not None:
                peer |= {"privacy": {"mode": "sample", "epsilon": spent[rank], "delta": 1e-5}}
            (own / "summary.json").write_text(json.dumps(peer))
        summary = {
            "size": size, "rounds": rounds, "algorithm": algorithm, "task": "mine", "status": "done",
            "bytes_sent": sent,
        }  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(summary))
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
