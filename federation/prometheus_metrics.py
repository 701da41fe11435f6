"""Prometheus metrics of a peer, from its snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dpeer.federation.readiness import STALE, unready
from dpeer.peer.core.membership import Status
from dpeer.peer.snapshot import Phase, Snapshot

_GAUGES = {
    "rounds": ("rounds", "Rounds of the run"),
    "completed": ("completed_rounds", "Rounds that the peer has completed"),
    "quorum": ("quorum_rounds", "Rounds that a quorum has completed"),
    "waiting_seconds": ("waiting_seconds", "Seconds for which the peer has waited; 0 where it does not wait"),
    "member_list": ("member_list", "Number of the member list in use; 0 is the federation file"),
    "next_list": ("member_list_waiting", "Number of a member list that waits for votes"),
    "sits_out": ("sits_out", "Whether the peer sits rounds out, because the others went on without it"),
    "drains": ("drains", "Whether the peer leaves when its round is complete"),
    "round_seconds": ("round_seconds", "Mean seconds of the last ten rounds"),
    "left_seconds": ("remaining_seconds", "Seconds that the rounds left will take at that pace"),
    "disagreement": ("disagreement", "Relative distance of the own released body to the mix of the last round"),
    "epsilon": ("epsilon", "Privacy loss so far"),
    "delta": ("delta", "The delta of epsilon"),
    "disk_free": ("disk_free_bytes", "Bytes that the folder's disk had left when a round was last saved"),
}
"""By field of a snapshot, the name and help of its gauge."""

_TIMES = {
    "mixed_seconds": ("last_mix_timestamp_seconds", "When a neighbor's body was last mixed"),
    "checkpoint_seconds": ("checkpoint_timestamp_seconds", "When the last checkpoint was written"),
}
"""By an age among the fields, the name and help of the time that it is counted from."""

_FIGURES = {
    "accuracy": ("accuracy", "Accuracy in the last evaluated round; none with privacy"),
    "test_loss": ("test_loss", "Test loss in the last evaluated round; none with privacy"),
    "train_loss": ("train_loss", "Training loss of the last round; none with privacy"),
}
"""By a figure of a round, the name and help of its gauge."""


def metrics(snapshot: Snapshot, figures: Mapping[str, float], age: float) -> Iterator[Metric]:
    """The metrics of a peer; what it does not know has none.

    Args:
        snapshot: Its snapshot.
        figures: The last values of accuracy and losses; empty with privacy.
        age: Seconds since the snapshot was taken.
    """
    families = _Families()
    rank = str(snapshot.rank)
    families.gauge("up", "Whether the peer runs", 1, rank=rank)
    families.gauge("ready", "Whether the peer takes part: it has mixed within its last rounds",
                   age <= STALE and unready(vars(snapshot)) is None, rank=rank)  # fmt: skip
    families.gauge("status_age_seconds", "Seconds since the event loop last stated its status", age, rank=rank)
    for field, (name, words) in _GAUGES.items():
        if (value := getattr(snapshot, field)) is not None:
            families.gauge(name, words, value, rank=rank)
    for field, (name, words) in _TIMES.items():
        if (value := getattr(snapshot, field)) is not None:
            families.gauge(name, f"{words}, in Unix seconds", time.time() - age - value, rank=rank)
    if snapshot.mixed_round is not None:
        since = max(snapshot.completed - snapshot.mixed_round - 1, 0)
        families.gauge("rounds_since_mix", "Completed rounds since a neighbor's body was last mixed", since, rank=rank)
    for phase in get_args(Phase):
        families.gauge("phase", "1 for what the peer does now", phase == snapshot.phase, rank=rank, phase=phase)
    families.gauge("mixed_bodies", "Bodies of neighbors in the last mix", len(snapshot.mixed), rank=rank)
    families.gauge("missed_bodies", "Bodies that the last mix lacked", len(snapshot.missed), rank=rank)
    for field, (name, words) in _FIGURES.items():
        if field in figures:
            families.gauge(name, words, figures[field], rank=rank)
    _add_neighbors(families, snapshot, rank)
    for reason, count in sorted(snapshot.dropped.items()):
        families.counter("dropped_messages", "Messages that could not be used", count, rank=rank, reason=reason)
    yield from families.all()


class _Families:
    """Families of metrics, made when they get their first sample."""

    def __init__(self) -> None:
        self._found: dict[str, Metric] = {}

    def gauge(self, name: str, words: str, value: float, **labels: object) -> None:
        """Add a gauge's sample."""
        family = self._found.setdefault(name, GaugeMetricFamily(f"dpeer_{name}", words, labels=[*labels]))
        family.add_metric([str(one) for one in labels.values()], value)  # type: ignore[attr-defined]

    def counter(self, name: str, words: str, value: float, **labels: object) -> None:
        """Add a counter's sample, whose name gets the ending `_total`."""
        family = self._found.setdefault(name, CounterMetricFamily(f"dpeer_{name}", words, labels=[*labels]))
        family.add_metric([str(one) for one in labels.values()], value)  # type: ignore[attr-defined]

    def all(self) -> Iterator[Metric]:
        """The families, in the order of their first samples."""
        yield from self._found.values()


def _add_neighbors(families: _Families, snapshot: Snapshot, rank: str) -> None:
    awaited = {one.rank for one in snapshot.waits_for}
    for one in snapshot.neighbors:
        of = {"rank": rank, "neighbor": one.rank}
        families.gauge("neighbor_waited_for", "Whether the peer waits for the neighbor", one.rank in awaited, **of)
        for word in Status:
            families.gauge("neighbor_liveness", "1 for the neighbor's liveness", word.value == one.liveness, **of,
                           liveness=word.value)  # fmt: skip
        if one.completed is not None:
            families.gauge("neighbor_round", "Rounds that the neighbor has completed", one.completed, **of)
        if one.silent_seconds is not None:
            families.gauge("neighbor_silent_seconds", "Seconds since its last message", one.silent_seconds, **of)
        families.counter("sent_bytes", "Bytes of messages to the neighbor", one.bytes_sent, **of)
        families.counter("received_bytes", "Bytes of the neighbor's messages", one.bytes_received, **of)
