"""The notes that a peer prints before its first round: values used, data, device, questionable settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpeer.federation.config import VALIDATION, RunConfig
from dpeer.federation.presets import find_preset
from dpeer.federation.settings import default_of
from dpeer.training import ALGORITHMS, Task, TorchLearner
from dpeer.training.data.holdout import FEWEST
from dpeer.training.state.store import Origin
from dpeer.training.use.blend import why_unsuited

_LARGE = 20.0
"""Inputs of a table beyond this are most likely not scaled."""
_TRAINING = (
    "body_lr", "lr_decay", "momentum", "grad_clip", "body_epochs", "batch_size", "optimizer", "lr_schedule",
    "weight_decay", "local_steps", "compress", "participation", "participation_mode", "robust", "max_norm",
)  # fmt: skip
_FEW_ROWS = 10
"""Below this number of evaluation rows, a note warns that no comparison can be significant (`paired_bootstrap`)."""


def notes(
    config: RunConfig,
    task: Task,
    learner: TorchLearner,
    facts: Mapping[str, Any],
    promises: Sequence[str],
    *,
    lacking: bool = False,
) -> Iterator[str]:
    """The notes, a line each.

    Args:
        config: The peer's.
        task: The peer's task.
        learner: The peer's learner.
        facts: What summary.json says of the run, its settings among them.
        promises: The lines about privacy.
        lacking: Whether validation data were to be held out by default, and could not be.
    """
    settings, algorithm, about = facts["settings"], config.algorithm, learner.about
    private = settings["privacy"] != "none"
    yield (
        f"{settings['algorithm']} on {settings['task']}: {about.samples} training samples, body of "
        f"{about.body_parameters:,} parameters, head of {about.head_parameters:,}"
    )
    if settings["preset"] is not None:
        preset = find_preset(settings["preset"])
        values = preset.values_for(settings["algorithm"])
        others = [name for name, value in values.items() if settings[name] != value]
        yield f"preset {settings['preset']}: {preset.words_for(settings['algorithm'], *others)}; {preset.remark}"
    yield from _changed(config, learner, settings)
    yield from _choosing(task, learner, settings["keep"], lacking=lacking)
    yield from task.remarks
    if not (compute := about.compute).on_host:
        yield f"on {compute.device} ({compute.device_name})"
    if settings["training_accuracy"] and private:
        yield (
            "training-accuracy: it is read off training records without noise, so no epsilon covers it; it stays in "
            "this peer's metrics.jsonl and summary.json"
        )
    if config.topology.declared and private:
        words = "all peers know what each rank brings, and no epsilon covers it: declare rounded numbers"
        yield f"weights declared: {words}"
    if task.names.get("input columns") and not settings["standardize"] and (largest := _largest(task, 0)) > _LARGE:
        yield f"inputs go up to {largest:g}: training may diverge; --standardize scales every column"
    yield from _few(facts, settings["evaluate_on"])
    target = None if task.preparation is None else task.preparation.schema.target
    if target is not None and not target.classes and (largest := _largest(task, 1)) > _LARGE:
        yield (
            f"{target.column} goes up to {largest:g}: training may diverge; give it in a larger unit, or lower "
            "the learning rates"
        )
    if not about.shares:
        yield "nothing leaves this peer: it trains alone"
    elif learner.algorithm.shares == "model" and task.head:
        yield (
            f"{learner.algorithm.leaves} leaves this peer with {settings['algorithm']}, the task's head "
            f"({', '.join(task.head)}) included"
        )
    unused = {name for other in ALGORITHMS.values() for name in other.uses} - {*algorithm.uses}
    if not about.shares:
        unused |= {"compress", "robust", "max_norm"}
    for name in sorted(unused & {*config.given}):
        yield f"{_value(name, settings)} has no effect with {settings['algorithm']}"
    yield from promises
    if about.one_by_one:
        yield (
            "each record's gradient is computed by itself, which takes about three times as long: of this model's or "
            "loss's code it is not known that records stay apart (models made of torch's own modules are computed "
            "together; Task(vmap=True) says it of yours, see docs/tasks.md)"
        )
    if private and task.initial is not None and task.initial.origin is Origin.NONE:
        yield (
            f"--init-from {config.data.init_from}: a run without --privacy has trained these weights: the records that "
            "it used are not protected by this run, so they must be public"
        )


def _choosing(task: Task, learner: TorchLearner, keep: str, *, lacking: bool) -> Iterator[str]:
    """A line on how the model that is kept is chosen, and why none is where that is the default."""
    if keep != "last":
        rows, where = len(task.validation), "that the task brings"
        if task.held_out is not None:
            where = f"held out of {rows + learner.about.samples} for training (--keep last trains on all of them)"
        which, why = "the model with the least loss on validation data", why_unsuited(task)
        if keep == "blend" and why is None:
            which = "a blend of the federated and the local-only model, weighted by validation data,"
        line = f"{which} is kept: {rows} samples, {where}"
        yield f"no blend: {why}; {line}" if keep == "blend" and why is not None else line
    elif lacking:
        yield (
            f"nothing is held out for validation, so the last round's model is kept: {VALIDATION:.0%} of "
            f"{learner.about.samples} training samples are fewer than {FEWEST}, or part what belongs together"
        )


def _few(facts: Mapping[str, Any], evaluate_on: str) -> Iterator[str]:
    """Lines on classes and test rows that are too few to learn or to tell anything from."""
    counts = facts["class_counts"] or ()
    names = facts["class_names"] or list(map(str, range(len(counts))))
    lone = [names[number] for number, count in enumerate(counts) if count == 1]
    if len(there := [number for number, count in enumerate(counts) if count]) == 1:
        yield f"all training rows are of class {names[there[0]]}: this peer's data cannot tell any other from it"
    elif lone:
        some = ", ".join(lone[:8]) + (f" and {len(lone) - 8} others" if len(lone) > 8 else "")
        yield f"only one training row of class{'es' if len(lone) > 1 else ''} {some}: too few to learn from"
    if (rows := facts["evaluated_samples"]) < _FEW_ROWS:
        many = "one row" if rows == 1 else f"{rows} rows"
        yield f"the {evaluate_on} set has {many}: an accuracy on it goes in steps of {1 / rows:.3g} and tells little"


def _changed(config: RunConfig, learner: TorchLearner, settings: Mapping[str, Any]) -> Iterator[str]:
    """A line on the values that are not those of `dpeer settings`; a default that follows from others is none such."""
    names = [
        name
        for name in (*_TRAINING, *config.algorithm.uses)
        if (name in config.given if (default := default_of(name)) is None else settings[name] != default)
    ]
    own = [f"{name} {value}" for name, value in (settings["algorithm_options"] or {}).items()]
    found = [*(_value(name, settings) for name in names), *own]
    if settings["finish"] != default_of("finish") and learner.about.finish_rate is not None:
        found.append(f"finish {settings['finish']} at rate {learner.about.finish_rate:.2g}")
    if found:
        yield f"not at their defaults: {', '.join(found)}"


def _largest(task: Task, part: int) -> float:
    """The largest absolute value of the training inputs (0) or targets (1)."""
    return float(task.train.tensors[part].abs().max())


def _value(name: str, settings: Mapping[str, Any]) -> str:
    value = settings[name]
    shown = f"{value:g}" if isinstance(value, float) else "off" if value is None else value
    return f"{name.replace('_', '-')} {shown}"
