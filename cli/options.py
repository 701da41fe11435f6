"""click options made from `Settings`, so that a setting is described once."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click

from dpeer.cli.config import parse_option
from dpeer.cli.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

GRAPH = (
    "topology", "size", "weights", "grid_shape", "degree", "rewire", "edge_probability", "fresh_neighbors",
    "graph_seed",
)  # fmt: skip
TRAINING = (
    "task", "partition", "test_split", "validation", "model", "head", "augment", "standardize", "algorithm", "preset",
    "rounds", "seed", "seed_partition", "seed_init", "seed_batches", "participation", "body_lr", "head_lr", "lr_decay",
    "lr_schedule",
    "momentum", "weight_decay", "grad_clip", "rho", "sam", "body_epochs", "head_epochs", "local_steps", "batch_size",
    "quantize", "wire_dtype", "finetune_epochs", "ditto_lambda", "sparsity", "prune_rate", "privacy", "target_epsilon",
    "noise_multiplier", "clip_norm", "delta", "dp_adversary", "dp_min_honest", "dp_adjacency", "sparsify",
)  # fmt: skip
RUN = ("evaluate_every", "evaluate_on", "keep", "out", "device", "amp", "channels_last", "log_level")


def setting_options(*names: str) -> Callable[[F], F]:
    """Options for these settings. One that is not given is None, so that the federation file can speak."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def run_options(command: F) -> F:
    """What start, cluster and simulate have in common besides settings."""
    decorators = [
        click.option(
            "--federation", type=click.Path(dir_okay=False, path_type=Path),
            help="Federation file (TOML); ./dpeer.toml is used when it exists.",
        ),
        task_option,
        click.option("--resume", is_flag=True, help="Continue a stopped run from its last completed round."),
        click.option("--overwrite", is_flag=True, help="Remove an earlier run from the output folder."),
        click.option(
            "--new-data", is_flag=True,
            help="The data are others than those of earlier runs in the output folder: what these released does not "
            "count.",
        ),
    ]  # fmt: skip
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def task_option(command: F) -> F:
    """`--task-option`."""
    return click.option(
        "--task-option", "task_options", multiple=True, metavar="KEY=VALUE", callback=_task_options,
        help="An option for the task's factory; repeatable.",
    )(command)  # fmt: skip


def _option(name: str) -> Callable[[F], F]:
    field = Settings.model_fields[name]
    kind = _without_none(field.annotation)
    text = f"{field.description[:1].upper()}{field.description[1:]}." if field.description else ""
    if field.default is not None and kind is not bool:
        text += f"  [default: {field.default}]"
    flag = f"--{name.replace('_', '-')}"
    if kind is bool:
        return click.option(flag, name, is_flag=True, default=None, help=text)
    return click.option(flag, name, type=_click_type(kind), default=None, help=text)


def _click_type(kind: Any) -> Any:
    if get_origin(kind) is Literal and all(isinstance(value, str) for value in get_args(kind)):
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path)
    # Ranges, patterns and choices of numbers are checked by pydantic, in one place with those of the file.
    return int if get_origin(kind) is Literal else kind if kind in (int, float) else str


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _task_options(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    return dict(parse_option(value) for value in values)


def baseline_option(command: F) -> F:
    """`--baseline`, of the commands that run a whole federation."""
    return click.option(
        "--baseline", metavar="ALGORITHM",
        help="Afterwards train the same peers with this algorithm (in this process) and compare, e.g. local.",
    )(command)  # fmt: skip
