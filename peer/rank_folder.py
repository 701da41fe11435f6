"""The files of a peer's run: checkpoint, metrics.jsonl, model and summary, kept in step with each other.

Nearly everything here blocks on the disk: the peer calls it on its worker.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, Interrupted
from dpeer.peer import checkpoint, headers, wire
from dpeer.peer.config import PeerConfig
from dpeer.peer.learner import Learner, SaveCopy
from dpeer.peer.naming import difference
from dpeer.peer.outbox import Outbox
from dpeer.peer.waiting import Pauses
from dpeer.peer.wire import Frames
from dpeer.results.card import make_card, measured
from dpeer.results.files import CARD, CARD_PAGE, METRICS, MODEL, SUMMARY, count_lines, finite, parse, write_json
from dpeer.results.metrics import MetricsFile
from dpeer.results.records import gap, has_diverged


@dataclass
class _Completed:
    """The last completed round, as long as a checkpoint of it may still be written."""

    entry: dict[str, Any]
    state: checkpoint.State
    save_learner: SaveCopy | None
    """None where no files are kept."""
    noted: bool = False
    """Whether its line is in metrics.jsonl."""


class RankFolder:
    """One rank's folder in a run folder.

    Args:
        config: Where it is, and what must not have changed since a checkpoint was written.
        learner: Saved, loaded, and asked for the model.
        outbox: The last completed round's body goes from it into the checkpoint, and back when resuming.
        lost: Neighbors that a round has gone on without, and why; kept over a resume.
        facts: What summary.json says about the run besides its results.

    Attributes:
        diverged: Whether the loss of the last completed round, or a parameter after it, is not finite, or the loss is
            far beyond use; set at the end.
        last: The last line of metrics.jsonl.
    """

    def __init__(
        self, config: PeerConfig, learner: Learner, outbox: Outbox, lost: dict[int, str], facts: Mapping[str, Any]
    ) -> None:
        self._config = config
        self._learner = learner
        self._outbox = outbox
        self._lost = lost
        self._facts = dict(facts)
        self.diverged = False
        self._metrics = MetricsFile(None, 0)
        self._completed: _Completed | None = None
        self._earlier_seconds = 0.0
        self._began = time.monotonic()

    @property
    def last(self) -> dict[str, Any] | None:
        """The last completed round's line of metrics.jsonl."""
        return self._metrics.last if self._completed is None else self._completed.entry

    @property
    def kept(self) -> bool:
        """Whether there is a folder at all."""
        return self._config.out is not None

    @property
    def completed(self) -> int:
        """How many rounds are completed."""
        return 0 if self.last is None else int(self.last["round"]) + 1

    @property
    def concluded(self) -> Mapping[str, Any]:
        """The summary, if it is of the last completed round and has its model and card beside it; else empty."""
        out = self._config.out
        if out is None or not all((out / name).is_file() for name in (MODEL, CARD, SUMMARY)):
            return {}
        summary = parse((out / SUMMARY).read_text(encoding="utf-8", errors="replace")) or {}
        return summary if summary.get("completed_rounds") == self.completed else {}

    def take_up(self) -> int:
        """Load the checkpoint when resuming; return the first round to run. Nothing is written yet.

        Raises:
            CheckpointError: it is damaged, of another run, or not in step with metrics.jsonl.
        """
        state = self._load() if self._config.resume else None
        start = state.next_round if state else 0
        out = self._config.out
        metrics = out / METRICS if out else None
        if metrics and self._config.resume and state is None and count_lines(metrics) > 1:
            # One line is what a process leaves that was killed while it saved its first round.
            raise CheckpointError(
                f"{str(metrics)!r} has completed rounds but there is no checkpoint: "
                f"restore {str(self._checkpoints)!r}, or start over with --overwrite"
            )
        self._metrics = MetricsFile(metrics, start)
        if self.completed != start:
            raise CheckpointError(f"metrics.jsonl in {str(out)!r} lacks rounds before {start}: it is damaged")
        if state is not None:
            if state.released is not None:
                self._outbox.add(start - 1, self._readdressed(start - 1, state.released), state.receivers)
            extra = state.extra or {}
            self._earlier_seconds = float(extra.get("seconds", 0.0))
            self._lost.update({int(rank): reason for rank, reason in extra.get("lost", {}).items()})
        return start

    def _readdressed(self, number: int, frames: Frames) -> Frames:
        """An encoded body under the present federation's id, which more rounds than were planned have changed."""
        federation = wire.federation_id(self._config.fingerprint)
        presence = headers.unpack(frames[0]).get("presence", b"")
        return wire.encode(wire.body(federation, self._config.rank, number, frames[1:], presence))

    def begin(self) -> None:
        """Begin to measure the time, and remove an earlier run's files, unless it is resumed.

        The learner is told if the run is a new one.
        """
        self._began = time.monotonic()
        if not self._config.resume:
            self._learner.start_over()
        out = self._config.out
        if out is None or self._checkpoints is None:
            return
        if not self._config.resume:
            for name in (SUMMARY, MODEL, CARD, CARD_PAGE):
                (out / name).unlink(missing_ok=True)
            shutil.rmtree(self._checkpoints, ignore_errors=True)
        self._metrics.rewrite()

    def complete(self, entry: dict[str, Any]) -> None:
        """Complete a round in memory, with a copy of the learner; nothing is written. The round before is saved."""
        self._completed = None  # first, so that there is one copy at a time
        number = entry["round"]
        state = checkpoint.State(
            next_round=number + 1,
            fingerprint=self._config.fingerprint,
            receivers=self._outbox.receivers.get(number, ()),
            released=self._outbox.frames.get(number),
            extra={"seconds": self._seconds(), "lost": _by_name(self._lost)},
        )
        self._completed = _Completed(entry, state, self._learner.copied() if self.kept else None)

    def save(self, *, now: bool = False) -> None:
        """Put the last completed round on disk: its line of metrics.jsonl, then the checkpoint, if it is due.

        It reads the copy alone, so the learner may train meanwhile.

        Args:
            now: Whether it is due whatever the round.
        """
        completed = self._completed
        if completed is None:
            return
        # The line goes first: a line without its checkpoint is dropped on resume, the other way round it is damage.
        if not completed.noted:
            if self._config.out is not None:
                (self._config.out / SUMMARY).unlink(missing_ok=True)  # outdated only now
            self._metrics.append(completed.entry)
            completed.noted = True
        if not (now or self._due(completed.entry["round"])):
            return
        if self._checkpoints is not None and completed.save_learner is not None:
            self._metrics.flush()
            checkpoint.write(self._checkpoints, completed.state, completed.save_learner)
        self._completed = None

    def _due(self, number: int) -> bool:
        """Whether there is a checkpoint after this round.

        After the first one always: without a checkpoint lines of several rounds are damage.
        """
        return number == 0 or (number + 1) % self._config.checkpoint_every == 0 or number + 1 == self._config.rounds

    def conclude(
        self,
        status: str,
        dropped: Mapping[str, int],
        warnings: Sequence[str] = (),
        ruined: bool = False,
        left_behind: int = 0,
        pauses: Pauses | None = None,
        late_bodies: int = 0,
        log_dropped: int = 0,
    ) -> None:
        """Write the model, its card and the summary of the last completed round."""
        out = self._config.out
        if out is None:
            return
        # Every release counts, whichever round's model is kept, and whether the release's round was completed or not.
        spent = self._learner.privacy
        if self.completed:
            if status != "done":
                self._go_back()
            if status == "left-behind":
                self._finish()
            self.diverged = ruined or has_diverged(self.last or {}) or not self._learner.finite
            self._learner.write_model(out / MODEL)
        card = self._learner.card() if self.completed else {}
        results = self._results(status) | {
            "measured": measured(card),
            "epsilon": spent["epsilon"] if spent else None,
            "delta": spent["delta"] if spent else None,
            "privacy": spent,
        }
        results |= {"lost": _by_name(self._lost), "dropped": dict(dropped), "warnings": list(warnings)}
        paused = pauses or Pauses()
        results |= {"left_behind": left_behind, "pauses": paused.count, "paused_seconds": round(paused.seconds, 1)}
        results["late_bodies"] = late_bodies
        results["log_dropped"] = log_dropped
        if card:
            write_json(out / CARD, make_card(self._facts, card, results))
        write_json(out / SUMMARY, self._facts | results)

    def _go_back(self) -> None:
        """Take up the last round on disk: a round that was left in the middle, or not saved, is discarded."""
        state = self._load()
        saved = 0 if state is None else state.next_round
        if self.completed > saved:
            self._completed = None
            self._metrics = MetricsFile(self._config.out / METRICS if self._config.out else None, saved)

    def _finish(self) -> None:
        """Train on at home, as after the last round; what that comes to is in the summary alone."""
        entry = self.last
        try:
            found = self._learner.fine_tune(self.completed - 1)
        except Interrupted:
            return
        if entry is not None and found is not None:
            entry |= finite({
                "accuracy_finished": found.accuracy, "test_loss_finished": found.test_loss,
                "metrics_finished": dict(found.metrics), "training_accuracy_finished": found.training_accuracy,
            })  # fmt: skip

    def _results(self, status: str) -> dict[str, Any]:
        best = self._learner.best_round
        kept = (None if best is None else self._metrics.entry(best)) or self.last or {}
        point = self._learner.kept_point
        ending = "" if point == "mixed" else f"_{point}"

        def of_kept(name: str) -> Any:
            # An older version's lines say of a model that is not mixed what it is like in the plain keys alone.
            return kept.get(f"{name}{ending}", kept.get(name))

        others = {
            f"{name}_{other}": kept.get(name if other == "mixed" else f"{name}_{other}")
            for name in ("accuracy", "training_accuracy")
            for other in ("trained", "mixed", "finished")
        }
        training = kept.get(f"training_accuracy{ending}")
        return {
            "rank": self._config.rank,
            "status": status,
            "completed_rounds": self.completed,
            "kept_round": kept.get("round"),
            "kept_point": point,
            "diverged": self.diverged,
            **{name: of_kept(name) for name in ("accuracy", "test_loss", "metrics")},
            "training_accuracy": training,
            "generalization_gap": gap(training, of_kept("accuracy")),
            **others,
            "test_loss_mixed": kept.get("test_loss"),
            "metrics_mixed": kept.get("metrics"),
            "train_loss": kept.get("train_loss"),
            "rounds_mixed": self._metrics.mixed,
            "bytes_sent": self._metrics.bytes_sent,
            "bytes_received": self._metrics.bytes_received,
            "wall_seconds": round(self._seconds(), 3),
        }

    def _load(self) -> checkpoint.State | None:
        found = checkpoint.latest(self._checkpoints) if self._checkpoints else None
        if found is None:
            return None
        state = checkpoint.read(found, self._learner.load)
        ours, outdated = self._config.fingerprint, self._config.formerly
        for field in [*ours, *(name for name in state.fingerprint if name not in ours and name not in outdated)]:
            there, here = state.fingerprint.get(field), ours.get(field)
            # More rounds than planned are welcome: nothing that happened so far depended on the plan.
            if field != "rounds" and there != here:
                names = self._config.names.get(field)
                said = f"{field} is {there!r} there and {here!r} here"
                raise CheckpointError(
                    f"checkpoint {str(found)!r} is of another run: "
                    f"{said if names is None else difference(field, here, there, 'the checkpoint', names)}; "
                    "use the same settings, or start over with --overwrite"
                )
        if state.next_round > self._config.rounds:
            raise CheckpointError(
                f"checkpoint {str(found)!r} has completed {state.next_round} rounds, more than "
                f"--rounds {self._config.rounds}"
            )
        return state

    @property
    def _checkpoints(self) -> Path | None:
        return self._config.out / checkpoint.FOLDER if self._config.out else None

    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began


def _by_name(lost: Mapping[int, str]) -> dict[str, str]:
    """The same by ranks as text, because JSON's keys are strings."""
    return {str(rank): reason for rank, reason in lost.items()}
