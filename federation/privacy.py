"""Wiring of privacy: `PrivacyConfig` from a `RunConfig`, and the ledger's cross-check against what a rank has sent."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path

from dpeer.exceptions import CheckpointError
from dpeer.federation.config import RunConfig
from dpeer.peer import checkpoint
from dpeer.peer.config import Counted
from dpeer.privacy import PrivacyConfig
from dpeer.privacy.history import FOLDER, LEDGER, current, record_noiseless, uncharged
from dpeer.privacy.ledger_file import read_or_none
from dpeer.results.json_fields import whole
from dpeer.results.reading import read_metrics, read_object
from dpeer.topology import Participation, Topology
from dpeer.training.algorithms.base import Algorithm, facts_of
from dpeer.training.settings import TrainingPart
from dpeer.training.state.file_names import REST


def privacy_config(config: RunConfig, graph: Topology) -> PrivacyConfig:
    """The part of a run's configuration on which its privacy depends."""
    asked, how = config.privacy, config.training
    return PrivacyConfig(
        asked,
        size=config.graph.size,
        rounds=planned_rounds(how, graph) if asked.privacy != "none" else 0,
        batch_size=how.batch_size,
        checkpoint_every=config.run.checkpoint_every,
        algorithm=how.algorithm,
        task=config.data.task,
        finish=how.finish,
        trains_last=how.finish != "none" or config.algorithm.finish is not Algorithm.finish,
        standardize=bool(config.data.standardize),
        shares=facts_of(config.algorithm).shares != "nothing",
    )


def planned_rounds(training: TrainingPart, graph: Topology, first: int = 0) -> int:
    """The most rounds in which one peer takes part, from round `first` on."""
    if training.participation == 1:
        return max(0, training.rounds - first)
    return _most_active(Participation(graph, training.participation, training.seed), training.rounds, first)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The same, counted once for all peers of a process."""
    counts = Counter(rank for number in range(first, rounds) for rank in graphs.participants(number))
    return max(counts.values(), default=0)


def account(folder: Path, *, resume: bool) -> None:
    """See that the ledger in a rank's privacy folder has all that has left the rank, before anything else does.

    Args:
        folder: The folder.
        resume: Whether the run in it is continued.

    Raises:
        CheckpointError: The ledger to go on with has lost something.
    """
    if resume:
        check_ledger(folder.parent)
    if sent_unrecorded(folder.parent):
        record_noiseless(folder)  # now, for the metrics that prove it will be gone


def counted(folder: Path, *, resume: bool, stated: int) -> Counted:
    """The rounds up to which a rank's ledger has all releases.

    Rounds without a line in it are in metrics.jsonl, or in the checkpoint: nothing was released in them. An adoption
    counts by its checkpoint alone: a peer that is killed before that may run its round.

    Args:
        folder: A rank's folder.
        resume: Whether the run in it is continued: the ledger of another one has none of this run's.
        stated: What `--rounds-released` says.
    """
    if not resume:
        return Counted(stated, stated)
    charged, lines = current(folder / FOLDER).rounds, read_metrics(folder).lines
    sent = max((*charged, *(line.round for line in lines if line.active)), default=-1) + 1
    known = max((line.round for line in lines if not line.adopted), default=-1) + 1
    return Counted(max(stated, sent, known, checkpoint.completed(folder)), max(stated, sent))


def check_ledger(folder: Path) -> None:
    """Refuse to go on with a run whose ledger has lost private releases; nothing is written.

    Args:
        folder: A rank's folder.

    Raises:
        CheckpointError: Says which file proves it.
    """
    ledger, run = folder / FOLDER / LEDGER, current(folder / FOLDER)
    if run.noiseless:
        return
    releases, steps, why = _recorded(folder), _recorded(folder, "steps"), ""
    if releases > run.releases:
        why = f"it has {run.releases} private releases, metrics.jsonl or the checkpoint tell of {releases}"
    if steps > run.steps:
        why = f"it has {run.steps} private steps, metrics.jsonl or the checkpoint tell of {steps}"
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
    """Whether a rank's last run has sent more than its ledger has: it is lost, damaged, or there never was one.

    A private run whose ledger has lost releases counts as one without noise, for what is missing is unknown.
    """
    run = current(folder / FOLDER)
    if run.noiseless:
        return False
    if _recorded(folder, "steps") > run.steps or _recorded(folder) > run.releases:
        return True
    if uncharged(folder / FOLDER) or _sent_plain(folder):
        return True
    metrics = read_metrics(folder)
    if metrics.torn and not metrics.lines and metrics.damaged == 1:
        # It was killed while it saved its first round, and has a ledger by then.
        return not (folder / FOLDER / LEDGER).exists()
    # A private run's ledger has each release, whatever has become of the lines. What is unknown counts.
    private = _saved(folder, "releases") is not None
    damaged = metrics.damaged > metrics.torn and not private
    unknown = damaged or any(line.bytes_sent is None for line in metrics.lines)
    return unknown or any(line.bytes_sent and not line.privacy for line in metrics.lines)


def _recorded(folder: Path, what: str = "releases") -> int:
    """How many private releases, or steps, metrics.jsonl or the checkpoint have."""
    lines = [whole(line.privacy.get(what)) for line in read_metrics(folder).lines if line.privacy]
    return max(count or 0 for count in (*lines, _saved(folder, what), 0))


def _sent_plain(folder: Path) -> bool:
    """Whether the newest checkpoint is of a run without noise that sent its last round's body, or is damaged."""
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    if found is None or _saved(folder, "releases") is not None:
        return False
    return read_object(found / checkpoint.STATE).get("released_frames", 0) is not None


def _saved(folder: Path, what: str) -> int | None:
    """How many of them the newest checkpoint has; None without one, and of a run without privacy."""
    learner = checkpoint.learner_folder(folder)
    return None if learner is None else whole(read_object(learner / REST).get(what))
