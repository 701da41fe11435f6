"""Prometheus metrics of a status document, in the text format that a scraper asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from dpeer.federation.status_document import Document
from dpeer.peer.core.membership import Status
from dpeer.peer.snapshot import Phase

_LIVENESS = tuple(status.value for status in Status)
_PHASES = get_args(Phase)

_GAUGES = {
    "rounds": ("rounds", "Rounds of the run"),
    "completed": ("completed_rounds", "Rounds that the peer has completed"),
    "quorum": ("quorum_rounds", "Rounds that a quorum has completed"),
    "waiting_seconds": ("waiting_seconds", "Seconds for which the peer has waited; 0 where it does not wait"),
    "sits_out": ("sits_out", "Whether the peer sits rounds out, because the others went on without it"),
    "drains": ("drains", "Whether the peer leaves when its round is complete"),
    "round_seconds": ("round_seconds", "Mean seconds of the last ten rounds"),
    "left_seconds": ("remaining_seconds", "Seconds that the rounds left will take at that pace"),
    "disagreement": ("disagreement", "Relative distance of the own released body to the mix of the last round"),
    "line_share": (
        "line_wait_ratio",
        "Share of the last round in which the peer waited for bodies that were coming in",
    ),
    "epsilon": ("epsilon", "Privacy loss so far"),
    "delta": ("delta", "The delta of epsilon"),
    "disk_free": ("disk_free_bytes", "Bytes that the folder's disk had left when a round was last saved"),
    "age_seconds": ("status_age_seconds", "Seconds since the event loop last stated its status"),
}
"""By field of a peer, the name and help of its gauge."""

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
"""By a figure of the history, the name and help of its gauge."""


def expose(document: Document, accept: str, *, process: bool) -> tuple[bytes, str]:
    """The metrics of all peers in a status document.

    Args:
        document: The status document.
        accept: The request's header Accept, which chooses between Prometheus' text and OpenMetrics.
        process: Whether the document is of this process, whose memory and CPU time are listed then, too.

    Returns:
        The text, and its content type.
    """
    registry = CollectorRegistry()
    registry.register(_Peers(document))
    if process:
        ProcessCollector(registry=registry)
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Peers(Collector):
    """All metrics of a document's peers, each family once."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        by_rank: dict[str, Mapping[str, Any]] = {}  # a scraper takes none of the metrics if a series is there twice
        for peer in self._document["peers"]:
            by_rank.setdefault(_rank(peer), peer)
        for rank, peer in by_rank.items():
            _add(families, peer, rank, float(self._document["time"]))
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


def _rank(peer: Mapping[str, Any]) -> str:
    return str(peer["rank"] if peer["running"] else peer["folder"].removeprefix("rank-"))


def _add(families: _Families, peer: Mapping[str, Any], rank: str, now: float) -> None:
    """Add one peer's samples; what it does not know has none."""
    families.gauge("up", "Whether the peer runs", peer["running"], rank=rank)
    families.gauge("ready", "Whether the peer takes part: it has mixed within its last rounds",
                   peer["unready"] is None, rank=rank)  # fmt: skip
    if not peer["running"]:
        return
    for field, (name, words) in _GAUGES.items():
        if peer.get(field) is not None:
            families.gauge(name, words, peer[field], rank=rank)
    for field, (name, words) in _TIMES.items():
        if peer.get(field) is not None:
            families.gauge(name, f"{words}, in Unix seconds", now - peer["age_seconds"] - peer[field], rank=rank)
    if peer.get("mixed_round") is not None:
        since = max(peer["completed"] - peer["mixed_round"] - 1, 0)
        families.gauge("rounds_since_mix", "Completed rounds since a neighbor's body was last mixed", since, rank=rank)
    for phase in (*_PHASES, *({peer["phase"]} - {*_PHASES})):
        families.gauge("phase", "1 for what the peer does now", phase == peer["phase"], rank=rank, phase=phase)
    for field in ("mixed", "missed"):
        words = "Bodies of neighbors in the last mix" if field == "mixed" else "Bodies that the last mix lacked"
        families.gauge(f"{field}_bodies", words, len(peer[field]), rank=rank)
    if (epoch := peer.get("epoch")) is not None:
        families.gauge("epoch", "The epoch of the present round", epoch["number"], rank=rank)
        families.gauge("members", "Members in that epoch", len(epoch["members"]), rank=rank)
    for field, (name, words) in _FIGURES.items():
        found = [line[field] for line in peer["history"] if line.get(field) is not None]
        if found:
            families.gauge(name, words, found[-1], rank=rank)
    _add_neighbors(families, peer, rank)
    for reason, count in sorted((peer.get("dropped") or {}).items()):
        families.counter("dropped_messages", "Messages that could not be used", count, rank=rank, reason=reason)


def _add_neighbors(families: _Families, peer: Mapping[str, Any], rank: str) -> None:
    awaited = {one["rank"] for one in peer["waits_for"]}
    for one in {one["rank"]: one for one in peer["neighbors"]}.values():
        of = {"rank": rank, "neighbor": one["rank"]}
        families.gauge("neighbor_waited_for", "Whether the peer waits for the neighbor", one["rank"] in awaited, **of)
        for word in _LIVENESS:
            families.gauge("neighbor_liveness", "1 for the neighbor's liveness", word == one["liveness"], **of,
                           liveness=word)  # fmt: skip
        if one["completed"] is not None:
            families.gauge("neighbor_round", "Rounds that the neighbor has completed", one["completed"], **of)
        if one["silent_seconds"] is not None:
            families.gauge("neighbor_silent_seconds", "Seconds since its last message", one["silent_seconds"], **of)
        families.counter("sent_bytes", "Bytes of messages to the neighbor", one["bytes_sent"], **of)
        families.counter("received_bytes", "Bytes of the neighbor's messages", one["bytes_received"], **of)
