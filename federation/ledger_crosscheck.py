"""What a rank's last run has sent, beside what its ledger says: by its metrics, its checkpoint, the bytes it kept."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.privacy.history import FOLDER, LEDGER, releases_in, steps_in, uncharged
from dpeer.privacy.ledger_file import read_or_none
from dpeer.privacy.noiseless_runs import notes_releases
from dpeer.results.json_fields import whole
from dpeer.results.reading import read_metrics, read_object
from dpeer.training.saved import REST


def check_ledger(folder: Path) -> None:
    """Refuse to go on with a run whose ledger has lost private releases; nothing is written.

    Args:
        folder: A rank's folder.

    Raises:
        CheckpointError: Says what tells of them.
    """
    ledger = folder / FOLDER / LEDGER
    if notes_releases(folder):
        return
    told, there = _told(folder), releases_in(folder)
    why = f"it has {there} private releases, metrics.jsonl or the checkpoint tell of {told}" if told > there else ""
    steps, charged = _told(folder, "steps"), steps_in(folder)
    if steps > charged:
        why = f"it has {charged} private steps, metrics.jsonl or the checkpoint tell of {steps}"
    if lost := uncharged(folder / FOLDER):
        why = f"it lacks the line of {lost[-1].name}, which may have been sent"
    if why:
        unreadable = ledger.exists() and read_or_none(ledger) is None
        start = "--new-data if the data are others now" if unreadable else "which counts the run as one without noise"
        raise CheckpointError(
            f"the privacy ledger {str(ledger)!r} is damaged ({why}): restore the file as it was last (an older copy "
            f"will not do), or start over with --overwrite{' ' if unreadable else ', '}{start}"
        )


def sent_unrecorded(folder: Path) -> bool:
    """Whether a rank's last run has sent more than its ledger says: an older dpeer kept none, or it was damaged.

    A private run whose ledger has lost releases counts as one without noise, for nobody knows what is missing.
    """
    if notes_releases(folder):
        return False
    if _told(folder, "steps") > steps_in(folder):
        return True
    if _told(folder) > releases_in(folder) or uncharged(folder / FOLDER) or _plain(folder):
        return True
    metrics = read_metrics(folder)
    if metrics.torn and not metrics.lines and metrics.damaged == 1:
        # It was killed while it saved its first round; this version has a ledger by then.
        return not (folder / FOLDER / LEDGER).exists()
    # Of a private run the ledger has each release, whatever has become of the lines. Where nobody knows, it counts.
    private = _saved(folder, "releases") is not None
    damaged = metrics.damaged > metrics.torn and not private
    unknown = damaged or any(line.bytes_sent is None for line in metrics.lines)
    return unknown or any(line.bytes_sent and not line.privacy for line in metrics.lines)


def _told(folder: Path, what: str = "releases") -> int:
    """How many private releases, or steps, metrics.jsonl or the checkpoint tell of."""
    lines = [whole(line.privacy.get(what)) for line in read_metrics(folder).lines if line.privacy]
    return max(count or 0 for count in (*lines, _saved(folder, what), 0))


def _plain(folder: Path) -> bool:
    """Whether the newest checkpoint is of a run without noise that sent its last round's body, or is damaged."""
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    if found is None or _saved(folder, "releases") is not None:
        return False
    return read_object(found / checkpoint.STATE).get("released_frames", 0) is not None


def _saved(folder: Path, what: str) -> int | None:
    """How many of them the newest checkpoint tells of; None without one, and of a run without privacy."""
    learner = checkpoint.learner_folder(folder)
    return None if learner is None else whole(read_object(learner / REST).get(what))
