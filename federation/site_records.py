"""Records of one peer that has ended: what its folder tells of what left the site, each read by its own reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.federation.policy import check_graph
from dpeer.peer import checkpoint
from dpeer.peer.core.member_list import MemberList, MemberListError
from dpeer.peer.core.wire import federation_id
from dpeer.peer.member_files import read_lists
from dpeer.privacy import ledger
from dpeer.results.files import CARD, DISAGREEMENT, LOG, METRICS, RELEASED, SUMMARY, parse
from dpeer.results.json_fields import number, whole
from dpeer.results.run_folders import rank_folders, read_metrics, read_object
from dpeer.results.summaries import PeerSummary
from dpeer.sections import names
from dpeer.topology.settings import GraphSettings, build_graph
from dpeer.training.state.file_names import REST

Tensors = Mapping[str, tuple[int, ...]]
"""Shapes by name."""


@dataclass(frozen=True)
class SiteRecords:
    """What a peer's folder holds; `content` is its summary.json as it stands in the file, and `card` its model.json.

    Attributes:
        releases: The rounds in which a body was sent.
        federation: The hash of the fingerprint, hexadecimal; its first 16 digits are those of `dpeer check`.
        sent: The tensors of a body.
        stayed: Those of the head.
        body_bytes: The bytes of one copy of the last round's body, with its header; 0 where it sent none.
        value_bytes: Those of its values alone.
        receivers: The ranks that bodies were for; with a member list in use, those of the last round's body.
        members: The member list in use; None where the federation file alone counts.
        charged: The privacy ledger; None where nothing was charged.
        began: When the log begins (Unix seconds).
        ended: When it ends.
        local_socket: Whether the peer listened where its own host alone can reach it.
        released: The last round whose body was made, completed or not.
    """

    rank: int
    summary: PeerSummary
    content: Mapping[str, Any]
    size: int
    rounds: int
    completed_rounds: int
    body_parameters: int
    head_parameters: int
    bytes_sent: int
    card: Mapping[str, Any]
    releases: int
    fingerprint: Mapping[str, Any]
    federation: str
    sent: Tensors
    stayed: Tensors
    body_bytes: int
    value_bytes: int
    receivers: tuple[int, ...]
    members: MemberList | None
    charged: ledger.Record | None
    began: float
    ended: float
    local_socket: bool
    released: int | None

    @property
    def nothing_left(self) -> bool:
        """Whether the algorithm shares nothing, and no byte was sent."""
        return self.body_parameters == self.bytes_sent == 0


def read(folder: Path) -> SiteRecords:
    """Read the records of a peer that has ended.

    Args:
        folder: The rank's folder.

    Raises:
        ConfigurationError: It is no rank's, its run has not ended or was a simulation, or a record is missing or
            damaged; names it.
    """
    content = _summary(folder)
    summary = PeerSummary.of(content)
    counts = {name: getattr(summary, name) for name in _COUNTS}
    lacking = [name for name, count in counts.items() if count is None] + ["settings"] * (not summary.settings)
    if lacking:
        raise _damaged(folder, f"{SUMMARY}, which lacks {', '.join(lacking)},")
    card, log = read_object(folder / CARD), _log(folder)
    if not card:
        raise _damaged(folder, CARD)
    events = {line.get("event"): line for line in log}
    if (folder.resolve().parent / DISAGREEMENT).exists() and "listening" not in events:
        raise ConfigurationError(f"--site {str(folder)!r}: nothing leaves a peer of dpeer simulate: name one of a run")
    if not (times := [time for line in log if (time := number(line.get("time"))) is not None]):
        raise _damaged(folder, LOG)
    sent = _sent(folder, counts["completed_rounds"])
    if sum(sent) != counts["bytes_sent"]:
        raise _damaged(folder, f"{SUMMARY} or {METRICS}, which disagree on the bytes sent,")
    learner = dict[str, Any]()
    with _whole(folder, checkpoint.FOLDER):
        found = checkpoint.latest(folder / checkpoint.FOLDER) or folder / checkpoint.FOLDER
        state = checkpoint.read(found, lambda part: learner.update(read_object(part / REST)))
    with _whole(folder, "members.json"):
        members, _ = read_lists(folder)
    spent, charged = summary.privacy or {}, None
    if spent.get("steps") or spent.get("releases"):
        with _whole(folder, "privacy/ledger.jsonl"):
            charged = ledger.read(folder / ledger.FOLDER / ledger.LEDGER)
    frames = [len(memoryview(one)) for one in state.released or ()]
    return SiteRecords(
        rank=content["rank"],
        summary=summary,
        content=content,
        **counts,
        card=card,
        releases=sum(map(bool, sent)),
        fingerprint=state.fingerprint,
        federation=federation_id(dict(state.fingerprint)).hex(),
        sent=_tensors(learner["body"]),
        stayed=_tensors(learner["head"]),
        body_bytes=sum(frames),
        value_bytes=sum(frames[1:]),
        receivers=state.receivers if members else _planned(folder, content["rank"], summary, state),
        members=members,
        charged=charged,
        began=min(times),
        ended=max(times),
        local_socket=str(events.get("listening", {}).get("address", "")).startswith("ipc:"),
        released=whole(read_object(folder / RELEASED).get("round")),
    )


_COUNTS = ("size", "rounds", "completed_rounds", "body_parameters", "head_parameters", "bytes_sent")


def _damaged(folder: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"--site {str(folder)!r}: {what} is missing or damaged, and the page is made of complete records alone: put "
        "back a copy"
    )


@contextmanager
def _whole(folder: Path, what: str) -> Iterator[None]:
    """Context in which a record is read."""
    try:
        yield
    except (OSError, ValueError, CheckpointError, MemberListError) as error:
        raise _damaged(folder, what) from error


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


def _log(folder: Path) -> list[dict[str, Any]]:
    with _whole(folder, LOG):
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return [entry for line in lines if (entry := parse(line)) is not None]


def _sent(folder: Path, completed: int) -> list[int]:
    """The bytes that were sent in each completed round."""
    lines = read_metrics(folder).by_round
    sent = [lines[one].bytes_sent if one in lines else None for one in range(completed)]
    if missing := sent.count(None):
        raise _damaged(folder, f"{METRICS}, which lacks {missing} of {completed} rounds,")
    return [one or 0 for one in sent]


def _planned(folder: Path, rank: int, summary: PeerSummary, state: checkpoint.State) -> tuple[int, ...]:
    """The receivers of all completed rounds, from the graph."""
    asked = {name: summary.settings[name] for name in names(GraphSettings) if name in summary.settings}
    with _whole(folder, SUMMARY):
        settings = GraphSettings.model_validate(asked)
    check_graph(settings.topology)
    graph = build_graph(settings)
    if graph.digest != state.fingerprint.get("edges"):
        raise ConfigurationError(
            f"--site {str(folder)!r}: {settings.topology!r} is another graph than that of the run: put back its file"
        )
    rounds = state.next_round if graph.changing else 1
    return tuple(sorted({other for one in range(rounds) for other in graph.at(one, rank).out_neighbors}))


def _tensors(manifest: Mapping[str, Any]) -> Tensors:
    """Names and shapes of a checkpoint's manifest."""
    return {str(one["name"]): tuple(one["shape"]) for one in manifest["parameters"]}
