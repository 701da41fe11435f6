"""The two kinds of summary.json as they are read: of one peer, and of all peers together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, StrictBool

from dpeer.results.effect import Effect, effect_of, effects_by_rank
from dpeer.results.json_fields import Count, Figures, JsonFields, Number, Total


@dataclass(frozen=True)
class Summary(JsonFields):
    """The keys that both kinds have. None stands for a key that is missing, and for a number that is not finite."""

    status: str = "done"
    """done, stopped or failed."""
    size: Count | None = None
    topology: str | None = None
    algorithm: str | None = None
    task: str | None = None
    partition: str | None = None
    rounds: Count | None = None
    """The number of rounds that were planned."""
    seed: Total | None = None
    spectral_gap: Number | None = None
    body_parameters: Total | None = None
    head_parameters: Total | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    """How many values travel beside the body, by name."""
    bytes_sent: Total | None = None
    wall_seconds: Number | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    privacy: Mapping[str, Any] | None = None
    """The costs of the releases; None without privacy."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PeerSummary(Summary):
    """One peer's results: summary.json in its rank's folder."""

    completed_rounds: Count | None = None
    kept_round: Count | None = None
    kept_point: str | None = None
    """trained, mixed or finished; alone if the kept model is the local-only baseline."""
    accuracy: Number | None = None
    """That of the kept model, as are the next two."""
    test_loss: Number | None = None
    metrics: Figures | None = None
    accuracy_trained: Number | None = None
    """At another point of the round whose federated model was chosen, as are the next ones."""
    accuracy_mixed: Number | None = None
    accuracy_finished: Number | None = None
    test_loss_mixed: Number | None = None
    accuracy_alone: Number | None = None
    """That of the local-only baseline; None where none was trained."""
    training_accuracy: Number | None = None
    """The kept model's on the training data, where that was asked for; then at the other points."""
    training_accuracy_mixed: Number | None = None
    generalization_gap: Number | None = None
    """Of the kept model: training accuracy less accuracy."""
    measured: Figures | None = None
    """The kept model's figures at the end, by name; intervals are in its card."""
    lost: Mapping[str, Any] = field(default_factory=dict)
    """By the rank of a neighbor that rounds had to go on without, why."""
    rounds_mixed: Count | None = None
    """In how many rounds it mixed a neighbor's body."""
    pauses: Count | None = None
    """How often it paused, because it would have gone on without a quorum."""
    late_bodies: Count | None = None
    """How many bodies it released after all neighbors had completed their round, so that no peer mixed them."""
    left_behind: Count | None = None
    """How many rounds this peer sat out because the others had gone past them."""
    training_samples: Count | None = None
    class_counts: tuple[Count, ...] | None = None
    """Training samples by class; None where the task has no classes."""
    diverged: StrictBool | None = None
    """Whether loss or parameters were not finite at the end."""
    worth: Annotated[Effect | None, BeforeValidator(effect_of)] = None
    """The effect of federating on this peer; None where nothing was measured."""
    warnings: tuple[str, ...] = ()
    """The kinds of warnings in the log."""
    evaluated_class_counts: tuple[Count, ...] | None = None
    """Evaluated samples by class."""


@dataclass(frozen=True)
class RunSummary(Summary):
    """The results of all peers: summary.json in the run folder. Tuples are by rank."""

    completed_rounds: tuple[Count | None, ...] = ()
    """None for a peer that left no summary."""
    accuracy: tuple[Number | None, ...] = ()
    """Of the kept models, as are losses and metrics."""
    accuracy_mixed: tuple[Number | None, ...] = ()
    test_loss: tuple[Number | None, ...] = ()
    test_loss_mixed: tuple[Number | None, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """By name, a number or None for each peer."""
    consensus_distance: Number | None = None
    worth: Annotated[tuple[Effect | None, ...], BeforeValidator(effects_by_rank)] = ()
    """The effect of federating on each peer."""
