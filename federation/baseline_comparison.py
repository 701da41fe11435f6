"""Whether joining was worth it: comparing a peer's model with one that was trained alone, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.federation.paired_bootstrap import find_gain
from dpeer.results.card import make_card, measured
from dpeer.results.files import CARD, CARD_PAGE, MODEL, ROWS, SUMMARY, read_rows, write_json, write_rows
from dpeer.results.reading import read_object, read_peer_summary
from dpeer.results.records import gap
from dpeer.results.worth import NOTHING_RECEIVED, as_entry, majority

if TYPE_CHECKING:
    from dpeer.federation.local_baseline import AloneBeside
    from dpeer.training import Evaluation, TorchLearner
    from dpeer.training.local_baseline import Alone
    from dpeer.training.per_row_metrics import Rows


def conclude_worth(
    folder: Path,
    learner: TorchLearner,
    beside: AloneBeside | None,
    facts: Mapping[str, Any],
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
    *,
    diverged: bool,
) -> None:
    """Measure the model that a done peer has kept row by row, and compare it with what it would have alone.

    The figure of each row goes to the rank's folder, what follows from them into its summary.

    Args:
        folder: The rank's folder.
        learner: The peer's.
        beside: What was trained alone; None where nothing was.
        facts: What the summary says about the run besides its results.
        stopped: Whether to leave the comparison out.
        tell: Gets a line before it takes long.
        diverged: Whether the peer's training has diverged: then there is nothing to compare.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
        OSError: The folder cannot be written.
    """
    summary = read_object(folder / SUMMARY)
    # Who has mixed no body has trained alone itself: there is nothing to compare, nor to weigh.
    alone_anyway = learner.shares and summary.get("rounds_mixed") == 0
    if beside is not None:
        beside.finish(lambda: diverged or alone_anyway or stopped(), tell)
        if alone_anyway and beside.alone is not None:
            beside.why = NOTHING_RECEIVED
    found, rows = learner.rows()
    on = str(facts["settings"]["evaluate_on"])
    (folder / ROWS).unlink(missing_ok=True)
    if rows is not None:
        write_rows(folder, rows.measure, rows.values)
    entry = {"on": on, "rounds_mixed": summary.get("rounds_mixed"), "validation_loss": learner.best_loss}
    entry |= _compared(found, rows, learner, beside, facts, diverged=diverged)
    compared = not diverged and beside is not None and beside.why is None
    write_worth(folder, summary, entry, beside.alone if beside is not None and compared else None, facts)


def write_worth(
    folder: Path, summary: Mapping[str, Any], entry: Mapping[str, Any], alone: Alone | None, facts: Mapping[str, Any]
) -> None:
    """Write the comparison into a rank's summary, and keep the better model if validation data have chosen both rounds.

    Args:
        folder: The rank's folder.
        summary: Its summary so far.
        entry: What was found of both models.
        alone: The model that was trained alone, to its end; None if there is none.
        facts: What the summary says about the run besides its results.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
        OSError: The folder cannot be written.
    """
    written, found = dict(summary), dict(entry)
    if alone is not None:
        found |= _weighed(found.get("validation_loss"), alone)
        if found.get("kept") == "alone":
            written |= _keep_alone(folder, alone, facts, summary)
    accuracy = found.get("alone") if found.get("measure") == "accuracy" else None
    write_json(folder / SUMMARY, {**written, "accuracy_alone": accuracy, "worth": as_entry(**found)})


def _weighed(joined: float | None, alone: Alone) -> dict[str, Any]:
    """Which of the two models the validation data find better; empty where they have chosen neither's round."""
    alone.finish()
    other = alone.learner.best_loss
    if joined is None or other is None:
        return {}
    return {"alone_validation_loss": other, "kept": "alone" if other < joined else "joined"}


def _keep_alone(folder: Path, alone: Alone, facts: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    """Write the model that was trained alone, with its card, in place of the joined one; what the summary says of it.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
        OSError: The folder cannot be written.
    """
    learner, found = alone.learner, alone.rows()[0]
    training = learner.measure_training_accuracy() if facts["settings"]["training_accuracy"] else None
    card = learner.card()
    said = {
        "kept_round": learner.best_round, "kept_point": "alone", "measured": measured(card),
        "accuracy": found.accuracy, "test_loss": found.test_loss, "metrics": dict(found.metrics),
        "training_accuracy": training, "generalization_gap": gap(training, found.accuracy),
    }  # fmt: skip
    learner.write_model(folder / MODEL)
    write_json(folder / CARD, make_card(facts, card, {**summary, **said}))
    (folder / CARD_PAGE).unlink(missing_ok=True)
    return said


def _compared(
    found: Evaluation,
    rows: Rows | None,
    learner: TorchLearner,
    beside: AloneBeside | None,
    facts: Mapping[str, Any],
    *,
    diverged: bool,
) -> dict[str, Any]:
    if diverged or rows is None:
        return {"why": "training has diverged" if diverged else "the task's figures are no means over its rows"}
    of_accuracy = rows.measure == "accuracy"
    own: dict[str, Any] = {
        "measure": rows.measure, "rows": len(rows.values), "joined": getattr(found, rows.measure),
        "constant": majority(facts["class_counts"], facts["evaluated_class_counts"]) if of_accuracy
        else learner.constant_loss(),
        "auroc": rows.auroc,
    }  # fmt: skip
    return own if beside is None else own | compared_with(beside, rows.measure, rows.values)


def compared_with(beside: AloneBeside, measure: str, joined: Sequence[float]) -> dict[str, Any]:
    """What an entry `worth` says of the model that was trained alone.

    Args:
        beside: That model, trained as far as it will be.
        measure: accuracy or test_loss.
        joined: The kept model's figure of each row.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
    """
    alone = beside.alone
    if alone is None or beside.why == NOTHING_RECEIVED:
        return {"why": beside.why}
    found: dict[str, Any] = {"algorithm": "local", "rounds": alone.completed, "planned": alone.rounds}
    if not alone.completed:
        return found | {"why": beside.why}
    other, others = alone.rows()
    if others is None or others.measure != measure:
        return found | {"why": "the model that was trained alone has no finite figures of these rows"}
    found |= {"alone": getattr(other, measure), "alone_auroc": others.auroc}
    if beside.why is not None:
        return found | {"why": beside.why}
    return found | vars(find_gain(joined, others.values, most_is_best=measure == "accuracy"))


def compare_folders(folder: Path, other: Path, algorithm: str) -> Mapping[str, Any] | None:
    """Compare a rank of one run with the same rank of another, which trained the same peers with `algorithm`.

    Returns:
        An entry `worth`; None if a run has left no figures of its rows, or of other rows.
    """
    mine, theirs = read_rows(folder), read_rows(other)
    own, others = read_peer_summary(folder), read_peer_summary(other)
    if mine is None or theirs is None or own is None or others is None:
        return None
    (measure, joined), (same, alone) = mine, theirs
    if measure != same or len(joined) != len(alone) or not joined:
        return None
    of_accuracy = measure == "accuracy"
    told: dict[str, Any] = vars(find_gain(joined, alone, most_is_best=of_accuracy))
    if own.body_parameters and own.rounds_mixed == 0:
        told = {"why": NOTHING_RECEIVED}
    constant = own.worth.constant if own.worth else None
    return as_entry(
        measure=measure, on=own.settings.get("evaluate_on"), rows=len(joined),
        joined=math.fsum(joined) / len(joined), alone=math.fsum(alone) / len(alone), constant=constant,
        auroc=own.worth.auroc if own.worth else None, alone_auroc=others.worth.auroc if others.worth else None,
        algorithm=algorithm, rounds=others.completed_rounds, planned=others.rounds, rounds_mixed=own.rounds_mixed,
        **told,
    )  # fmt: skip
