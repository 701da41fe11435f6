"""Run results: summary.json entries on kept round, totals and counts; `rank_folder` adds status and privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpeer.peer.core.wait import Pauses
from dpeer.peer.learner import Learner
from dpeer.results.json_fields import total
from dpeer.results.records import gap


@dataclass(frozen=True)
class RunCounts:
    """Counts of a peer's process for its summary.

    Attributes:
        dropped: Messages that were not used, by reason.
        warnings: The kinds of warnings that were given.
        ruined: Whether training went beyond use.
        left_behind: Rounds that were sat out because the others had gone past them.
        pauses: The pauses without a quorum.
        late_bodies: Bodies that came too late to be mixed.
        log_dropped: Lines that the log did not write.
        why: Why the run ended before its last round, where the peer's log says so; else empty.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    ruined: bool = False
    left_behind: int = 0
    pauses: Pauses = field(default_factory=Pauses)
    late_bodies: int = 0
    log_dropped: int = 0
    why: str = ""

    def as_entries(self) -> dict[str, Any]:
        """The entries of summary.json."""
        return {
            "dropped": dict(self.dropped),
            "warnings": list(self.warnings),
            "left_behind": self.left_behind,
            "pauses": self.pauses.count,
            "paused_seconds": round(self.pauses.seconds, 1),
            "late_bodies": self.late_bodies,
            "log_dropped": self.log_dropped,
            **({"why": self.why} if self.why else {}),
        }


@dataclass(frozen=True)
class Totals:
    """Sums over all completed rounds, also those whose line is not in the file any more; plain JSON values.

    Attributes:
        last: The line of the last round.
        best: The line of the best model's round, where the best is kept.
        mixed: In how many rounds a neighbor's body was mixed.
    """

    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    mixed: int = 0

    def plus(self, entry: dict[str, Any], *, best: bool = False) -> Totals:
        """The same with one more round."""
        return Totals(
            last=entry,
            best=entry if best else self.best,
            bytes_sent=self.bytes_sent + (total(entry.get("bytes_sent")) or 0),
            bytes_received=self.bytes_received + (total(entry.get("bytes_received")) or 0),
            mixed=self.mixed + bool(entry.get("heard")),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, which do not change with the lines."""
        return {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}


def round_entries(last: Mapping[str, Any], totals: Totals, learner: Learner) -> dict[str, Any]:
    """The entries of summary.json about the rounds.

    Args:
        last: The last line of metrics.jsonl; empty without one.
        totals: Of all its lines.
        learner: Knows which round's model is kept, and at which point of that round.
    """
    best, point = learner.figures.best_round, learner.figures.kept_point
    kept = last if best is None or best == last.get("round") else totals.best or last
    ending = "" if point == "mixed" else f"_{point}"
    others = {
        f"{name}_{other}": kept.get(name if other == "mixed" else f"{name}_{other}")
        for name in ("accuracy", "training_accuracy")
        for other in ("trained", "mixed", "finished")
    }
    training = kept.get(f"training_accuracy{ending}")
    return {
        "kept_round": kept.get("round"),
        "kept_point": point,
        **{name: kept.get(f"{name}{ending}") for name in ("accuracy", "test_loss", "metrics")},
        "training_accuracy": training,
        "generalization_gap": gap(training, kept.get(f"accuracy{ending}")),
        **others,
        "test_loss_mixed": kept.get("test_loss"),
        "metrics_mixed": kept.get("metrics"),
        "train_loss": kept.get("train_loss"),
        "rounds_mixed": totals.mixed,
        "bytes_sent": totals.bytes_sent,
        "bytes_received": totals.bytes_received,
    }
