"""Model choice after a comparison: a peer keeps and writes the federated one, the local-only one, or a blend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.results.card import make_card, measured
from dpeer.results.files import CARD, MODEL, write_json
from dpeer.results.records import gap

if TYPE_CHECKING:
    from torch import nn

    from dpeer.training import Evaluation
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

    Args:
        folder: The rank's folder.
        summary: Its summary so far.
        federated: The federated model.
        validation_loss: What validation data have chosen its round by; None if they have not.
        baseline: The local-only model, trained to its end.
        facts: The entries of the summary on the run, besides its results.

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
    training = learner.measure_training_accuracy() if facts["settings"]["training_accuracy"] else None
    card = learner.card()
    learner.write_model(folder / MODEL)
    entries = {"kept_round": learner.figures.best_round} | _entries("alone", found, training, card)
    write_json(folder / CARD, make_card(facts, card, {**summary, **entries}))
    return entries


def _blended(
    folder: Path, summary: Mapping[str, Any], federated: Federated, baseline: LocalBaseline, facts: Mapping[str, Any]
) -> tuple[Entries, Entries]:
    """Write a blend, with its card; returns its entries of `worth` and of the summary, which are empty without one."""
    from dpeer.training.selection import ModelSelection  # torch
    from dpeer.training.state.kept_model import input_shape
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
