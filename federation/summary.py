"""DIR/summary.json: the results of all peers of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.peer.checkpoint import learner_folder
from dpeer.results.figures import metrics_by_rank
from dpeer.results.files import SUMMARY, rank_folder, write_json
from dpeer.results.run_folders import read_object, read_peer_summary, read_run_summary
from dpeer.results.summaries import PeerSummary
from dpeer.training.state.file_names import saved_body

_COMMON = ("size", "topology", "algorithm", "task", "partition", "rounds", "seed", "spectral_gap")


def collect(out: Path, ranks: int, seconds: float, status: str | None = None) -> dict[str, Any]:
    """Read every peer's summary and write DIR/summary.json; a peer that left none counts as null.

    Args:
        out: The run's folder.
        ranks: Number of peers.
        seconds: Wall time of the whole run.
        status: How the run has ended, where faults may have taken peers away; None where the peers' summaries say.
    """
    peers = [read_peer_summary(rank_folder(out, rank)) for rank in range(ranks)]
    there = {rank: peer for rank, peer in enumerate(peers) if peer is not None}
    first = next(iter(there.values()), PeerSummary())

    def each(name: str) -> list[Any]:
        return [getattr(peer, name, None) for peer in peers]

    known = [value for value in each("accuracy") if value is not None]
    by_rank = metrics_by_rank(peers)
    spent = _privacy([peer.privacy for peer in there.values() if peer.privacy])
    summary = {
        **{name: getattr(first, name) for name in _COMMON},
        "status": _status(peers) if status is None else status,
        "completed_rounds": each("completed_rounds"),
        "kept_round": each("kept_round"),
        "accuracy": each("accuracy"),
        "accuracy_mean": _mean(known),
        "accuracy_std": pstdev(known) if known else None,
        "accuracy_min": min(known, default=None),
        "kept_point": each("kept_point"),
        "accuracy_mixed": each("accuracy_mixed"),
        "accuracy_mixed_mean": _mean(each("accuracy_mixed")),
        # With privacy they stay in each peer's own folder: they are read off training records without noise.
        **{
            f"{name}_mean": None if spent else _mean(each(name)) for name in ("training_accuracy", "generalization_gap")
        },
        **{f"accuracy_{name}_mean": _mean(each(f"accuracy_{name}")) for name in ("finished", "alone", "trained")},
        "test_loss": each("test_loss"),
        "test_loss_mixed": each("test_loss_mixed"),
        "metrics": by_rank,
        "metrics_mean": {name: _mean(values) for name, values in by_rank.items()},
        "consensus_distance": _consensus_distance(out, there),
        "body_parameters": first.body_parameters,
        "head_parameters": first.head_parameters,
        "extras": first.extras,
        "bytes_sent": sum(peer.bytes_sent or 0 for peer in there.values()),
        "wall_seconds": round(seconds, 3),
        "epsilon": spent["epsilon"] if spent else None,
        "delta": first.delta,
        "privacy": spent,
        "diverged": [rank for rank, peer in there.items() if peer.diverged],
        "warnings": _warnings(there),
        "worth": _worth(there, ranks),
        "lost": {str(rank): peer.lost for rank, peer in there.items() if peer.lost},
        "settings": first.settings or None,
    }
    write_json(out / SUMMARY, summary)
    return summary


def renew(out: Path) -> None:
    """Collect DIR/summary.json anew from the peers' summaries, if it exists: a comparison was made later."""
    run, content = read_run_summary(out), read_object(out / SUMMARY)
    if run is not None and run.size is not None and "rank" not in content:
        collect(out, run.size, wall_seconds(out), run.status if run.settings.get("faults") else None)


def _warnings(peers: Mapping[int, PeerSummary]) -> dict[str, list[int]]:
    """The ranks whose logs warn of something, by kind."""
    kinds = {kind for peer in peers.values() for kind in peer.warnings}
    return {kind: [rank for rank, peer in peers.items() if kind in peer.warnings] for kind in sorted(kinds)}


def _worth(peers: Mapping[int, PeerSummary], ranks: int) -> list[dict[str, Any] | None] | None:
    """The effect of federating on each peer; None where no peer measured it."""
    found = {rank: peer.worth for rank, peer in peers.items() if peer.worth is not None}
    if not found:
        return None
    return [asdict(found[rank]) if rank in found else None for rank in range(ranks)]


def _status(peers: Sequence[PeerSummary | None]) -> str:
    """Failed if a peer left no summary; stopped if one was stopped; else done, by those that are members to the end."""
    if any(peer is None for peer in peers):
        return "failed"
    ended = [peer.status for peer in peers if peer and peer.status not in ("left", "evicted")]
    return "done" if ended.count("done") == len(ended) > 0 else "stopped"


def wall_seconds(out: Path) -> float:
    """The seconds that an earlier part of the run took, from its summary; 0 without one."""
    earlier = read_run_summary(out)
    return 0.0 if earlier is None else earlier.wall_seconds or 0.0


def _privacy(peers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The privacy entry of the peer that has spent most, without the figures of its last update."""
    if not peers:
        return None
    most = max(peers, key=lambda spent: math.inf if spent["epsilon"] is None else spent["epsilon"])
    return {name: value for name, value in most.items() if name in _SPENT}


_SPENT = (
    "guarantee", "epsilon", "delta", "releases", "mode", "steps", "sampling_rate", "noise_multiplier",
)  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _consensus_distance(out: Path, ranks: Iterable[int]) -> float | None:
    """sqrt(mean over peers of ||u_i - mean u||^2), from the checkpoints: what predicts may be another model.

    None where nothing is shared.
    """
    bodies = [body for rank in ranks if (body := _body(rank_folder(out, rank))) is not None]
    if not bodies:
        return None
    mean = np.mean(bodies, axis=0)
    return math.sqrt(fmean(float(np.sum((body - mean) ** 2)) for body in bodies))


def _body(folder: Path) -> NDArray[np.float64] | None:
    """A peer's body after its last completed round; None if it has no checkpoint, or shares nothing."""
    learner = learner_folder(folder)
    body = None if learner is None else saved_body(learner)
    return None if body is None else body.astype(np.float64)
