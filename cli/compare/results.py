"""What a cell has found, read from the files it left."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from dpeer.cli.compare.statistics import first_reached
from dpeer.cli.folders import rank_folder
from dpeer.exceptions import ConfigurationError
from dpeer.peer.records import has_diverged
from dpeer.training import Algorithm, Hyperparameters, find_algorithm, make_options, options_among

Measure = Literal["accuracy", "accuracy_trained"]
"""After mixing, or the same peer after local training and before mixing."""

LATE = 10
"""Over how many of the last rounds the second figure is averaged: one round may be lucky, the best one always is."""


@dataclass(frozen=True)
class Cost:
    """What it took to reach a target."""

    rounds: int
    samples: int
    busiest_bytes: int


class Result:
    """The metrics of all peers of one cell. An accuracy is NaN where training has diverged so far that there is none.

    Args:
        folder: The cell's folder.

    Raises:
        ConfigurationError: The task has no accuracy.
    """

    def __init__(self, folder: Path) -> None:
        self.summary: Mapping[str, Any] = json.loads((folder / "summary.json").read_text())
        ranks = range(int(self.summary["size"]))
        self.peers = [json.loads((rank_folder(folder, rank) / "summary.json").read_text()) for rank in ranks]
        self._lines = [
            [json.loads(line) for line in (rank_folder(folder, rank) / "metrics.jsonl").read_text().splitlines()]
            for rank in ranks
        ]
        for lines in self._lines:
            if "accuracy" not in (lines[-1]["metrics"] or {}):
                there = ", ".join(lines[-1]["metrics"] or {}) or "none"
                raise ConfigurationError(
                    f"task {self.summary['task']!r} has no metric named accuracy (it has: {there}): there is nothing "
                    "to compare"
                )

    @property
    def diverged(self) -> bool:
        """Whether the training loss of any peer has not been finite in a round that it trained in."""
        return any(has_diverged(line) for lines in self._lines for line in lines)

    def last(self, measure: Measure) -> list[float]:
        """Every peer's accuracy after the last round, by rank."""
        return [_number(lines[-1][measure]) for lines in self._lines]

    def late(self, measure: Measure) -> list[float]:
        """Every peer's mean accuracy over the evaluated ones of the last `LATE` rounds, by rank."""
        return [fmean(_number(line[measure]) for line in self._late(lines)) for lines in self._lines]

    @property
    def late_rounds(self) -> int:
        """How many rounds `late` is the mean of."""
        return len(self._late(self._lines[0]))  # all peers evaluate in the same rounds

    def _late(self, lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        first = int(self.summary["rounds"]) - LATE
        return [line for line in lines if line["round"] >= first and _evaluated(line)]

    def curve(self, measure: Measure) -> list[tuple[int, float]]:
        """Round and mean accuracy over the peers, for the rounds that were evaluated."""
        together = zip(*self._lines, strict=True)  # all peers evaluate in the same rounds
        return [
            (lines[0]["round"], fmean(_number(line[measure]) for line in lines))
            for lines in together
            if all(map(_evaluated, lines))
        ]

    def reached(self, measure: Measure, target: float) -> Cost | None:
        """What it took until the smoothed mean accuracy was at the target; None if it never was."""
        rounds = first_reached(self.curve(measure), target)
        if rounds is None:
            return None
        sent = [sum(line["bytes_sent"] for line in lines if line["round"] < rounds) for lines in self._lines]
        return Cost(rounds, self.samples(rounds), max(sent))

    def samples(self, rounds: int | None = None) -> int:
        """For how many samples a gradient was computed in the first rounds (or all), over all peers.

        A SAM step computes two. What an algorithm does after the last round belongs to that round.
        """
        total = 0
        for peer, lines in zip(self.peers, self._lines, strict=True):
            active = sum(line["active"] for line in lines if rounds is None or line["round"] < rounds)
            total += active * self._a_round(peer)
            if rounds in (None, self.summary["rounds"]) and "finetune_epochs" in self._algorithm.settings():
                total += self._seen(peer, self._algorithm.options.finetune_epochs)
        return total

    def _a_round(self, peer: Mapping[str, Any]) -> int:
        """Gradients that a peer computes in a round: those of an epoch of each phase, times what the phases train."""
        h, gradients, samples = self._hyperparameters, self._algorithm.gradients, peer["training_samples"]
        body = round(gradients(h.model_copy(update={"body_epochs": 1, "head_epochs": 0})))
        head = round(gradients(h.model_copy(update={"body_epochs": 0, "head_epochs": 1})))
        if getattr(self._algorithm.options, "rho", None) == 0:  # then a SAM step is a plain one
            body, head = min(body, 1), min(head, 1)
        if not peer["head_parameters"]:
            head = 0  # a phase that has nothing to train is left out
        # Dis-PFL looks for new weights by the gradient of one more minibatch.
        screened = min(h.batch_size, samples) if "prune_rate" in self._algorithm.settings() else 0
        return body * self._seen(peer, h.body_epochs) + head * self._seen(peer, h.head_epochs) + screened

    def _seen(self, peer: Mapping[str, Any], epochs: int) -> int:
        """How many samples a phase goes through: whole epochs, or minibatches of which each epoch's last is short."""
        h, samples = self._hyperparameters, int(peer["training_samples"])
        if h.local_steps is None:
            return epochs * samples
        whole, rest = divmod(math.ceil(h.local_steps * epochs / h.body_epochs), math.ceil(samples / h.batch_size))
        return whole * samples + rest * h.batch_size

    @cached_property
    def _algorithm(self) -> Algorithm:
        found = find_algorithm(str(self.summary["algorithm"]))
        return found(make_options(found, options_among(found, self.peers[0]["settings"])))

    @cached_property
    def _hyperparameters(self) -> Hyperparameters:
        settings = self.peers[0]["settings"]  # all peers of a comparison are set alike
        return Hyperparameters(**{name: settings[name] for name in Hyperparameters.model_fields if name in settings})

    @property
    def sent(self) -> float:
        """Bytes sent by a peer, on average."""
        return float(self.summary["bytes_sent"]) / len(self.peers)

    @property
    def majority(self) -> float | None:
        """Mean over peers of the accuracy of always answering the peer's most frequent training class."""
        found = []
        for peer in self.peers:
            train, test = peer.get("class_counts"), peer.get("evaluated_class_counts")
            if not train or not test:
                return None
            most = train.index(max(train))
            found.append((test[most] if most < len(test) else 0) / sum(test))
        return fmean(found)


def _evaluated(line: Mapping[str, Any]) -> bool:
    # An accuracy that is null may also be one that is not finite.
    return line["metrics"] is not None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
