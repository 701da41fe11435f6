"""The two kinds of summary.json as they are read: of one peer, and of all peers together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpeer.results.effect import Effect, effect_of, effects_by_rank
from dpeer.results.json_fields import (
    JsonFields,
    figures,
    flag,
    json_field,
    number,
    numbers_by_rank,
    table,
    table_or_empty,
    text,
    texts,
    total,
    whole,
    wholes,
    wholes_by_rank,
)


def _status(value: Any) -> str:
    return "done" if value is None else str(value)


@dataclass(frozen=True)
class Summary(JsonFields):
    """The keys that both kinds have. None stands for a key that is missing, and for a number that is not finite."""

    status: str = json_field(_status)
    """done, stopped or failed."""
    size: int | None = json_field(whole)
    topology: str | None = json_field(text)
    algorithm: str | None = json_field(text)
    task: str | None = json_field(text)
    partition: str | None = json_field(text)
    rounds: int | None = json_field(whole)
    """The number of rounds that were planned."""
    seed: int | None = json_field(total)
    spectral_gap: float | None = json_field(number)
    body_parameters: int | None = json_field(total)
    head_parameters: int | None = json_field(total)
    extras: Mapping[str, Any] = json_field(table_or_empty)
    """How many values travel beside the body, by name."""
    bytes_sent: int | None = json_field(total)
    wall_seconds: float | None = json_field(number)
    epsilon: float | None = json_field(number)
    delta: float | None = json_field(number)
    privacy: Mapping[str, Any] | None = json_field(table)
    """The costs of the releases; None without privacy."""
    settings: Mapping[str, Any] = json_field(table_or_empty)


@dataclass(frozen=True)
class PeerSummary(Summary):
    """One peer's results: summary.json in its rank's folder."""

    completed_rounds: int | None = json_field(whole)
    kept_round: int | None = json_field(whole)
    kept_point: str | None = json_field(text)
    """trained, mixed or finished; alone if the kept model is the local-only baseline."""
    accuracy: float | None = json_field(number)
    """That of the kept model, as are the next two."""
    test_loss: float | None = json_field(number)
    metrics: Mapping[str, float | None] | None = json_field(figures)
    accuracy_trained: float | None = json_field(number)
    """At another point of the round whose federated model was chosen, as are the next ones."""
    accuracy_mixed: float | None = json_field(number)
    accuracy_finished: float | None = json_field(number)
    test_loss_mixed: float | None = json_field(number)
    accuracy_alone: float | None = json_field(number)
    """That of the local-only baseline; None where none was trained."""
    training_accuracy: float | None = json_field(number)
    """The kept model's on the training data, where that was asked for; then at the other points."""
    training_accuracy_mixed: float | None = json_field(number)
    generalization_gap: float | None = json_field(number)
    """Of the kept model: training accuracy less accuracy."""
    measured: Mapping[str, float | None] | None = json_field(figures)
    """The kept model's figures at the end, by name; intervals are in its card."""
    lost: Mapping[str, Any] = json_field(table_or_empty)
    """By the rank of a neighbor that rounds had to go on without, why."""
    rounds_mixed: int | None = json_field(whole)
    """In how many rounds it mixed a neighbor's body."""
    pauses: int | None = json_field(whole)
    """How often it paused, because it would have gone on without a quorum."""
    late_bodies: int | None = json_field(whole)
    """How many bodies it released after all neighbors had completed their round, so that no peer mixed them."""
    left_behind: int | None = json_field(whole)
    """How many rounds this peer sat out because the others had gone past them."""
    training_samples: int | None = json_field(whole)
    class_counts: tuple[int, ...] | None = json_field(wholes)
    """Training samples by class; None where the task has no classes."""
    diverged: bool | None = json_field(flag)
    """Whether loss or parameters were not finite at the end."""
    worth: Effect | None = json_field(effect_of)  # noqa: RUF009 - see `json_field`
    """The effect of federating on this peer; None where nothing was measured."""
    warnings: tuple[str, ...] = json_field(texts)
    """The kinds of warnings in the log."""
    log_dropped: int | None = json_field(whole)
    """Lines that the log did not write: its reader was too slow, or the disk was full."""
    evaluated_class_counts: tuple[int, ...] | None = json_field(wholes)
    """Evaluated samples by class."""


@dataclass(frozen=True)
class RunSummary(Summary):
    """The results of all peers: summary.json in the run folder. Tuples are by rank."""

    completed_rounds: tuple[int | None, ...] = json_field(wholes_by_rank)
    """None for a peer that left no summary."""
    accuracy: tuple[float | None, ...] = json_field(numbers_by_rank)
    """Of the kept models, as are losses and metrics."""
    accuracy_mixed: tuple[float | None, ...] = json_field(numbers_by_rank)
    test_loss: tuple[float | None, ...] = json_field(numbers_by_rank)
    test_loss_mixed: tuple[float | None, ...] = json_field(numbers_by_rank)
    metrics: Mapping[str, Any] = json_field(table_or_empty)
    """By name, a number or None for each peer."""
    consensus_distance: float | None = json_field(number)
    worth: tuple[Effect | None, ...] = json_field(effects_by_rank)
    """The effect of federating on each peer."""
