"""Records of one peer that has ended: what its folder tells of what left the site, each read by its own reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dpeer.exceptions import CheckpointError, ConfigurationError, DpeerError
from dpeer.peer import checkpoint
from dpeer.peer.core.member_list import MemberList, MemberListError
from dpeer.peer.core.wire import federation_id
from dpeer.peer.member_files import read_lists
from dpeer.privacy import ledger
from dpeer.results.files import CARD, DISAGREEMENT, LOG, METRICS, MODEL, RELEASED, SUMMARY, parse
from dpeer.results.json_fields import number, table_or_empty, texts, whole
from dpeer.results.records import Metrics
from dpeer.results.run_folders import rank_folders, read_metrics, read_object
from dpeer.results.summaries import PeerSummary
from dpeer.sections import names
from dpeer.topology.settings import GraphSettings, build_graph
from dpeer.training.state.file_names import REST

_SLACK = 16
"""Bytes by which the headers of two bodies may differ: numbers of rounds have one to five."""

Tensors = Mapping[str, tuple[int, ...]]
"""Shapes by name."""


@dataclass(frozen=True)
class SiteRecords:
    """What a peer's folder holds; None stands for what it does not hold, or not undamaged.

    Attributes:
        rank: The peer's.
        summary: Its summary.json.
        content: The same as it stands in the file.
        card: model.json; empty without it.
        metrics: The lines of metrics.jsonl.
        fingerprint: The settings that all peers have compared; empty without a checkpoint.
        federation: Their hash, hexadecimal; its first 16 digits are those of `dpeer check`.
        sent: The tensors of a body.
        stayed: Those of the head.
        extras: The values that travel beside the body, by name.
        body_bytes: The bytes of one copy of the last body, with its header.
        value_bytes: Those of its values alone.
        receivers: The ranks that bodies were for; with a member list in use, those of the last body.
        members: The member list in use; None where the federation file alone counts.
        charged: The privacy ledger; None without one.
        began: When the log begins (Unix seconds).
        ended: When it ends.
        local_socket: Whether the peer listened where its own host alone can reach it.
        released: The last round whose body was made, completed or not.
        troubles: Records that are missing or damaged, a sentence each.
    """

    rank: int
    summary: PeerSummary
    content: Mapping[str, Any]
    card: Mapping[str, Any]
    metrics: Metrics
    fingerprint: Mapping[str, Any]
    federation: str | None
    sent: Tensors | None
    stayed: Tensors | None
    extras: Mapping[str, Any]
    body_bytes: int | None
    value_bytes: int | None
    receivers: tuple[int, ...] | None
    members: MemberList | None
    charged: ledger.Record | None
    began: float | None
    ended: float | None
    local_socket: bool
    released: int | None
    troubles: tuple[str, ...]

    @property
    def releases(self) -> int | None:
        """The rounds in which a body was sent; None where not every round has a line in metrics.jsonl."""
        if len(self.metrics.by_round) != self.summary.completed_rounds:
            return None
        return sum(bool(line.bytes_sent) for line in self.metrics.by_round.values())

    @property
    def nothing_left(self) -> bool:
        """Whether the algorithm shares nothing, and no record tells of a byte."""
        sent = any(line.bytes_sent for line in self.metrics.by_round.values())
        return self.summary.body_parameters == 0 and self.summary.bytes_sent == 0 and not sent

    @property
    def copies(self) -> int | None:
        """How many copies of bodies were sent; None where not every round has a line, or lengths differ too much."""
        if self.body_bytes is None or self.releases is None:
            return None
        found = 0
        for line in self.metrics.by_round.values():
            sent = line.bytes_sent or 0
            copies = round(sent / self.body_bytes)
            slack = _SLACK * max(copies, 1)
            if abs(sent - copies * self.body_bytes) > slack or 2 * slack >= self.body_bytes:
                return None
            found += copies
        return found


def read(folder: Path) -> SiteRecords:
    """Read the records of a peer that has ended.

    Args:
        folder: The rank's folder.

    Raises:
        ConfigurationError: It is no rank's, its run has not ended, or its run was a simulation.
    """
    content = _summary(folder)
    summary, troubles = PeerSummary.of(content), list[str]()
    rank = whole(content.get("rank")) or 0
    log = _log(folder, troubles)
    events = {line.get("event"): line for line in log}
    if (folder.resolve().parent / DISAGREEMENT).exists() and "listening" not in events:
        raise ConfigurationError(f"--site {str(folder)!r}: nothing leaves a peer of dpeer simulate: name one of a run")
    fingerprint, receivers, frames, learner = _checkpoint(folder, troubles)
    members = _members(folder, troubles)
    metrics, card = read_metrics(folder), read_object(folder / CARD)
    if metrics.damaged:
        troubles.append(f"{METRICS}: {metrics.damaged} damaged lines are left out")
    missing = {*range(summary.completed_rounds or 0)} - metrics.by_round.keys()
    if missing:
        troubles.append(f"{METRICS}: the lines of {len(missing)} rounds are missing")
    if not card:
        troubles.append(f"{CARD} is missing or damaged")
    times = [time for line in log if (time := number(line.get("time"))) is not None]
    sent, stayed = _tensors(learner.get("body")), _tensors(learner.get("head"))
    if sent is None or stayed is None:
        sent, stayed = _from_model(folder, card, summary)
    return SiteRecords(
        rank=rank,
        summary=summary,
        content=content,
        card=card,
        metrics=metrics,
        fingerprint=fingerprint,
        federation=federation_id(dict(fingerprint)).hex() if fingerprint else None,
        sent=sent,
        stayed=stayed,
        extras=summary.extras,
        body_bytes=sum(frames) if frames else None,
        value_bytes=sum(frames[1:]) if frames else None,
        receivers=receivers if members else _planned(summary, rank, fingerprint.get("edges")) or receivers,
        members=members,
        charged=_ledger(folder, troubles) if summary.privacy is not None else None,
        began=min(times, default=None),
        ended=max(times, default=None),
        local_socket=str(events.get("listening", {}).get("address", "")).startswith("ipc:"),
        released=whole(read_object(folder / RELEASED).get("round")),
        troubles=tuple(troubles),
    )


def _summary(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ConfigurationError(f"--site {str(folder)!r} is no folder: name a rank's, such as dpeer-run/rank-0")
    if ranks := rank_folders(folder):
        raise ConfigurationError(
            f"--site {str(folder)!r} is a run's folder: name a rank's, such as {ranks[min(ranks)]}"
        )
    content = read_object(folder / SUMMARY)
    if whole(content.get("rank")) is not None:
        return content
    if (folder / SUMMARY).exists():
        raise ConfigurationError(f"--site {str(folder)!r}: its {SUMMARY} is damaged, or no peer's: put back a copy")
    if (folder / METRICS).exists() or (folder / checkpoint.FOLDER).exists():
        raise ConfigurationError(
            f"--site {str(folder)!r}: its run has not ended, or was killed (then `dpeer model` makes its {SUMMARY})"
        )
    raise ConfigurationError(f"--site {str(folder)!r} is no rank's folder: it holds no {SUMMARY}")


def _log(folder: Path, troubles: list[str]) -> list[dict[str, Any]]:
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found = [entry for line in lines if (entry := parse(line)) is not None]
    if not found:
        troubles.append(f"{LOG} is missing or damaged")
    return found


def _checkpoint(
    folder: Path, troubles: list[str]
) -> tuple[Mapping[str, Any], tuple[int, ...] | None, list[int], Mapping[str, Any]]:
    """Of the last completed round: the fingerprint, the receivers and lengths of its body, and the learner's part."""
    found, learner = checkpoint.latest(folder / checkpoint.FOLDER), dict[str, Any]()
    if found is None:
        troubles.append("checkpoint/ is missing")
        return {}, None, [], {}
    try:
        state = checkpoint.read(found, lambda part: learner.update(read_object(part / REST)))
    except CheckpointError:
        troubles.append("checkpoint/ is damaged")
        return {}, None, [], {}
    return state.fingerprint, state.receivers or None, [len(memoryview(one)) for one in state.released or ()], learner


def _members(folder: Path, troubles: list[str]) -> MemberList | None:
    try:
        return read_lists(folder)[0]
    except MemberListError:
        troubles.append("members.json is damaged")
        return None


def _ledger(folder: Path, troubles: list[str]) -> ledger.Record | None:
    try:
        return ledger.read(folder / ledger.FOLDER / ledger.LEDGER)
    except (OSError, CheckpointError):
        troubles.append("privacy/ledger.jsonl is missing or damaged: epsilon is that of the summary alone")
        return None


def _planned(summary: PeerSummary, rank: int, edges: Any) -> tuple[int, ...] | None:
    """The receivers of all completed rounds, from a graph whose digest is that of the run; None without one."""
    asked = {name: summary.settings[name] for name in names(GraphSettings) if name in summary.settings}
    try:
        graph = build_graph(GraphSettings.model_validate(asked))
        if graph.digest != edges:
            return None
        rounds = (summary.completed_rounds or 0) if graph.changing else 1
        return tuple(sorted({other for one in range(rounds) for other in graph.at(one, rank).out_neighbors}))
    except (DpeerError, OSError, ValueError):
        return None  # a graph of a file that is not here, say


def _tensors(manifest: Any) -> Tensors | None:
    """Names and shapes of a checkpoint's manifest."""
    listed = table_or_empty(manifest).get("parameters")
    if not isinstance(listed, list):
        return None
    return {str(one["name"]): tuple(one["shape"]) for one in listed}


def _from_model(folder: Path, card: Mapping[str, Any], summary: PeerSummary) -> tuple[Tensors | None, Tensors | None]:
    """Names and shapes from the model's file instead; None where they do not add up to what was sent and kept."""
    federated = "members.0." if card.get("blend") else ""
    try:
        with safe_open(folder / MODEL, framework="np") as file:
            names = [name for name in file.keys() if name.startswith(federated)]  # noqa: SIM118
            shapes = {name.removeprefix(federated): tuple(file.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError):
        return None, None
    heads = texts(card.get("head"))
    stayed = {name: shape for name, shape in shapes.items() if any(f"{name}.".startswith(f"{one}.") for one in heads)}
    sent = {name: shape for name, shape in shapes.items() if name not in stayed}
    for left, kept in ((sent, stayed), (shapes, {})):
        if (_values(left), _values(kept)) == (summary.body_parameters, summary.head_parameters):
            return left, kept
    return None, None


def _values(tensors: Tensors) -> int:
    return sum(math.prod(shape) for shape in tensors.values())
