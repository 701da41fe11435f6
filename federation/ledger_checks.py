"""Ledger checks: the releases that a rank's ledger counts, beside those of which its other files tell."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.config import Counted
from dpeer.privacy.ledger import FOLDER, LEDGER, current, read_or_none, uncharged
from dpeer.results.files import METRICS, RELEASED
from dpeer.results.json_fields import whole
from dpeer.results.metrics_file import MetricsFile
from dpeer.results.run_folders import read_metrics, read_object
from dpeer.training.state.file_names import REST


def counted(folder: Path, *, resume: bool, stated: int) -> Counted:
    """The rounds up to which a rank's ledger has all releases.

    Rounds without a line in it are in metrics.jsonl, in released.json once --resume has dropped their lines, or in the
    checkpoint: nothing was released in them. An adoption counts by its checkpoint alone: a peer that is killed before
    that may run its round.

    Args:
        folder: A rank's folder.
        resume: Whether the run in it is continued: the ledger of another one has none of this run's.
        stated: What `--rounds-released` says.
    """
    if not resume:
        return Counted(stated, stated)
    noted = read_object(folder / RELEASED)
    known, sent = MetricsFile(folder / METRICS).known
    known = max(known, whole(noted.get("known")) or 0)
    sent = max(sent, whole(noted.get("sent")) or 0, *(number + 1 for number in current(folder / FOLDER).rounds))
    return Counted(max(stated, sent, known, checkpoint.completed(folder)), max(stated, sent))


def check_ledger(folder: Path) -> None:
    """Refuse to go on with a run whose ledger has lost private releases; nothing is written.

    Args:
        folder: A rank's folder.

    Raises:
        CheckpointError: Says which file proves it.
    """
    ledger, run = folder / FOLDER / LEDGER, current(folder / FOLDER)
    releases, steps, why = _recorded(folder), _recorded(folder, "steps"), ""
    if releases > run.releases:
        why = f"it has {run.releases} private releases, metrics.jsonl or the checkpoint tell of {releases}"
    if steps > run.steps:
        why = f"it has {run.steps} private steps, metrics.jsonl or the checkpoint tell of {steps}"
    if lost := uncharged(folder / FOLDER):
        why = f"it lacks the line of {lost[-1].name}, which may have been sent"
    if why:
        raise CheckpointError(
            f"the privacy ledger {str(ledger)!r} is damaged ({why}): restore the file as it was last (an older copy "
            "will not do), or start a run in another --out"
        )


def is_private(folder: Path) -> bool:
    """Whether a rank's folder has private releases or steps, or a ledger that cannot be read any more."""
    if not folder.is_dir():
        return False
    ledger = folder / FOLDER / LEDGER
    run = read_or_none(ledger)
    charged = ledger.exists() if run is None else bool(run.rounds)
    return charged or bool(uncharged(folder / FOLDER) or _recorded(folder) or _recorded(folder, "steps"))


def _recorded(folder: Path, what: str = "releases") -> int:
    """How many private releases, or steps, metrics.jsonl or the checkpoint have."""
    lines = [whole(line.privacy.get(what)) for line in read_metrics(folder).lines if line.privacy]
    return max(count or 0 for count in (*lines, _saved(folder, what), 0))


def _saved(folder: Path, what: str) -> int | None:
    """How many of them the newest checkpoint has; None without one, and of a run without privacy."""
    learner = checkpoint.learner_folder(folder)
    return None if learner is None else whole(read_object(learner / REST).get(what))
