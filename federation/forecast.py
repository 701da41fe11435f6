"""Forecast of a run for `dpeer check`: time, bytes, memory and disk of a round, timed with the learner itself."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dpeer.federation.build import PeerParts
from dpeer.federation.config import RunConfig
from dpeer.peer.core.schedule import ListedGraph
from dpeer.peer.core.wire import federation_id
from dpeer.results.units import duration, size
from dpeer.training import TorchLearner

TRAINS = 3.0
"""Seconds for which training is timed."""

_COPIES = 4
"""Checkpoints that lie on disk at once, at most, and the model: the one that is written, two that are kept."""

_FIXED = 100_000
"""Bytes of a run's other files: card, summary, settings beside a checkpoint."""

_LINES = 2000
"""Bytes of files of a round beside the checkpoint: a line of metrics.jsonl, and lines of the log."""

_GRAPH_ROUNDS = 64
"""Of a graph that changes, rounds over which the mean is taken."""


def in_words(figures: Mapping[str, Any]) -> dict[str, str]:
    """A forecast in words, by subject."""
    ranks = ", ".join(map(str, figures["neighbors"]))
    many = "" if len(figures["neighbors"]) == 1 else "s"
    rounds, seconds, sent, received = (
        figures[name] for name in ("rounds", "round_seconds", "sent_bytes", "received_bytes")
    )
    train, evaluate = duration(figures["train_seconds"]), duration(figures["evaluate_seconds"])
    found = {
        "neighbors": f"rank{many} {ranks}" if ranks else "none: nothing is sent",
        "settings": f"{figures['settings'][:16]}: the same 16 digits at every site whose settings fit",
        "a round": f"about {duration(seconds)} if no neighbor is slower: {train} of training "
        f"({figures['timed_steps']:,} of {figures['steps']:,} minibatches timed), {evaluate} of evaluation",
        "the run": f"{rounds:,} rounds, about {duration(rounds * seconds)} at this pace",
    }
    if ranks:
        found["bytes"] = (
            f"{size(sent)} out and {size(received)} in a round ({size(figures['payload_bytes'])} a body), "
            f"{size(rounds * sent)} and {size(rounds * received)} in all"
        )
    if ranks and (exchange := figures["exchange_seconds"]) is not None:
        found["line"] = (
            f"a round's bodies take {duration(exchange)} at this bandwidth; a connection that breaks more often "
            "delivers none"
        )
    found["epsilon"] = figures["privacy"] or "not counted: --privacy is none (docs/privacy.md)"
    return found


def forecast(
    config: RunConfig, parts: PeerParts, scratch: Path, graph: ListedGraph | None, bandwidth: float | None
) -> dict[str, Any]:
    """Time a peer's training and evaluation, and measure its memory and checkpoint.

    Args:
        config: The peer's.
        parts: What `build` has made in a folder that is thrown away: the model is trained, and privacy charged there.
        scratch: An empty folder for a copy of a checkpoint.
        graph: The graph on which bodies are exchanged; None where it is not known, or nothing is sent.
        bandwidth: Of the line, in bits per second, each way; None for a forecast without it.

    Returns:
        The figures by name, plain JSON values: seconds and bytes of a round, `memory_bytes` of the process, at most
        `disk_bytes` of its files; `exchange_seconds`, for which a round's bodies travel, is None without a bandwidth.
        `settings` is equal where those are that peers compare; `privacy` is the guarantee in a line, None without, and
        `notes` are the other lines of the start.

    Raises:
        TaskError: The task's model, loss, metrics or data raised.
    """
    learner, how = parts.learner, config.training
    # At sample level the steps of a round are planned and charged together: none can be left out.
    train_seconds = train_for(learner, math.inf if config.privacy.privacy == "sample" else TRAINS)
    taken, asked = sum(learner.figures.steps), sum(learner.figures.steps_asked)
    began = time.perf_counter()
    learner.evaluate()
    _settle()
    # A round is measured before and after mixing.
    evaluate_seconds = 2 * (time.perf_counter() - began) / config.run.evaluate_every
    learner.copied()(scratch)
    copy = sum(path.stat().st_size for path in scratch.rglob("*") if path.is_file())
    sent, received = (0.0, 0.0) if graph is None else _edges(graph, config.rank, how.rounds)
    payload = learner.about.payload_bytes
    train_seconds = train_seconds * asked / taken if taken else 0.0
    return {
        "neighbors": [] if graph is None else list(graph.connections(config.rank)),
        "settings": federation_id(parts.fingerprint).hex(),
        "rounds": how.rounds,
        "train_seconds": train_seconds,
        "evaluate_seconds": evaluate_seconds,
        "round_seconds": train_seconds + evaluate_seconds,
        "steps": asked,
        "timed_steps": taken,
        "payload_bytes": payload,
        "sent_bytes": round(payload * sent),
        "received_bytes": round(payload * received),
        "exchange_seconds": None if bandwidth is None else 8 * payload * max(sent, received) / bandwidth,
        "memory_bytes": _memory() + round(payload * (2 * received + 2)),
        "disk_bytes": _COPIES * copy + _FIXED + _LINES * how.rounds,
        "privacy": next(iter(parts.promises), None),
        "notes": [note for note in parts.notes if note not in parts.promises[:1]],
    }


def train_for(learner: TorchLearner, seconds: float) -> float:
    """Train a round, or as much of one as takes about so many seconds; returns how long it took."""
    share = 1.0
    if seconds < math.inf:
        _timed(learner, 0.0)  # the first steps pay for what later ones find ready
        taken = _timed(learner, 0.0)
        share = min(1.0, seconds / taken * sum(learner.figures.steps) / max(1, sum(learner.figures.steps_asked)))
    return _timed(learner, share)


def _timed(learner: TorchLearner, share: float) -> float:
    began = time.perf_counter()
    learner.train(0, share=share)
    _settle()
    return time.perf_counter() - began


def _settle() -> None:
    """Wait until the device has done its work so far."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def _edges(graphs: ListedGraph, rank: int, rounds: int) -> tuple[float, float]:
    """How many bodies the peer sends and receives in a round, in the mean."""
    looked = [graphs.at(number, rank) for number in range(min(rounds, _GRAPH_ROUNDS))]
    sent = sum(len(one.out_neighbors) for one in looked)
    return sent / len(looked), sum(len(one.in_neighbors) for one in looked) / len(looked)


def _memory() -> int:
    """The most bytes that this process has had so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
