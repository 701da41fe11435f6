"""Results of cells, read strictly from their folders, and statistics of one row over seeds and peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from scipy.stats import t as student

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.results.effect import majority_accuracy
from dpeer.results.records import RoundRecord
from dpeer.results.run_folders import PeerFolder, read_run

Measure = Literal["accuracy", "accuracy_mixed", "accuracy_trained"]
"""Of the model that a peer has kept; after mixing; or of the same peer after local training and before mixing."""


class Result:
    """The metrics of all peers of one cell. An accuracy is NaN where training has diverged so far that none is left.

    Raises:
        OutputError: Some of its files are missing or damaged.
        ConfigurationError: The task has no accuracy.
    """

    def __init__(self, folder: Path) -> None:
        run = read_run(folder)
        if run is None or run.summary is None or run.summary.rounds is None:
            raise _unusable(folder, "has no summary.json of all peers that says so")
        found = list(run.peers.values())
        self.algorithm, self._bytes_sent = run.summary.algorithm, run.bytes_sent
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

    def accuracies(self, measure: Measure) -> list[float]:
        """Every peer's accuracy in the last round, or of the model that it has kept, by rank."""
        if measure == "accuracy":
            return [_number(peer.accuracy) for peer in self.peers]
        return [_accuracy(lines[-1], measure) for lines in self._lines]  # the last round is always evaluated

    @property
    def course(self) -> tuple[tuple[float | None, ...], ...]:
        """Losses and accuracies of every peer in every round: of two runs equal only if they compute the same."""
        return tuple(
            (line.train_loss, line.test_loss, line.accuracy, line.accuracy_trained)
            for lines in self._lines
            for line in lines
        )

    @property
    def keeps_another(self) -> bool:
        """Whether a peer has kept another model than that of its last round after mixing."""
        return any(peer.accuracy != lines[-1].accuracy for peer, lines in zip(self.peers, self._lines, strict=True))

    @property
    def finished(self) -> bool:
        """Whether the kept model of any peer was finished at home."""
        return any(peer.kept_point == "finished" for peer in self.peers)

    def others(self) -> dict[str, float]:
        """The mean over the peers of the last round's other metrics, by name.

        NaN where a peer's is not finite. A metric that not all peers have is left out.
        """
        found = [lines[-1].metrics or {} for lines in self._lines]
        return {
            name: fmean(_number(metrics[name]) for metrics in found)
            for name in found[0]
            if name != "accuracy" and all(name in metrics for metrics in found)
        }

    def training(self, measure: Measure) -> list[float | None]:
        """Every peer's accuracy on its training data, of the same model as `accuracies`; None where not measured."""
        if measure == "accuracy":
            return [peer.training_accuracy for peer in self.peers]
        key = "training_accuracy" if measure == "accuracy_mixed" else "training_accuracy_trained"
        return [getattr(lines[-1], key) for lines in self._lines]

    def samples(self) -> int:
        """For how many samples a gradient was computed, over all peers; a SAM step computes two."""
        return sum(line.samples or 0 for lines in self._lines for line in lines)

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


def _is_damaged(peer: PeerFolder) -> bool:
    return bool(peer.metrics.damaged) or not peer.entries or any(line.samples is None for line in peer.entries.values())


def _unusable(folder: Path, why: str) -> OutputError:
    return OutputError(f"{str(folder)!r} holds a run that is done but {why}: remove that folder to have it run again")


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _accuracy(line: RoundRecord, measure: Measure) -> float:
    return _number(line.accuracy if measure == "accuracy_mixed" else line.accuracy_trained)


ResultsByRow = Mapping[str, Sequence[Result]]
"""By row, the results of one condition, one a seed, in the same order of seeds for all rows."""


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half the 95 % interval of independent values by Student's t; None for the half where a value is NaN."""
    count = len(values)
    if count < 2 or any(map(math.isnan, values)):
        return fmean(values), None
    return fmean(values), float(student.ppf(0.975, count - 1)) * stdev(values) / count**0.5


@dataclass(frozen=True)
class RowFigures:
    """One row's figures, all of the same rounds; NaN where training has left no accuracy.

    Attributes:
        worst_peer: The mean over seeds of the worst peer's.
        below_baseline: The share of peers below their own baseline, all peers of all seeds counting alike; None for the
            baseline itself, and without one.
        difference: The mean over seeds of the difference to the reference with the same seed; None for the reference
            itself.
        difference_half: Half its 95 % interval; None for the reference, and for a single seed.
    """

    mean: float
    worst_peer: float
    below_baseline: float | None
    difference: float | None
    difference_half: float | None


def figures(row: str, rows: ResultsByRow, measure: Measure, baseline: str | None, reference: str) -> RowFigures:
    """A row's figures."""
    found = {name: [result.accuracies(measure) for result in rows[name]] for name in {row, reference}}
    here = found[row]
    pairs = zip(here, found[reference], strict=True)
    difference = None if row == reference else interval([fmean(mine) - fmean(other) for mine, other in pairs])
    return RowFigures(
        fmean(map(fmean, here)),
        fmean(math.nan if any(map(math.isnan, values)) else min(values) for values in here),
        None if baseline in (None, row) else _below(here, [r.accuracies(measure) for r in rows[baseline]]),
        *(difference or (None, None)),
    )


def _below(here: Sequence[Sequence[float]], alone: Sequence[Sequence[float]]) -> float | None:
    """The share of peers below their own baseline; None where no baseline has an accuracy."""
    both = zip((value for values in here for value in values), (v for values in alone for v in values), strict=True)
    pairs = [pair for pair in both if not math.isnan(pair[1])]
    return fmean(not mine >= other for mine, other in pairs) if pairs else None  # NaN is below


def others(results: Sequence[Result]) -> dict[str, float]:
    """The means over seeds of the other metrics, by name; those that not all seeds have are left out."""
    found = [result.others() for result in results]
    return {name: fmean(one[name] for one in found) for name in found[0] if all(name in one for one in found)}


def majority(results: Sequence[Result]) -> float | None:
    """The mean over seeds of always answering each peer's most frequent training class; None without classes."""
    found = [result.majority for result in results]
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None
