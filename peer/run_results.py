"""Progress of a peer over its completed rounds: in each checkpoint, and what summary.json says of the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpeer.peer.learner import Learner
from dpeer.results.json_fields import total
from dpeer.results.records import gap


@dataclass(frozen=True)
class Progress:
    """Sums over all completed rounds, also those whose line is not in the file any more; plain JSON values.

    Attributes:
        last: The line of the last round.
        best: The line of the best model's round, where the best is kept.
        rounds_mixed: In how many rounds a neighbor's body was mixed.
        mixed_round: The last of those in which the peer took part; None before one.
        mixed_at: When that was complete (Unix seconds).
        seconds: For how long the run has gone on.
        lost: By rank as text, why a round has gone on without this neighbor.
    """

    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    rounds_mixed: int = 0
    mixed_round: int | None = None
    mixed_at: float | None = None
    seconds: float = 0.0
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def completed(self) -> int:
        """The number of completed rounds."""
        return 0 if self.last is None else int(self.last["round"]) + 1

    def plus(
        self, entry: dict[str, Any], *, best: bool, now: float, seconds: float, lost: Mapping[int, str]
    ) -> Progress:
        """The same with one more round, which was completed `now` (Unix seconds)."""
        took_part = bool(entry.get("heard")) and not entry.get("adopted")
        return Progress(
            last=entry,
            best=entry if best else self.best,
            bytes_sent=self.bytes_sent + (total(entry.get("bytes_sent")) or 0),
            bytes_received=self.bytes_received + (total(entry.get("bytes_received")) or 0),
            rounds_mixed=self.rounds_mixed + bool(entry.get("heard")),
            mixed_round=entry["round"] if took_part else self.mixed_round,
            mixed_at=now if took_part else self.mixed_at,
            seconds=seconds,
            lost={str(rank): why for rank, why in lost.items()},
        )

    def entries(self, learner: Learner) -> dict[str, Any]:
        """The entries of summary.json about the rounds; the learner knows which round's model is kept, and which."""
        last = self.last or {}
        best, point = learner.figures.best_round, learner.figures.kept_point
        kept = last if best is None or best == last.get("round") else self.best or last
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
            "rounds_mixed": self.rounds_mixed,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
        }
