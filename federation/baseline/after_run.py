"""The comparison with the local-only baseline after a run has ended, and the file that a site gives away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, TaskError, not_written
from dpeer.federation.baseline.comparison import conclude_comparison
from dpeer.federation.baseline.training import STOPPED
from dpeer.federation.build import PeerParts
from dpeer.federation.control_client import held
from dpeer.federation.folders import naming
from dpeer.federation.resume_checks import check_same_data
from dpeer.federation.run import renew
from dpeer.federation.saved_models import saved_peer
from dpeer.peer import checkpoint
from dpeer.peer.core.wire import federation_id
from dpeer.peer.member_files import read_lists
from dpeer.results.effect import FEWEST_ROWS, Effect, effect_of
from dpeer.results.files import MODEL, SUMMARY, write_json
from dpeer.results.run_folders import read_object, read_peer_summary
from dpeer.results.sites import Site
from dpeer.results.summaries import PeerSummary

_FINISHED = ("done", "left-behind")
"""The states of runs whose models were fine-tuned at home after the last round."""


def compare_after_run(
    folder: Path,
    stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda line: None,
    *,
    device: str | None = None,
) -> Effect | None:
    """Train the local-only baseline of a rank's folder, and write the comparison into its summary.

    It is trained for as many rounds as the peer has completed, from the same first weights on the same data, as
    `dpeer start` does it. What was trained before, by the run or by a call that was stopped, is not trained again.

    Args:
        folder: The rank's folder.
        stopped: Whether to give up; what is trained by then is kept.
        tell: Gets a line before it takes long.
        device: Where to train; as in the run if None.

    Returns:
        The comparison, which is made only once; None if it was stopped.

    Raises:
        ConfigurationError: No run has ended, or nothing can be compared.
        CheckpointError: It has no checkpoint, or the data or files are not those of the run.
        OutputError: The peer is running.
        TaskError: The task cannot be loaded, or its code raised.
    """
    with naming(folder), held(folder):
        summary = _summary(folder)
        known = effect_of(summary.get("worth"))
        if known is None or known.verdict is None:
            known = _compared(folder, summary, stopped, tell, device)
    renew(folder.parent)
    return known


def has_shared_rows(folder: Path) -> bool:
    """Whether the peers of a rank's run may have been compared on the same rows."""
    settings = read_object(folder / SUMMARY).get("settings") or {}
    return settings.get("test_split") == "shared"


def check_may_give_away(folder: Path, file: Path) -> None:
    """Refuse before a comparison is made for it what cannot be given away, or not into this file.

    Raises:
        ConfigurationError: The run is private, or its peers may have the same rows.
        OutputError: The file is a folder, or its folder is missing.
    """
    summary = read_peer_summary(folder)
    mode = None if summary is None else summary.settings.get("privacy")
    if mode not in (None, "none"):
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} is of a run with --privacy {mode}, and the gain is computed from records "
            "without noise: it stays at home"
        )
    if has_shared_rows(folder):
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} is of a run with --test-split shared: gains of the same rows have no mean"
        )
    if file.is_dir() or not file.parent.is_dir():
        why = "is a folder" if file.is_dir() else "is in a folder that does not exist"
        raise OutputError(f"--give-away {str(file)!r} {why}: name a file, such as worth-0.json")


def give_away(folder: Path, file: Path) -> None:
    """Write the effect of federating on the peer of a rank's folder, which has been compared, for others to combine.

    Raises:
        CheckpointError: The folder has no checkpoint, which has the federation's fingerprint.
        ConfigurationError: It was compared on so few rows that the gain reveals single ones.
        OutputError: The file cannot be written.
    """
    summary = read_peer_summary(folder)
    assert summary is not None, "compared"
    effect = summary.worth
    assert effect is not None, "compared"
    if (effect.rows or 0) < FEWEST_ROWS:
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} was compared on {effect.rows} rows: below {FEWEST_ROWS} a gain tells of "
            "single rows, and stays at home"
        )
    size, (used, _) = summary.size or 0, read_lists(folder)
    version, members = (0, range(size)) if used is None else (used.version, used.members)
    site = Site.of(
        effect, version=dpeer.__version__, federation=_federation(folder), size=size, member_list=version,
        members=tuple(members), rank=int(read_object(folder / SUMMARY)["rank"]), rounds=summary.completed_rounds or 0,
    )  # fmt: skip
    try:
        write_json(file, site.model_dump())
    except OSError as error:
        raise not_written(f"--give-away {str(file)!r}", error) from error


def _summary(folder: Path) -> dict[str, Any]:
    """The summary of a peer whose run has ended with a model to compare."""
    content = read_object(folder / SUMMARY)
    peer = PeerSummary.of(content)
    if "rank" not in content or not peer.settings:
        raise ConfigurationError(
            f"{str(folder)!r} has no {SUMMARY} of a peer, which is written when its run ends: let the run end, or go "
            "on with --resume"
        )
    if not peer.completed_rounds or not (folder / MODEL).exists():
        raise ConfigurationError(f"{str(folder)!r} has no model of a completed round: go on with --resume")
    if peer.diverged:
        raise ConfigurationError(f"{str(folder)!r}: training has diverged, so nothing can be compared")
    if content.get("rounds_mixed") == 0:
        raise ConfigurationError(
            f"{str(folder)!r}: in no round was a neighbor's body mixed, so federating cannot have changed anything"
        )
    return content


def _compared(
    folder: Path,
    summary: Mapping[str, Any],
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
    device: str | None,
) -> Effect | None:
    peer = saved_peer(folder, tell, alone="always", **({} if device is None else {"device": device}))
    if peer.config.algorithm.shares == "nothing":
        raise ConfigurationError(
            f"{str(folder)!r}: with --algorithm {peer.config.training.algorithm} nothing was shared, so nothing can be "
            "compared"
        )
    _check_data(folder, peer.parts, summary)
    learner, beside = peer.parts.learner, peer.parts.baseline
    assert beside is not None, "asked for"
    if peer.completed < peer.rounds:
        tell(f"the run ended after {peer.completed} of {peer.rounds} rounds: these are compared")
    if summary["status"] == "left-behind":
        learner.fine_tune(peer.completed - 1)  # as when it ended, after its checkpoint
    beside.end(peer.completed, finished=summary["status"] in _FINISHED)
    conclude_comparison(folder, learner, beside, summary, stopped, tell, diverged=False)
    if beside.why == STOPPED:
        done = 0 if beside.baseline is None else beside.baseline.completed
        tell(f"stopped after {done} of {peer.completed} rounds of local-only training; the same command goes on")
        return None
    found = effect_of(read_object(folder / SUMMARY).get("worth"))
    if found is None or found.verdict is None:
        raise TaskError(f"{str(folder)!r}: no comparison: {found.why if found else beside.why}")
    return found


def _check_data(folder: Path, parts: PeerParts, summary: Mapping[str, Any]) -> None:
    """Refuse data that are not those of the run; of some only these numbers are known.

    Raises:
        CheckpointError: They are others.
    """
    check_same_data(folder, parts.partition, parts.preparation)
    numbers = ("evaluated_samples", "class_counts", "evaluated_class_counts")
    if any(summary.get(name) != parts.facts[name] for name in numbers):
        raise CheckpointError(
            f"{str(folder)!r}: the data of task {parts.facts['task']!r} have changed since the run: a comparison needs "
            "the files that it has read"
        )


def _federation(folder: Path) -> str:
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    fingerprint = read_object(found / "state.json").get("fingerprint") if found else None
    if not fingerprint:
        raise CheckpointError(
            f"--give-away: {str(folder / checkpoint.FOLDER)!r} has no checkpoint, which has the federation's "
            "fingerprint"
        )
    return federation_id(fingerprint).hex()
