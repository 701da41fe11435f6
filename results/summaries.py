"""The two kinds of summary.json as they are read: one peer's, and that of all peers together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpeer.results.faults import Faults, faults_of
from dpeer.results.json_fields import Keys, said
from dpeer.results.values import (
    by_class,
    figures,
    flag,
    number,
    numbers_by_rank,
    table,
    table_or_empty,
    text,
    texts,
    total,
    whole,
    wholes_by_rank,
    words,
)
from dpeer.results.worth import Worth, worth_by_rank, worth_of


def _status(value: Any) -> str:
    return "done" if value is None else str(value)


@dataclass(frozen=True)
class Summary(Keys):
    """The keys that both kinds have. None stands for a key that is missing, and for a number that is not finite."""

    status: str = said(_status)
    """done, stopped or failed; an older version wrote a summary only of a run that was done."""
    size: int | None = said(whole)
    topology: str | None = said(text)
    algorithm: str | None = said(text)
    task: str | None = said(text)
    partition: str | None = said(text)
    rounds: int | None = said(whole)
    """The number of rounds that were planned."""
    seed: int | None = said(total)
    spectral_gap: float | None = said(number)
    body_parameters: int | None = said(total)
    head_parameters: int | None = said(total)
    bytes_sent: int | None = said(total)
    wall_seconds: float | None = said(number)
    epsilon: float | None = said(number)
    delta: float | None = said(number)
    privacy: Mapping[str, Any] | None = said(table)
    """The costs of the releases; None without privacy."""
    settings: Mapping[str, Any] = said(table_or_empty)


@dataclass(frozen=True)
class PeerSummary(Summary):
    """One peer's results: summary.json in its rank's folder."""

    completed_rounds: int | None = said(whole)
    kept_round: int | None = said(whole)
    kept_point: str | None = said(text)
    """trained, mixed or finished; alone if the kept model is the one that was trained alone."""
    accuracy: float | None = said(number)
    """That of the kept model, as are the next two."""
    test_loss: float | None = said(number)
    metrics: Mapping[str, float | None] | None = said(figures)
    accuracy_trained: float | None = said(number)
    """At another point of the round whose joined model was chosen, as are the next ones."""
    accuracy_mixed: float | None = said(number)
    accuracy_finished: float | None = said(number)
    test_loss_mixed: float | None = said(number)
    metrics_mixed: Mapping[str, float | None] | None = said(figures)
    accuracy_alone: float | None = said(number)
    """That of the model trained alone; None where none was."""
    training_accuracy: float | None = said(number)
    """The kept model's on the training data, where that was asked for; then at the other points."""
    training_accuracy_trained: float | None = said(number)
    training_accuracy_mixed: float | None = said(number)
    generalization_gap: float | None = said(number)
    """Of the kept model: training accuracy less accuracy."""
    measured: Mapping[str, float | None] | None = said(figures)
    """What the kept model was measured by at the end, by name; intervals are in its card."""
    lost: Mapping[str, Any] = said(table_or_empty)
    """By the rank of a neighbor that rounds had to go on without, why."""
    rounds_mixed: int | None = said(whole)
    """In how many rounds it mixed a neighbor's body."""
    metrics_missing: int | None = said(whole)
    """How many completed rounds have no line in metrics.jsonl; None in files of an older version."""
    pauses: int | None = said(whole)
    """How often it paused, because it would have gone on without a quorum."""
    paused_seconds: float | None = said(number)
    late_bodies: int | None = said(whole)
    """How many bodies it released after all neighbors had completed their round, so that nobody mixed them."""
    left_behind: int | None = said(whole)
    """How many rounds this peer sat out because the others had gone past them; None in files of an older version."""
    training_samples: int | None = said(whole)
    class_counts: tuple[int, ...] | None = said(by_class)
    """Training samples by class; None where the task has no classes."""
    class_names: tuple[str, ...] | None = said(words)
    """The names of the classes in the order of both counts; None where the task has none, and of an older version."""
    diverged: bool | None = said(flag)
    """Whether loss or parameters were not finite at the end; None in files of an older version."""
    worth: Worth | None = said(worth_of)  # noqa: RUF009 - see `said`
    """What this peer has from joining; None where nothing was measured."""
    warnings: tuple[str, ...] = said(texts)
    """What the log has warned of, by kind."""
    log_dropped: int | None = said(whole)
    """Lines that the log did not write: nobody read them, or the disk was full; None in files of an older version."""
    evaluated_class_counts: tuple[int, ...] | None = said(by_class)
    """The same of what was evaluated."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read an object, of this version or an older one."""
        return super().of(_of_kept(content))


@dataclass(frozen=True)
class RunSummary(Summary):
    """The results of all peers: summary.json in the run folder. Tuples are by rank."""

    completed_rounds: tuple[int | None, ...] = said(wholes_by_rank)
    """None for a peer that left no summary."""
    accuracy: tuple[float | None, ...] = said(numbers_by_rank)
    """Of the kept models, as are losses and metrics."""
    accuracy_mixed: tuple[float | None, ...] = said(numbers_by_rank)
    test_loss: tuple[float | None, ...] = said(numbers_by_rank)
    test_loss_mixed: tuple[float | None, ...] = said(numbers_by_rank)
    metrics: Mapping[str, Any] = said(table_or_empty)
    """By name, a number or None for each peer."""
    consensus_distance: float | None = said(number)
    worth: tuple[Worth | None, ...] = said(worth_by_rank)
    """What each peer has from joining."""
    faults: Faults | None = said(faults_of)  # noqa: RUF009 - see `said`
    """What was planned to happen to peers and did; None where nothing was."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read an object, of this version or an older one."""
        return super().of(_of_kept(content))


def _of_kept(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A summary whose plain figures are those of the kept model.

    In an older version's they are of the model after mixing, and those of the kept one end with "_kept". Still older
    ones kept no other model than that.
    """
    if "accuracy_mixed" in content:
        return content
    found = dict(content)
    for name in ("accuracy", "test_loss", "metrics", "training_accuracy"):
        found[f"{name}_mixed"] = content.get(name)
        if f"{name}_kept" in content:
            found[name] = content[f"{name}_kept"]
    return found
