"""The comparison with the local-only baseline after a run has ended, and the file that a site gives away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, TaskError, not_written
from dpeer.federation.baseline.comparison import compared_with, figures_of, write_comparison
from dpeer.federation.baseline.training import STOPPED, BaselineTraining, baseline_training, copy_for_baseline
from dpeer.federation.build import content_of, learner_by_itself, task_of
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.data_files import partition_of
from dpeer.federation.folders import naming
from dpeer.federation.load_model import load_model
from dpeer.federation.rank_lock import held
from dpeer.federation.settings import Settings
from dpeer.federation.summary import renew
from dpeer.peer import checkpoint
from dpeer.peer.core.wire import federation_id
from dpeer.peer.member_files import read_lists
from dpeer.privacy.ledger import FOLDER, current
from dpeer.results.effect import FEWEST_ROWS, Effect, effect_of
from dpeer.results.files import MODEL, SUMMARY, read_rows, write_json, write_rows
from dpeer.results.run_folders import read_object, read_peer_summary
from dpeer.results.sites import Site
from dpeer.results.summaries import PeerSummary
from dpeer.training import Task, class_counts
from dpeer.training.selection import ModelSelection

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
        CheckpointError: The data or the files are not those of the run.
        OutputError: The peer is running.
        TaskError: The task cannot be loaded, or its code raised.
    """
    summary = _summary(folder)
    with naming(folder), held(folder):
        found = _found(folder, summary, stopped, tell, device)
    renew(folder.parent)
    return found


def has_shared_rows(folder: Path) -> bool:
    """Whether the peers of a rank's run may have been compared on the same rows."""
    settings = read_object(folder / SUMMARY).get("settings") or {}
    return settings.get("test_split") == "shared"


def check_may_give_away(folder: Path, file: Path) -> None:
    """Refuse before a comparison is made for it what cannot be given away.

    Args:
        folder: A rank's folder.
        file: Where it is to be written.

    Raises:
        ConfigurationError: The run is private.
        OutputError: The file is a folder, or its folder is missing.
    """
    summary = read_peer_summary(folder)
    mode = None if summary is None else summary.settings.get("privacy")
    if mode not in (None, "none"):
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} is of a run with --privacy {mode}, and the gain is computed from records "
            "without noise: it stays at home"
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
    site = Site(
        str(file), dpeer.__version__, _federation(folder), size, version, tuple(members),
        int(read_object(folder / SUMMARY)["rank"]), summary.completed_rounds or 0, has_shared_rows(folder), effect,
    )  # fmt: skip
    try:
        write_json(file, site.to_json())
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
    return content


def _found(
    folder: Path,
    summary: Mapping[str, Any],
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
    device: str | None,
) -> Effect | None:
    known = effect_of(summary.get("worth"))
    if known is not None and known.verdict is not None:
        return known
    rounds = int(summary["completed_rounds"])
    config = _config(folder, summary, device)
    if config.host.threads is not None:
        torch.set_num_threads(config.host.threads)
    task = task_of(config)
    _check_data(folder, task, config, summary)
    beside = _beside(folder, task, config, rounds, finished=summary["status"] in _FINISHED)
    if beside.baseline is not None and rounds < config.training.rounds:
        tell(f"the run ended after {rounds} of {config.training.rounds} rounds: these are compared")
    beside.finish(stopped, tell)
    if beside.why == STOPPED:
        done = beside.baseline.completed if beside.baseline is not None else 0
        tell(f"stopped after {done} of {rounds} rounds of local-only training; the same command goes on")
        return None
    if beside.why is not None or beside.baseline is None:
        raise TaskError(f"{str(folder)!r}: no comparison: {beside.why}")
    entry, values = _joined(folder, task, config.run.evaluate_on, summary, beside)
    entry |= compared_with(beside, str(entry["measure"]), values)
    compute = beside.baseline.learner.about.compute

    def federated() -> AbstractContextManager[nn.Module]:
        return nullcontext(load_model(folder).module.to(compute.device))

    write_comparison(folder, summary, entry, federated, beside.baseline, summary)
    return effect_of(read_object(folder / SUMMARY).get("worth"))


def _config(folder: Path, summary: Mapping[str, Any], device: str | None) -> RunConfig:
    """The configuration that the peer has used."""
    try:
        settings = Settings.model_validate({**summary["settings"], "alone": "always"})
    except ConfigurationError as error:
        raise ConfigurationError(f"{str(folder / SUMMARY)!r} has settings of another version: {error}") from error
    if summary.get("rounds_mixed") == 0:
        raise ConfigurationError(
            f"{str(folder)!r}: in no round was a neighbor's body mixed, so federating cannot have changed anything"
        )
    used = settings if device is None else settings.model_copy(update={"device": device})
    config = resolve(used, int(summary["rank"]))
    if config.facts.shares == "nothing":
        raise ConfigurationError(
            f"{str(folder)!r}: with --algorithm {settings.algorithm} nothing was shared, so nothing can be compared"
        )
    return config


def _check_data(folder: Path, task: Task, config: RunConfig, summary: Mapping[str, Any]) -> None:
    """Refuse data that are not those of the run."""
    released = current(folder / FOLDER)
    content = content_of(task, private=config.privacy.privacy != "none")
    there: list[tuple[Any, Any]] = []
    if None not in (released.data, content):
        there.append((released.data, content))
    before = read_object(folder / "partition.json").get("sha256")
    if before is not None and task.indices is not None:
        places = {name: index.tolist() for name, index in task.indices.items()}
        there.append((before, partition_of(config.data.task, None, places, None)["sha256"]))
    on = summary["settings"].get("evaluate_on", "test")
    there += [
        (summary.get("evaluated_samples"), len(getattr(task, on))),
        (summary.get("class_counts"), class_counts(task, "train")),
        (summary.get("evaluated_class_counts"), class_counts(task, on)),
    ]
    if any(before != now for before, now in there):
        raise CheckpointError(
            f"{str(folder)!r}: the data of task {summary['settings'].get('task')!r} have changed since the run: a "
            "comparison needs the files that it has read"
        )


def _beside(folder: Path, task: Task, config: RunConfig, rounds: int, *, finished: bool) -> BaselineTraining:
    """The peer's baseline, as far as it is trained already."""
    copied = copy_for_baseline(task, config.run.alone, "")
    learner = learner_by_itself(task, config)
    keep: Literal["last", "best"] = "last" if config.run.keep == "last" else "best"
    beside = baseline_training(config, copied, learner, keep=keep, folder=folder, resume=True, later=True)
    assert beside is not None, "asked for"
    beside.end(rounds, finished=finished)
    return beside


def _joined(
    folder: Path,
    task: Task,
    on: Literal["test", "validation"],
    summary: Mapping[str, Any],
    beside: BaselineTraining,
) -> tuple[dict[str, Any], Sequence[float]]:
    """The entry as the run has left it, and the figure of each row of the model that it has kept.

    A run that was stopped has measured nothing row by row: that is done here.
    """
    known, rows = summary.get("worth") or {}, read_rows(folder)
    if rows is not None and known.get("measure") == rows[0]:
        return {**known, "why": None}, rows[1]
    module = load_model(folder).module
    assert beside.baseline is not None, "trained"
    compute = beside.baseline.learner.about.compute
    module.to(compute.device)
    found, own = ModelSelection(replace(task, model=module, lora=None), "last", on, compute).rows()
    if own is None:
        raise TaskError(f"{str(folder)!r}: the task's figures are no means over its rows, which a comparison needs")
    write_rows(folder, own.measure, own.values)
    entry = figures_of(found, own, summary, beside.baseline.learner.constant_loss)
    return entry | {"on": on, "rounds_mixed": summary.get("rounds_mixed")}, own.values


def _federation(folder: Path) -> str:
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    fingerprint = read_object(found / "state.json").get("fingerprint") if found else None
    if not fingerprint:
        raise CheckpointError(
            f"--give-away: {str(folder / checkpoint.FOLDER)!r} has no checkpoint, which has the federation's "
            "fingerprint"
        )
    return federation_id(fingerprint).hex()
