"""DIR/summary.json over all peers, and the table that a run ends with."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

from dpeer.cli.folders import rank_folder
from dpeer.cli.view import number, size
from dpeer.peer.records import write_json

_COMMON = ("size", "topology", "algorithm", "task", "partition", "rounds", "seed", "spectral_gap")


def collect(out: Path, ranks: int, seconds: float) -> dict[str, Any]:
    """Read every peer's summary and write DIR/summary.json; a peer that left none counts as null.

    Args:
        out: The run's folder.
        ranks: Number of peers.
        seconds: Wall time of the whole run.

    Returns:
        What was written.
    """
    peers = [_read(rank_folder(out, rank) / "summary.json") for rank in range(ranks)]
    there = [peer for peer in peers if peer is not None]
    first: Mapping[str, Any] = there[0] if there else {}
    accuracy = [peer["accuracy"] if peer else None for peer in peers]
    trained = [peer["accuracy_trained"] for peer in there if peer["accuracy_trained"] is not None]
    known = [value for value in accuracy if value is not None]
    epsilons = [peer["epsilon"] for peer in there if peer["epsilon"] is not None]
    summary = {
        **{name: first.get(name) for name in _COMMON},
        "status": "done" if len(there) == ranks and all(peer["status"] == "done" for peer in there) else "incomplete",
        "completed_rounds": [peer["completed_rounds"] if peer else None for peer in peers],
        "accuracy": accuracy,
        "accuracy_mean": fmean(known) if known else None,
        "accuracy_std": pstdev(known) if known else None,
        "accuracy_min": min(known) if known else None,
        "accuracy_trained_mean": fmean(trained) if trained else None,
        "consensus_distance": _consensus_distance(out, [peer["rank"] for peer in there], first),
        "body_parameters": first.get("body_parameters"),
        "head_parameters": first.get("head_parameters"),
        "bytes_sent": sum(peer["bytes_sent"] for peer in there),
        "wall_seconds": round(seconds, 3),
        "epsilon": max(epsilons) if epsilons else None,
        "delta": first.get("delta"),
        "lost": {str(peer["rank"]): peer["lost"] for peer in there if peer["lost"]},
        "settings": first.get("settings"),
    }
    write_json(out / "summary.json", summary)
    return summary


def wall_seconds(out: Path) -> float:
    """How long an earlier part of the run took, from its summary; 0 if there is none."""
    earlier = _read(out / "summary.json")
    return float(earlier["wall_seconds"]) if earlier else 0.0


def show(console: Console, summary: Mapping[str, Any], out: Path, baseline: Mapping[str, Any] | None) -> None:
    """Print how the peers did, beside a baseline if there is one, and where the files are."""
    console.print(f"{summary['algorithm']} after {summary['rounds']} rounds: accuracy on each peer's own test data")
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("accuracy", justify="right")
    if baseline:
        table.add_column(f"{baseline['algorithm']}", justify="right")
        table.add_column("gain", justify="right")
    for rank, accuracy in enumerate(summary["accuracy"]):
        table.add_row(
            str(rank), number(accuracy), *_against(accuracy, baseline["accuracy"][rank] if baseline else None, baseline)
        )
    table.add_section()
    mean = summary["accuracy_mean"]
    table.add_row("mean", number(mean), *_against(mean, baseline["accuracy_mean"] if baseline else None, baseline))
    console.print(table)
    facts = [
        f"body of {summary['body_parameters']:,} parameters gossiped, "
        f"head of {summary['head_parameters']:,} kept at home",
        f"{size(summary['bytes_sent'])} sent in all, {summary['wall_seconds']:.1f} s",
    ]
    if summary["consensus_distance"] is not None:
        facts.append(f"consensus distance {summary['consensus_distance']:.4f}")
    for rank, lost in summary["lost"].items():
        facts.append(f"rank {rank} lost " + ", ".join(f"rank {other} ({why})" for other, why in lost.items()))
    facts.append(f"summary {out / 'summary.json'}; per peer {out}/rank-R/: metrics.jsonl, model.safetensors, log.jsonl")
    for fact in facts:
        console.print(fact, highlight=False, markup=False, soft_wrap=True)


def _against(accuracy: float | None, other: float | None, baseline: Mapping[str, Any] | None) -> Sequence[str]:
    if baseline is None:
        return ()
    gain = None if accuracy is None or other is None else accuracy - other
    return (number(other), "-" if gain is None else f"{gain:+.4f}")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # killed before its end
    return content


def _consensus_distance(out: Path, ranks: list[int], facts: Mapping[str, Any]) -> float | None:
    """sqrt(mean over peers of ||u_i - mean u||^2), from the models' files.

    None where nothing is shared, and where each peer kept its best model: those are of different rounds.
    """
    names = facts.get("body_names")
    if not names or facts.get("settings", {}).get("keep") == "best":
        return None
    bodies = []
    for rank in ranks:
        path = rank_folder(out, rank) / "model.safetensors"
        if path.exists():
            tensors = load_file(path)
            bodies.append(np.concatenate([tensors[name].ravel().astype(np.float64) for name in names]))
    if not bodies:
        return None
    mean = np.mean(bodies, axis=0)
    return math.sqrt(fmean(float(np.sum((body - mean) ** 2)) for body in bodies))
