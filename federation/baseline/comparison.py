"""Comparison of a peer's model with its local-only baseline, row by row, and the choice of the one to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.results.card import make_card, measured
from dpeer.results.effect import NOTHING_RECEIVED, Effect, find_gain, majority_accuracy
from dpeer.results.files import CARD, MODEL, ROWS, SUMMARY, write_json, write_rows
from dpeer.results.records import gap
from dpeer.results.run_folders import read_object

if TYPE_CHECKING:
    from torch import nn

    from dpeer.federation.baseline.training import BaselineTraining
    from dpeer.training import Evaluation, TorchLearner
    from dpeer.training.evaluation import Rows
    from dpeer.training.local_baseline import LocalBaseline


Federated = Callable[[], AbstractContextManager["nn.Module"]]
"""Opens the federated model."""

Entries = dict[str, Any]

UNFINISHED = "the local-only model is not trained to its end"
"""Why no blend is made without a baseline."""


def keep_one(
    folder: Path,
    summary: Mapping[str, Any],
    federated: Federated,
    validation_loss: float | None,
    baseline: LocalBaseline,
    facts: Mapping[str, Any],
) -> tuple[Entries, Entries]:
    """Choose the model to keep; one other than the federated one is written in its place, with its card.

    Validation data have chosen the federated one's round by `validation_loss`; None if they have not. The baseline is
    trained to its end.

    Returns:
        Entries of `worth`, and of the summary.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
        OSError: The folder cannot be written.
    """
    found, entries = _finish_and_compare(validation_loss, baseline), dict[str, Any]()
    if facts["settings"]["keep"] == "blend":
        blended, entries = _blended(folder, summary, federated, baseline, facts)
        found = {**blended, **found, "kept": "blend"} if entries else found | blended
    if found.get("kept") == "alone":
        entries = _keep_baseline(folder, summary, baseline, facts)
    return found, entries


def _finish_and_compare(joined: float | None, baseline: LocalBaseline) -> Entries:
    """Which of the two models the validation data find better; empty where they have chosen neither's round."""
    baseline.finish()
    other = baseline.learner.figures.best_loss
    if joined is None or other is None:
        return {}
    better = "alone" if other < joined else "joined"
    return {"validation_loss": joined, "alone_validation_loss": other, "kept": better}


def _keep_baseline(
    folder: Path, summary: Mapping[str, Any], baseline: LocalBaseline, facts: Mapping[str, Any]
) -> Entries:
    """Write the local-only model, with its card; returns its entries of the summary."""
    learner, found = baseline.learner, baseline.rows()[0]
    with learner.kept():
        asked = facts["settings"]["training_accuracy"]
        training = learner.selection.accuracy_on(learner.trainer.data) if asked else None
    card = learner.card()
    learner.write_model(folder / MODEL)
    entries = {"kept_round": learner.figures.best_round} | _entries("alone", found, training, card)
    write_json(folder / CARD, make_card(facts, card, {**summary, **entries}))
    return entries


def _blended(
    folder: Path, summary: Mapping[str, Any], federated: Federated, baseline: LocalBaseline, facts: Mapping[str, Any]
) -> tuple[Entries, Entries]:
    """Write a blend, with its card; returns its entries of `worth` and of the summary, which are empty without one."""
    from dpeer.training.state.kept_model import ModelSelection, input_shape  # torch
    from dpeer.training.use.blend import Blend, fit_on_validation

    learner, settings = baseline.learner, facts["settings"]
    trainer, compute = learner.trainer, learner.about.compute
    with federated() as joined, learner.kept() as alone:
        weighed = fit_on_validation(joined, alone, trainer.task, trainer.loss_function, compute)
        if isinstance(weighed, str):
            return {"no_blend": weighed}, {}
        weights = [weighed.weight, 1 - weighed.weight]
        blend = Blend((joined, alone), weights)
        measured_task = replace(trainer.task, model=blend, head=())
        selection = ModelSelection(measured_task, "last", settings["evaluate_on"], compute)
        found, outputs = selection.test(), selection.predictions()
        training = selection.accuracy_on(trainer.data) if settings["training_accuracy"] else None
        learner.keeping.write(folder / MODEL, blend)
        shape = input_shape(trainer.task)
    card = learner.keeping.about(outputs, shape)
    card |= {"blend": {"members": ["federated", "local-only"], "weights": weights}}
    entries = _entries("blend", found, training, card)
    write_json(folder / CARD, make_card(facts, card, {**summary, **entries}))
    names = ("validation_loss", "alone_validation_loss", "blend_validation_loss")
    measure = found.test_loss if found.accuracy is None else found.accuracy
    of_both = dict(zip(names, weighed.losses, strict=True))
    return {"weight": weighed.weight, "blend": measure, "no_blend": None, **of_both}, entries


def _entries(point: str, found: Evaluation, training: float | None, card: Mapping[str, Any]) -> Entries:
    """The entries of the summary on a model that is kept in place of the federated one."""
    return {
        "kept_point": point, "measured": measured(card),
        "accuracy": found.accuracy, "test_loss": found.test_loss, "metrics": dict(found.metrics),
        "training_accuracy": training, "generalization_gap": gap(training, found.accuracy),
    }  # fmt: skip


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
    write_json(folder / SUMMARY, {**written, "accuracy_alone": accuracy, "worth": asdict(Effect(**entry))})


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
    if rows.measure == "accuracy":
        constant = majority_accuracy(*counts)
    else:
        constant = learner.selection.constant_loss(learner.trainer.data)
    own = {
        "measure": rows.measure, "rows": len(rows.values), "joined": getattr(found, rows.measure),
        "constant": constant, "auroc": rows.auroc,
    }  # fmt: skip
    return own if beside is None else own | _compared_with(beside, rows.measure, rows.values)


def _compared_with(beside: BaselineTraining, measure: str, joined: Sequence[float]) -> dict[str, Any]:
    """The part of an entry `worth` that is about the baseline, which is trained as far as it will be.

    `joined` is the kept model's figure of each row, by `measure` (accuracy or test_loss).
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
