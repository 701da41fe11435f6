"""DIR/summary.json over all peers, and the table that a run ends with."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from safetensors import safe_open

from dpeer.cli.folders import rank_folder
from dpeer.cli.view import number, size
from dpeer.peer.checkpoint import latest
from dpeer.peer.records import cost, write_json

_MANY, _WORST = 40, 10
"""With more peers than that, only so many are printed: those that did worst."""
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
    known = [value for value in accuracy if value is not None]
    epsilons = [peer["epsilon"] for peer in there if peer["epsilon"] is not None]
    spent = _privacy([peer["privacy"] for peer in there if peer.get("privacy")])
    summary = {
        **{name: first.get(name) for name in _COMMON},
        "status": _status(peers),
        "completed_rounds": [peer["completed_rounds"] if peer else None for peer in peers],
        "kept_round": [peer.get("kept_round") if peer else None for peer in peers],
        "accuracy": accuracy,
        "accuracy_mean": _mean(accuracy),
        "accuracy_std": pstdev(known) if known else None,
        "accuracy_min": min(known) if known else None,
        "accuracy_trained_mean": _mean([peer["accuracy_trained"] for peer in there]),
        "test_loss": [peer.get("test_loss") if peer else None for peer in peers],
        "consensus_distance": _consensus_distance(out, [peer["rank"] for peer in there]),
        "body_parameters": first.get("body_parameters"),
        "head_parameters": first.get("head_parameters"),
        "bytes_sent": sum(peer["bytes_sent"] for peer in there),
        "wall_seconds": round(seconds, 3),
        "epsilon": spent["epsilon"] if spent else max(epsilons, default=None),
        "delta": first.get("delta"),
        "privacy": spent,
        "lost": {str(peer["rank"]): peer["lost"] for peer in there if peer["lost"]},
        "settings": first.get("settings"),
    }
    write_json(out / "summary.json", summary)
    return summary


def _status(peers: Sequence[Mapping[str, Any] | None]) -> str:
    """Failed if a peer left no summary; stopped if one was stopped; else done."""
    if any(peer is None for peer in peers):
        return "failed"
    return "done" if all(peer and peer["status"] == "done" for peer in peers) else "stopped"


def wall_seconds(out: Path) -> float:
    """How long an earlier part of the run took, from its summary; 0 if there is none."""
    earlier = _read(out / "summary.json")
    return float(earlier["wall_seconds"]) if earlier else 0.0


def show(console: Console, summary: Mapping[str, Any], out: Path, baseline: Mapping[str, Any] | None) -> None:
    """Print how the peers did, beside a baseline if there is one, and where the files are."""
    if all(rounds is None for rounds in summary["completed_rounds"]):
        return  # nobody lived to leave a result: there is nothing to show
    # A task may have no accuracy (a regression, say); a loss every task has.
    measure = "accuracy" if summary["accuracy_mean"] is not None else "test_loss"
    best = (summary.get("settings") or {}).get("keep") == "best"
    which = "best of" if best else "after"
    by = " by validation loss" if best else ""
    console.print(
        f"{summary['algorithm']} {which} {summary['rounds']} rounds{by}: {measure.replace('_', ' ')} on each peer's "
        "own test data",
        highlight=False,
        soft_wrap=True,
    )
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column(measure.replace("_", " "), justify="right")
    if best:
        table.add_column("round", justify="right")
    if baseline:
        table.add_column(f"{baseline['algorithm']}", justify="right")
        table.add_column("gain" if measure == "accuracy" else "difference", justify="right")
    values = summary[measure]
    others = baseline[measure] if baseline else [None] * len(values)
    for rank in _shown(values, higher_is_better=measure == "accuracy"):
        value, other = values[rank], others[rank]
        kept = summary["kept_round"][rank]
        rounds = ("-" if kept is None else str(kept + 1),) if best else ()
        table.add_row(str(rank), number(value), *rounds, *(_against(value, other) if baseline else ()))
    if len(values) > _MANY:
        table.add_row("...", f"{len(values) - _WORST} better", *("",) * best, *(("", "") if baseline else ()))
    table.add_section()
    mean, other = _mean(values), _mean(others)
    table.add_row("mean", number(mean), *("",) * best, *(_against(mean, other) if baseline else ()))
    console.print(table)
    for fact in _facts(summary, out):
        console.print(fact, highlight=False, markup=False, soft_wrap=True)


def _shown(values: Sequence[float | None], *, higher_is_better: bool) -> list[int]:
    """The ranks to print: all, or where they are many those that did worst."""
    ranks = list(range(len(values)))
    if len(values) <= _MANY:
        return ranks
    known = [-math.inf if value is None else value if higher_is_better else -value for value in values]
    return sorted(sorted(ranks, key=lambda rank: known[rank])[:_WORST])


def _facts(summary: Mapping[str, Any], out: Path) -> list[str]:
    facts = [
        f"{summary['body_parameters']:,} parameters gossiped, {summary['head_parameters']:,} kept at home",
        f"{size(summary['bytes_sent'])} sent in all, {summary['wall_seconds']:.1f} s",
    ]
    distance = summary["consensus_distance"]
    if distance is not None and math.isfinite(distance):
        facts.append(f"consensus distance {distance:.4f}")
    if summary.get("privacy") is not None:
        facts.append(privacy_line(summary["privacy"]))
    for rank, lost in summary["lost"].items():
        facts.append(f"rank {rank} lost " + ", ".join(f"rank {other} ({why})" for other, why in lost.items()))
    facts.append(f"summary {out / 'summary.json'}; per peer {out}/rank-R/: metrics.jsonl, model.safetensors, log.jsonl")
    return facts


def _privacy(peers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What the peer that has spent most has spent, without what is about its last update."""
    if not peers:
        return None
    most = max(peers, key=lambda spent: math.inf if spent["epsilon"] is None else spent["epsilon"])
    return {name: value for name, value in most.items() if name in _SPENT} | worst(peers)


def worst(spent: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The largest of each epsilon that anybody has spent; None where one has no bound."""
    names = [name for name in EPSILONS if any(name in one for one in spent)]
    found = {name: [one[name] for one in spent if name in one] for name in names}
    return {name: None if None in values else max(values) for name, values in found.items()}


EPSILONS = ("epsilon", "epsilon_neighbor", "epsilon_aggregate")


_SPENT = (
    "guarantee", "epsilon", "delta", "releases", "epsilon_neighbor", "epsilon_aggregate", "epsilon_of_this_run",
    "earlier_releases", "released_without_noise",
)  # fmt: skip


def privacy_line(spent: Mapping[str, Any]) -> str:
    """What a run has cost in words: whose data, against whom, and how much."""
    line = f"privacy of {spent['guarantee']}: {cost(spent)} at delta {spent['delta']:g}"
    line += f" after {spent['releases']} releases"
    if spent.get("released_without_noise"):
        line += " (earlier runs in this folder have released bodies without noise that protects)"
    elif earlier := spent.get("earlier_releases"):
        line += f" and {earlier} of earlier runs in this folder"
    return line


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _against(value: float | None, other: float | None) -> Sequence[str]:
    gain = None if value is None or other is None else value - other
    return (number(other), "-" if gain is None else f"{gain:+.4f}")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # killed before its end
    return content


def _consensus_distance(out: Path, ranks: list[int]) -> float | None:
    """sqrt(mean over peers of ||u_i - mean u||^2), from the checkpoints: what predicts may be another model.

    None where nothing is shared.
    """
    bodies = [body for rank in ranks if (body := _body(rank_folder(out, rank))) is not None]
    if not bodies:
        return None
    mean = np.mean(bodies, axis=0)
    return math.sqrt(fmean(float(np.sum((body - mean) ** 2)) for body in bodies))


def _body(folder: Path) -> NDArray[np.float64] | None:
    """A peer's body after its last completed round, as its learner saved it; None if there is none."""
    found = latest(folder / "checkpoint")
    if found is None:
        return None
    with safe_open(found / "learner" / "learner.safetensors", framework="np") as tensors:
        body: NDArray[np.float64] = tensors.get_tensor("last/body").astype(np.float64)
    return body if body.size else None
