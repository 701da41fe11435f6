"""Forecast of a run for `dpeer check`: time, bytes, memory and disk of a round, timed with the learner itself."""

from __future__ import annotations

import dataclasses
import math
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dpeer.federation.build import PeerParts
from dpeer.federation.config import RunConfig
from dpeer.peer.core.listed_graph import ListedGraph
from dpeer.peer.core.wire import federation_id
from dpeer.results.units import duration, rate, size
from dpeer.training import TorchLearner

TRAINS = 3.0
"""Seconds for which training is timed."""

_COPIES = 4
"""Checkpoints that lie on disk at once, at most, and the model: the one that is written, two that are kept."""

_FIXED = 100_000
"""Bytes of a run's other files: card, summary, settings beside a checkpoint."""

_LINES = 2000
"""Bytes of files of a round beside the checkpoint: a line of metrics.jsonl, and lines of the log."""

_SHOWN = (10e6, 100e6)
"""Rates of lines, in bits per second, that are shown where the user states none."""

_GRAPH_ROUNDS = 64
"""Of a graph that changes, rounds over which the mean is taken."""


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Attributes:
        neighbors: The ranks that the peer exchanges bodies with.
        settings: What the federation's messages carry of its settings, hexadecimal: equal where these are.
        rounds: The number of rounds.
        train_seconds: Of a round's local training.
        evaluate_seconds: Of a round's evaluations, in the mean.
        steps: The minibatches of a round.
        timed_steps: How many of them were timed.
        payload_bytes: Of one body, in a usual round.
        sent_bytes, received_bytes: Of a round's bodies.
        memory_bytes: Of the process, with bodies of neighbors.
        disk_bytes: Of the run's files, at most.
        training_samples: That the peer learns from.
        evaluated_samples: That it is measured on.
        exchange_seconds: For which a round's bodies travel at the stated bandwidth; None without one.
        waits_seconds: Of them, in which the peer does nothing else; 0 without a bandwidth.
        privacy: What privacy promises after the run, in a line; None without privacy.
        notes: The other lines that the start would print.
    """

    neighbors: tuple[int, ...]
    settings: str
    rounds: int
    train_seconds: float
    evaluate_seconds: float
    steps: int
    timed_steps: int
    payload_bytes: int
    sent_bytes: int
    received_bytes: int
    memory_bytes: int
    disk_bytes: int
    training_samples: int
    evaluated_samples: int
    exchange_seconds: float | None
    waits_seconds: float
    privacy: str | None
    notes: tuple[str, ...]

    @property
    def round_seconds(self) -> float:
        """The seconds of a round on this host; without the line where no bandwidth is stated."""
        return self.train_seconds + self.evaluate_seconds + self.waits_seconds

    def as_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return dataclasses.asdict(self) | {"round_seconds": self.round_seconds}

    def lines(self) -> Mapping[str, str]:
        """The forecast in words, by subject."""
        ranks = ", ".join(map(str, self.neighbors))
        many = "" if len(self.neighbors) == 1 else "s"
        train, evaluate = duration(self.train_seconds), duration(self.evaluate_seconds)
        waits = "" if self.exchange_seconds is None else f", {duration(self.waits_seconds)} of waiting for the line"
        found = {
            "neighbors": f"rank{many} {ranks}" if self.neighbors else "none: nothing is sent",
            "settings": f"{self.settings[:16]}: the same 16 digits at every site whose settings fit",
            "a round": f"about {duration(self.round_seconds)} if no neighbor is slower: {train} of training "
            f"({self.timed_steps:,} of {self.steps:,} minibatches timed), {evaluate} of evaluation{waits}",
            "the run": f"{self.rounds:,} rounds, about {duration(self.rounds * self.round_seconds)} at this pace",
        }
        if self.neighbors:
            found["bytes"] = (
                f"{size(self.sent_bytes)} out and {size(self.received_bytes)} in a round ({size(self.payload_bytes)} a "
                f"body), {size(self.rounds * self.sent_bytes)} and {size(self.rounds * self.received_bytes)} in all"
            )
            bits = 8 * max(self.sent_bytes, self.received_bytes)
            times = ", ".join(f"{duration(bits / one)} at {rate(one)}" for one in _SHOWN) + " (--bandwidth for yours)"
            if self.exchange_seconds is not None:
                times = f"{duration(self.exchange_seconds)} at this bandwidth"
            found["line"] = f"a round's bodies take {times}; a connection that breaks more often delivers none"
        found["epsilon"] = self.privacy or "not counted: --privacy is none (docs/privacy.md)"
        return found


def forecast(
    config: RunConfig, parts: PeerParts, scratch: Path, graph: ListedGraph | None, bandwidth: float | None
) -> Forecast:
    """Time a peer's training and evaluation, and measure its memory and checkpoint.

    Args:
        config: The peer's.
        parts: What `build` has made in a folder that is thrown away: the model is trained, and privacy charged there.
        scratch: An empty folder for a copy of a checkpoint.
        graph: The graph on which bodies are exchanged; None where it is not known, or nothing is sent.
        bandwidth: Of the line, in bits per second, each way; None for a forecast without it.

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
    exchange = None if bandwidth is None else 8 * payload * max(sent, received) / bandwidth
    return Forecast(
        neighbors=() if graph is None else graph.connections(config.rank),
        settings=federation_id(parts.fingerprint).hex(),
        rounds=how.rounds,
        train_seconds=train_seconds,
        evaluate_seconds=evaluate_seconds,
        steps=asked,
        timed_steps=taken,
        payload_bytes=payload,
        sent_bytes=round(payload * sent),
        received_bytes=round(payload * received),
        memory_bytes=_memory() + round(payload * (2 * received + 2)),
        disk_bytes=_COPIES * copy + _FIXED + _LINES * how.rounds,
        training_samples=learner.about.samples,
        evaluated_samples=parts.facts["evaluated_samples"],
        exchange_seconds=exchange,
        waits_seconds=0.0 if exchange is None else max(0.0, exchange - evaluate_seconds / 2),  # they travel meanwhile
        privacy=next(iter(parts.promises), None),
        notes=tuple(note for note in parts.notes if note not in parts.promises[:1]),
    )


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
