"""Ledger checks: the releases that a rank's ledger counts, beside those of which its other files tell."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.config import Counted
from dpeer.privacy.ledger import FOLDER, LEDGER, current, uncharged
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
    there, run, why = folder / FOLDER, current(folder / FOLDER), ""
    for what, kept in (("releases", run.releases), ("steps", run.steps)):
        if (told := _recorded(folder, what)) > kept:
            why = f"it has {kept} private {what}, metrics.jsonl or the checkpoint tell of {told}"
    if lost := uncharged(there):
        why = f"it lacks the line of {lost[-1].name}, which may have been sent"
    if why:
        raise CheckpointError(
            f"the privacy ledger {str(there / LEDGER)!r} is damaged ({why}): restore the file as it was last (an older "
            "copy will not do), or start a run in another --out"
        )


def is_private(folder: Path) -> bool:
    """Whether a rank's folder has a ledger, or another file that tells of private releases or steps."""
    there = folder / FOLDER
    told = _recorded(folder, "releases") or _recorded(folder, "steps")
    return bool((there / LEDGER).exists() or uncharged(there) or told)


def _recorded(folder: Path, what: str) -> int:
    """How many private releases, or steps, metrics.jsonl or the newest checkpoint have; 0 without privacy."""
    learner = checkpoint.learner_folder(folder)
    told = [line.privacy.get(what) for line in read_metrics(folder).lines if line.privacy]
    told.append(None if learner is None else read_object(learner / REST).get(what))
    return max(whole(count) or 0 for count in told)
