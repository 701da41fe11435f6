"""The comparison of a peer's federated model with its local-only baseline, row by row, in the rank's summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.federation.baseline.model_choice import UNFINISHED, keep_one
from dpeer.results.effect import NOTHING_RECEIVED, as_entry, majority_accuracy
from dpeer.results.effect_statistics import find_gain
from dpeer.results.files import ROWS, SUMMARY, write_json, write_rows
from dpeer.results.run_folders import read_object

if TYPE_CHECKING:
    from dpeer.federation.baseline.training import BaselineTraining
    from dpeer.training import Evaluation, TorchLearner
    from dpeer.training.per_row_metrics import Rows


def conclude_comparison(
    folder: Path,
    learner: TorchLearner,
    beside: BaselineTraining | None,
    facts: Mapping[str, Any],
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
    *,
    diverged: bool,
) -> None:
    """Measure the model that a done peer has kept row by row, and compare it with its baseline.

    The figure of each row goes to the rank's folder, what follows from them into its summary.

    Args:
        folder: The rank's folder.
        learner: The peer's.
        beside: The baseline's training; None where nothing was trained.
        facts: The entries of the summary on the run, besides its results.
        stopped: Whether to leave the comparison out.
        tell: Gets a line before it takes long.
        diverged: Whether the peer's training has diverged: then nothing can be compared.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
        OSError: The folder cannot be written.
    """
    summary = read_object(folder / SUMMARY)
    # A peer that has mixed no body is its own baseline: nothing can be compared or weighed.
    received_nothing = learner.about.shares and summary.get("rounds_mixed") == 0
    if beside is not None:
        beside.finish(lambda: diverged or received_nothing or stopped(), tell)
        if received_nothing and beside.baseline is not None:
            beside.why = NOTHING_RECEIVED
    found, rows = learner.rows()
    on = str(facts["settings"]["evaluate_on"])
    (folder / ROWS).unlink(missing_ok=True)
    if rows is not None:
        write_rows(folder, rows.measure, rows.values)
    entry: dict[str, Any] = {
        "on": on,
        "rounds_mixed": summary.get("rounds_mixed"),
        "validation_loss": learner.figures.best_loss,
    }
    entry |= _compared(found, rows, learner, beside, facts, diverged=diverged)
    written = dict(summary)
    if not diverged and beside is not None and beside.why is None and beside.baseline is not None:
        more, kept = keep_one(folder, summary, learner.kept, entry.get("validation_loss"), beside.baseline, facts)
        entry, written = entry | more, written | kept
    elif facts["settings"]["keep"] == "blend":
        entry["no_blend"] = UNFINISHED
    accuracy = entry.get("alone") if entry.get("measure") == "accuracy" else None
    write_json(folder / SUMMARY, {**written, "accuracy_alone": accuracy, "worth": as_entry(**entry)})


def _compared(
    found: Evaluation,
    rows: Rows | None,
    learner: TorchLearner,
    beside: BaselineTraining | None,
    facts: Mapping[str, Any],
    *,
    diverged: bool,
) -> dict[str, Any]:
    if diverged or rows is None:
        return {"why": "training has diverged" if diverged else "the task's figures are no means over its rows"}
    counts = facts.get("class_counts"), facts.get("evaluated_class_counts")
    constant = majority_accuracy(*counts) if rows.measure == "accuracy" else learner.constant_loss()
    own = {
        "measure": rows.measure, "rows": len(rows.values), "joined": getattr(found, rows.measure),
        "constant": constant, "auroc": rows.auroc,
    }  # fmt: skip
    return own if beside is None else own | _compared_with(beside, rows.measure, rows.values)


def _compared_with(beside: BaselineTraining, measure: str, joined: Sequence[float]) -> dict[str, Any]:
    """The part of an entry `worth` that is about the baseline.

    Args:
        beside: The baseline, trained as far as it will be.
        measure: accuracy or test_loss.
        joined: The kept model's figure of each row.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
    """
    baseline = beside.baseline
    if baseline is None or beside.why == NOTHING_RECEIVED:
        return {"why": beside.why}
    found: dict[str, Any] = {"rounds": baseline.completed, "planned": baseline.rounds}
    if not baseline.completed or beside.refused:
        return found | {"why": beside.why}
    other, others = baseline.rows()
    if others is None or others.measure != measure:
        return found | {"why": "the local-only model has no finite figures of these rows"}
    found |= {"alone": getattr(other, measure), "alone_auroc": others.auroc}
    if beside.why is not None:
        return found | {"why": beside.why}
    return found | vars(find_gain(joined, others.values, most_is_best=measure == "accuracy"))
