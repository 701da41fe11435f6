"""The results of a cell, read strictly from its run folder: every file must exist and be complete."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.results.effect import majority_accuracy
from dpeer.results.reading import Peer, read_run
from dpeer.results.records import Line

Measure = Literal["accuracy", "accuracy_mixed", "accuracy_trained"]
"""Of the model that a peer has kept; after mixing; or of the same peer after local training and before mixing."""

WINDOW = 5
"""Over how many evaluated rounds an accuracy is averaged before it is held against a target."""


@dataclass(frozen=True)
class Cost:
    """The rounds, gradients and bytes that it took to reach a target."""

    rounds: int
    samples: int
    busiest_bytes: int


class Result:
    """The metrics of all peers of one cell. An accuracy is NaN where training has diverged so far that none is left.

    Args:
        folder: The cell's folder.

    Attributes:
        rounds: The number of rounds.
        peers: The summary of each peer, by rank.

    Raises:
        OutputError: Some of its files are missing or damaged.
        ConfigurationError: The task has no accuracy.
    """

    def __init__(self, folder: Path) -> None:
        run = read_run(folder)
        if run is None or run.summary is None or run.summary.rounds is None:
            raise _unusable(folder, "has no summary.json of all peers that says so")
        found = list(run.peers.values())
        self.rounds, self._bytes_sent = run.summary.rounds, run.bytes_sent
        self.peers = [peer.summary for peer in found if peer.summary is not None]
        if len(self.peers) < run.size:
            raise _unusable(folder, f"has summaries of {len(self.peers)} of its {run.size} peers")
        if damaged := [peer.rank for peer in found if _is_damaged(peer)]:
            raise _unusable(folder, f"has a metrics.jsonl of rank {damaged[0]} that is empty or damaged")
        if len({tuple(peer.entries) for peer in found}) > 1:
            raise _unusable(folder, "has other rounds in metrics.jsonl of one peer than of another")
        self._lines = [tuple(peer.entries.values()) for peer in found]
        for summary, lines in zip(self.peers, self._lines, strict=True):
            if "accuracy" not in (lines[-1].metrics or {}):
                others = ", ".join(lines[-1].metrics or {}) or "none"
                raise ConfigurationError(
                    f"task {summary.task!r} has no metric named accuracy (it has: {others}), which comparisons are by"
                )

    @property
    def diverged(self) -> bool:
        """Whether the training loss of any peer has not been finite in a round that it trained in."""
        return any(line.diverged for lines in self._lines for line in lines)

    def accuracies(self, measure: Measure, last: int = 1) -> list[float]:
        """Every peer's mean accuracy over the evaluated ones of the last rounds, by rank.

        Args:
            measure: Which of the accuracies; a peer keeps one model, whatever the number of rounds.
            last: How many rounds count as the last ones; the very last is always evaluated.
        """
        if measure == "accuracy":
            return [_number(peer.accuracy) for peer in self.peers]
        return [fmean(_accuracy(line, measure) for line in self._last(lines, last)) for lines in self._lines]

    @property
    def keeps_another(self) -> bool:
        """Whether a peer has kept another model than that of its last round after mixing."""
        return any(peer.accuracy != lines[-1].accuracy for peer, lines in zip(self.peers, self._lines, strict=True))

    @property
    def finished(self) -> bool:
        """Whether the kept model of any peer was finished at home."""
        return any(peer.kept_point == "finished" for peer in self.peers)

    def others(self, last: int = 1) -> dict[str, float]:
        """Other metrics by name: the mean over the peers of each one's mean over the evaluated ones of the last rounds.

        NaN where a peer's is not finite. A metric that not all peers have is left out.
        """
        found = [[line.metrics or {} for line in self._last(lines, last)] for lines in self._lines]
        names = [name for name in found[0][-1] if name != "accuracy"]
        return {
            name: fmean(fmean(_number(line[name]) for line in lines) for lines in found)
            for name in names
            if all(name in line for lines in found for line in lines)
        }

    def evaluated(self, last: int) -> int:
        """The number of rounds that `accuracies` is the mean of."""
        return len(self._last(self._lines[0], last))  # all peers evaluate in the same rounds

    def _last(self, lines: Sequence[Line], last: int) -> list[Line]:
        return [line for line in lines if line.round >= self.rounds - last and _evaluated(line)]

    def curve(self, measure: Measure) -> list[tuple[int, float]]:
        """Round and mean accuracy over the peers, for the rounds that were evaluated."""
        together = zip(*self._lines, strict=True)
        return [
            (lines[0].round, fmean(_accuracy(line, measure) for line in lines))
            for lines in together
            if all(map(_evaluated, lines))
        ]

    def training(self, measure: Measure, last: int = 1) -> list[float] | None:
        """Every peer's training accuracy, of the rounds that `accuracies` is of; None where it was not measured.

        Args:
            measure: After mixing, before it, or of the kept model.
            last: How many rounds count as the last ones.
        """
        if measure == "accuracy":
            kept = [peer.training_accuracy for peer in self.peers]
            return [one for one in kept if one is not None] if None not in kept else None
        key = "training_accuracy" if measure == "accuracy_mixed" else "training_accuracy_trained"
        found = [[getattr(line, key) for line in self._last(lines, last)] for lines in self._lines]
        return None if any(None in values for values in found) else [fmean(values) for values in found]

    def at_round(self, measure: Measure, rounds: int) -> float | None:
        """The mean accuracy over the peers after so many rounds; None if the last of them was not evaluated."""
        return dict(self.curve(measure)).get(rounds - 1)

    def at_epsilon(self, measure: Measure, budget: float) -> tuple[int, float] | None:
        """The last evaluated round up to which no peer had spent more than a budget.

        Returns:
            The number of rounds up to it, and the mean accuracy over the peers; None without privacy, and where the
            first evaluated round has cost more.
        """
        spent = [_spent_by_round(lines) for lines in self._lines]
        within = [
            (number + 1, accuracy)
            for number, accuracy in self.curve(measure)
            if all(one is not None and one[number] <= budget for one in spent)
        ]
        return within[-1] if within else None

    def reached(self, measure: Measure, target: float) -> Cost | None:
        """The costs until the smoothed mean accuracy reached the target; None if it never did."""
        rounds = first_reached(self.curve(measure), target)
        if rounds is None:
            return None
        sent = [sum(line.bytes_sent or 0 for line in lines if line.round < rounds) for lines in self._lines]
        return Cost(rounds, self.samples(rounds), max(sent))

    def samples(self, rounds: int | None = None) -> int:
        """For how many samples a gradient was computed in the first rounds (or all), over all peers.

        A SAM step computes two. Gradients after the last round belong to that round.
        """
        lines = (line for lines in self._lines for line in lines if rounds is None or line.round < rounds)
        return sum(line.samples or 0 for line in lines)

    @property
    def spent(self) -> list[Mapping[str, Any]]:
        """The privacy costs of each peer's releases, by rank; empty without privacy."""
        return [peer.privacy for peer in self.peers if peer.privacy is not None and "epsilon" in peer.privacy]

    @property
    def sent(self) -> float:
        """Bytes sent by a peer, on average."""
        return self._bytes_sent / len(self.peers)

    @property
    def majority(self) -> float | None:
        """Mean over peers of the accuracy of always answering the peer's most frequent training class."""
        found = [majority_accuracy(peer.class_counts, peer.evaluated_class_counts) for peer in self.peers]
        known = [one for one in found if one is not None]
        return fmean(known) if len(known) == len(found) else None


def first_reached(curve: Sequence[tuple[int, float]], target: float) -> int | None:
    """The first round at which the mean of the last `WINDOW` evaluated rounds is at least the target.

    Args:
        curve: Round and accuracy, in order; NaN where training has diverged, which reaches nothing.
        target: The accuracy to reach.

    Returns:
        How many rounds it took; None if it was not reached. (Fewer than `WINDOW` rounds never reach it.)
    """
    for end in range(WINDOW, len(curve) + 1):
        if fmean(value for _, value in curve[end - WINDOW : end]) >= target:
            return curve[end - 1][0] + 1
    return None


def _is_damaged(peer: Peer) -> bool:
    return bool(peer.metrics.damaged) or not peer.entries or any(line.samples is None for line in peer.entries.values())


def _unusable(folder: Path, why: str) -> OutputError:
    return OutputError(f"{str(folder)!r} holds a run that is done but {why}: remove that folder to have it run again")


def _spent_by_round(lines: Sequence[Line]) -> dict[int, float] | None:
    """A peer's epsilon after each round; None without privacy. Null under privacy is not finite."""
    if all(line.privacy is None and line.epsilon is None for line in lines):
        return None
    return {line.round: math.inf if line.epsilon is None else line.epsilon for line in lines}


def _evaluated(line: Line) -> bool:
    # An accuracy that is null may also be one that is not finite.
    return line.metrics is not None


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _accuracy(line: Line, measure: Measure) -> float:
    return _number(line.accuracy if measure == "accuracy_mixed" else line.accuracy_trained)
