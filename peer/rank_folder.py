"""Rank folder: writes and reloads a rank's checkpoint, metrics.jsonl, model, card and summary, each when it is due.

Nearly everything here blocks on the disk: the peer calls it on its worker.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, Interrupted
from dpeer.peer import checkpoint
from dpeer.peer.checkpoint import Progress, ReleasedFile
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.core.handshake import ABSENT, difference
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.core.wire import Frames
from dpeer.peer.learner import Learner, SaveCopy
from dpeer.peer.member_files import read_lists, write_lists
from dpeer.results.card import make_card, measured
from dpeer.results.files import (
    CARD,
    MEMBERS,
    METRICS,
    MODEL,
    RELEASED,
    SUMMARY,
    card_of,
    count_lines,
    finite,
    parse,
    write_json,
)
from dpeer.results.records import MetricsFile

_RECENT = 10
"""Rounds over which their length is averaged."""


@dataclass
class _Unsaved:
    """The last completed round, as long as a checkpoint of it may still be written."""

    entry: dict[str, Any]
    state: checkpoint.State
    save_learner: SaveCopy
    due: bool
    """Whether its checkpoint is to be written in any case, and not only if the peer ends."""
    noted: bool = False
    """Whether its line is in metrics.jsonl."""


class RankFolder:
    """One rank's folder in a run folder.

    Args:
        config: The folder, and the settings that must be those of its checkpoint.
        outbox: The last completed round's body goes from it into the checkpoint, and back when resuming.
        lost: Neighbors that a round has gone on without, and why; kept over a resume.
        warn: Called from any thread with a sentence about metrics.jsonl, if that was damaged.
        rounds: How many the run has by now; those of `config` by default.

    Attributes:
        diverged: Whether the loss of the last completed round, or a parameter after it, is not finite, or the loss is
            far beyond use; set at the end.
        releases: What was released, and how far the rounds are known; taken up with the checkpoint.
        saved_at: When the last checkpoint was written (Unix seconds); None without one.
        disk_free: Bytes that the folder's disk had left when a round was last saved; None before the first one.
    """

    def __init__(
        self,
        config: PeerConfig,
        learner: Learner,
        outbox: Outbox,
        lost: dict[int, str],
        facts: Mapping[str, Any],
        warn: Callable[[str], None] = lambda message: None,
        rounds: Callable[[], int] | None = None,
    ) -> None:
        self._config = config
        self._rounds = rounds or (lambda: config.rounds)
        self._learner = learner
        self.outbox = outbox
        self._lost = lost
        self._facts = dict(facts)
        self._warn, self._warned = warn, False
        self.diverged = False
        self.saved_at: float | None = None
        self.disk_free: int | None = None
        self._ends: deque[float] = deque(maxlen=_RECENT + 1)
        self.progress = Progress()
        self._unsaved: _Unsaved | None = None
        self._earlier_seconds = 0.0
        self._began = time.monotonic()

    @property
    def recent_seconds(self) -> float | None:
        """How long the last rounds took in the mean, since it has run all of them; None before the second one."""
        rounds = len(self._ends) - 1
        return (self._ends[-1] - self._ends[0]) / rounds if rounds > 0 else None

    @property
    def concluded(self) -> Mapping[str, Any]:
        """The summary, if it is of the last completed round and has its model and card beside it; else empty."""
        out = self._config.out
        if not all((out / name).is_file() for name in (MODEL, CARD, SUMMARY)):
            return {}
        summary = parse((out / SUMMARY).read_text(encoding="utf-8", errors="replace")) or {}
        return summary if summary.get("completed_rounds") == self.progress.completed else {}

    def take_up(self) -> int:
        """Load the checkpoint when resuming; return the first round to run. Nothing is written yet.

        Damaged or missing lines of metrics.jsonl cost a warning: the checkpoint has all that the run needs of them.

        Raises:
            CheckpointError: it is damaged or of another run.
        """
        state = self._load() if self._config.resume else None
        start = state.next_round if state else 0
        out = self._config.out
        metrics = out / METRICS
        if self._config.resume and state is None and count_lines(metrics) > 1:
            # A process that was killed while it saved its first round leaves one line.
            raise CheckpointError(
                f"{str(metrics)!r} has completed rounds but no checkpoint exists: "
                f"restore {str(self._checkpoints)!r}, or start over in another --out"
            )
        self.releases = ReleasedFile(out, resume=self._config.resume, every=self._config.checkpoint_every)
        self._metrics, self.progress = self._lines(state)
        self._missing()
        if state is not None:
            self.saved_at = checkpoint.written_at(out)
            # One of another disk may have other bytes, where the operator states rounds that it may have released.
            if state.released is not None and start > self._config.rounds_released:
                self.outbox.add(start - 1, self._readdressed(start - 1, state.released), state.receivers)
            self._earlier_seconds = self.progress.seconds
            self._lost.update({int(rank): reason for rank, reason in self.progress.lost.items()})
        return start

    def _lines(self, state: checkpoint.State | None) -> tuple[MetricsFile, Progress]:
        """The lines of the rounds that a checkpoint has completed, and the progress that it has kept."""
        path = self._config.out / METRICS
        if state is None:
            return MetricsFile(path), Progress()
        return MetricsFile(path, state.next_round), Progress(**state.extra["progress"])

    def _readdressed(self, number: int, frames: Frames) -> Frames:
        """An encoded body under the present federation's id, which more rounds than were planned have changed."""
        federation = wire.federation_id(self._config.fingerprint)
        fields = wire.unpack(frames[0])
        said = {name: fields.get(name, b"") for name in ("presence", "stamps", "uses")}
        digest = wire.digest_of(frames[1:])
        return wire.encode(wire.body(federation, self._config.rank, number, frames[1:], digest, **said))

    def begin(self) -> None:
        """Begin to measure the time, and remove an earlier run's files, unless it is resumed."""
        self._began = time.monotonic()
        out = self._config.out
        if not self._config.resume:
            for name in (SUMMARY, MODEL, CARD, RELEASED, MEMBERS):
                (out / name).unlink(missing_ok=True)
            shutil.rmtree(self._checkpoints, ignore_errors=True)
        if self._config.resume:
            self.releases.keep_known(self._metrics.known)
        self._metrics.rewrite()

    def take_up_lists(self) -> tuple[MemberList | None, MemberList | None]:
        """The member lists on disk when resuming; None for list 0, and for none.

        Raises:
            MemberListError: They are damaged.
        """
        return read_lists(self._config.out) if self._config.resume else (None, None)

    def keep_lists(self, counts: MemberList, waits: MemberList | None) -> None:
        """Put the list that counts on disk, and the one that waits."""
        write_lists(self._config.out, counts, waits)

    def complete(self, entry: dict[str, Any], *, over: bool = False) -> None:
        """Complete a round in memory, with a copy of the learner; nothing is written. The round before is saved.

        Args:
            entry: Its line of metrics.jsonl.
            over: Whether a quorum has completed it before, and it has changed nothing here: no checkpoint is due.
        """
        self._unsaved = None  # first: one copy at a time
        number = entry["round"]
        if over:  # in no time
            self._ends.clear()
        else:
            self._ends.append(time.monotonic())
        due = self._due(entry, over=over)
        best = self._learner.figures.best_round == number
        self.progress = self.progress.plus(entry, best=best, now=time.time(), seconds=self._seconds(), lost=self._lost)
        body = self.outbox.get(number)
        state = checkpoint.State(
            next_round=number + 1,
            fingerprint=self._config.fingerprint,
            receivers=() if body is None else body.receivers,
            released=None if body is None else body.frames,
            extra={"about": dict(self._config.about), "progress": vars(self.progress)},
        )
        self._unsaved = _Unsaved(entry, state, self._learner.copied(), due)

    def save(self, *, now: bool = False) -> None:
        """Put the last completed round on disk: its line of metrics.jsonl, then the checkpoint, if it is due.

        It reads the copy alone, so the learner may train meanwhile.
        """
        unsaved = self._unsaved
        if unsaved is None:
            return
        # The line goes first: a line without its checkpoint is dropped on resume, the other way round it is damage.
        if not unsaved.noted:
            (self._config.out / SUMMARY).unlink(missing_ok=True)  # outdated only now
            self.disk_free = shutil.disk_usage(self._config.out).free
            self._metrics.append(unsaved.entry)
            unsaved.noted = True
        if now or unsaved.due:
            self._metrics.flush()
            checkpoint.write(self._checkpoints, unsaved.state, unsaved.save_learner)
            self.saved_at = time.time()
            self._unsaved = None

    def _due(self, entry: Mapping[str, Any], *, over: bool) -> bool:
        """Whether a checkpoint is due after this round.

        After the first one that this peer runs always: without a checkpoint lines of several rounds are damage. After
        an adoption, too: a peer that is killed goes on with the adopted body.
        """
        number = entry["round"]
        if self.saved_at is None or number + 1 == self._rounds() or entry.get("adopted"):
            return True
        return not over and (number + 1) % self._config.checkpoint_every == 0

    def conclude(
        self,
        status: str,
        counts: Mapping[str, Any] | None = None,
        *,
        ruined: bool = False,
        model: Path | None = None,
        summarize: bool = True,
    ) -> None:
        """Write the model, its card and the summary of the last completed round.

        Args:
            status: How the run ended, a word.
            counts: Entries of the summary that this process has counted; None for a run of another process.
            ruined: Whether training went beyond use.
            model: Where the model goes, and its card beside it; None for the rank's folder.
            summarize: Whether the summary is written.

        Raises:
            TaskError: The task raised while the model was measured; of a run that has failed all but the card is
                written.
        """
        out = self._config.out
        model = model or out / MODEL
        # Every release counts, whichever round's model is kept, and whether the release's round was completed or not.
        spent = self._learner.privacy
        if self.progress.completed:
            if status != "done":
                self._go_back()
            if status == "left-behind":
                self._finish()
            diverged = (self.progress.last or {}).get("diverged")
            self.diverged = ruined or bool(diverged) or not self._learner.finite
            self._learner.write_model(model)
        card, failure = self._card(status)
        results = self._results(status) | {
            "measured": measured(card),
            "epsilon": spent["epsilon"] if spent else None,
            "delta": spent["delta"] if spent else None,
            "privacy": spent,
        }
        results |= {"lost": {str(rank): why for rank, why in self._lost.items()}} | dict(counts or {})
        facts = self._facts | ({"rounds": self._rounds()} if "rounds" in self._facts else {})
        if card:
            write_json(card_of(model), make_card(facts, card, results))
        elif failure is not None:
            card_of(model).unlink(missing_ok=True)  # one of an earlier model
        if summarize:
            write_json(out / SUMMARY, facts | results)
        if failure is not None:
            raise failure

    def _card(self, status: str) -> tuple[Mapping[str, Any], Exception | None]:
        """The card's content, or why it cannot be made after a failed run, perhaps for the same reason."""
        try:
            return (self._learner.card() if self.progress.completed else {}), None
        except Exception as error:
            if status != "failed":
                raise
            return {}, error

    def _go_back(self) -> None:
        """Take up the last round on disk: a round that was left in the middle, or not saved, is discarded."""
        state = self._load()
        saved = 0 if state is None else state.next_round
        if self.progress.completed > saved:
            self._unsaved = None
            self._metrics, self.progress = self._lines(state)

    def _finish(self) -> None:
        """Fine-tune on local data, as after the last round; the result is in the summary alone."""
        try:
            found = self._learner.fine_tune(self.progress.completed - 1)
        except Interrupted:
            return
        if found is not None:
            figures = finite({
                "accuracy_finished": found.accuracy, "test_loss_finished": found.test_loss,
                "metrics_finished": dict(found.metrics), "training_accuracy_finished": found.training_accuracy,
            })  # fmt: skip
            self.progress = replace(self.progress, last={**(self.progress.last or {}), **figures})

    def _missing(self) -> int:
        """How many lines of completed rounds metrics.jsonl lacks; warns of them once."""
        missing = self._metrics.missing(self.progress.completed)
        if missing and not self._warned:
            self._warned = True
            self._warn(
                f"{str(self._config.out / METRICS)!r} lacks {missing} of {self.progress.completed} lines: they were "
                "damaged, or removed by another program; the run needs none of them"
            )
        return missing

    def _results(self, status: str) -> dict[str, Any]:
        return {
            "rank": self._config.rank,
            "status": status,
            "completed_rounds": self.progress.completed,
            "diverged": self.diverged,
            **self.progress.entries(self._learner),
            "metrics_missing": self._missing(),
            "wall_seconds": round(self._seconds(), 3),
        }

    def _load(self) -> checkpoint.State | None:
        found = checkpoint.latest(self._checkpoints)
        if found is None:
            return None
        state = checkpoint.read(found, self._learner.load)
        self._check_run(found, state.fingerprint)
        if state.next_round > self._rounds() and self._config.lists is None:  # else a later list may have more
            raise CheckpointError(
                f"checkpoint {str(found)!r} has completed {state.next_round} rounds, more than --rounds "
                f"{self._rounds()}"
            )
        return state

    def _check_run(self, found: Path, theirs: Mapping[str, Any]) -> None:
        """Refuse what was written by a run with other settings.

        Raises:
            CheckpointError: It was.
        """
        ours = self._config.fingerprint
        for name in [*ours, *(one for one in theirs if one not in ours)]:
            there, here = theirs.get(name), ours.get(name)
            # More rounds than planned are welcome: nothing that happened so far depended on the plan.
            if name != "rounds" and there != here:
                other = f"{name} is {_shown(there)} there and {_shown(here)} here"
                if (names := self._config.names.get(name)) is not None:
                    other = difference(name, here, there, "the checkpoint", names)
                raise CheckpointError(
                    f"checkpoint {str(found)!r} is of another run: {other}; use the same settings, or start over in "
                    "another --out"
                )

    @property
    def _checkpoints(self) -> Path:
        return self._config.out / checkpoint.FOLDER

    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began


def _shown(value: object) -> str:
    return ABSENT if value is None else repr(value)
