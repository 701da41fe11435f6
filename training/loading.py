"""Tasks by name: a built-in one, or a factory in a user's file or package, and validation data for one without any.

Whether a sample is held out follows from the seed, the rank and the sample alone, so it stays where it is whatever
samples come or go: from its values where they lie in memory, from its number where they are read by the user's code,
from its group where the task says groups. Equal samples, and those of a group, are never parted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset, TensorDataset

from dpeer import plugins
from dpeer.exceptions import ConfigurationError, TaskError, UnknownName
from dpeer.training.data.holdout import Indices, enough, hold_out_apart
from dpeer.training.errors import blame
from dpeer.training.initial import begin_from
from dpeer.training.lora.adapting import adapted
from dpeer.training.models import find_model, last_layer
from dpeer.training.payload import little_endian
from dpeer.training.randomness import LOCK, Purpose, seed_globals, stream
from dpeer.training.settings import DataSettings
from dpeer.training.task import Task
from dpeer.training.tasks import BUILTIN_TASKS, Choices
from dpeer.training.tasks.builtin import builtin_task


@contextmanager
def defaults_kept() -> Iterator[None]:
    """Whatever is set within it, afterwards torch's default type and device are as they were, and so are gradients.

    What a file sets when it is imported, which happens once in a process, is there before.
    """
    kind, device, gradients = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(kind)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_grad_enabled(gradients)


PLUGIN = plugins.Kind("task", "factory", "task", TaskError, inspect.isfunction)


def load_task(
    spec: str,
    rank: int,
    size: int,
    seed: int,
    options: Mapping[str, Any] | None = None,
    choices: Choices | None = None,
) -> Task:
    """Make the task of one rank.

    The global generators of torch, numpy and random are seeded right before the factory is called, so models that are
    built first come out equal on all ranks. A file is imported once in a process.

    Args:
        spec: A built-in task's name, ``path/to/file.py:factory`` or ``package.module:factory``.
        rank: This peer.
        size: Number of peers.
        seed: Decides how data are divided, and the model's first weights: the global generators are seeded with it. The
            factory gets it.
        options: Keyword arguments for the factory (``--task-option``).
        choices: What the user chose about the data and the model. A user's own factory divides its own data and brings
            its own model, so that only the head, a file of first weights, adapters (`--lora`) and a share to hold out
            for validation can be chosen.

    Raises:
        UnknownName: No built-in task, or no partition, of that name.
        TaskError: The task cannot be imported, does not take these options, raised, or did not return a `Task`.
        ConfigurationError: Choices that only a built-in task leaves, with a user's own one.
        PartitionError: The data cannot be divided as asked.
    """
    given, choices = dict(options or {}), choices or Choices()
    task = _loaded(spec, (rank, size, seed), given, choices)
    if spec not in BUILTIN_TASKS and choices.validation:
        task = with_validation(task, choices.validation, seed, rank, only_if_enough=choices.only_if_enough)
    if choices.init_from is not None:
        # Where all is shared, the last layer may be for other classes in the file, too.
        initial = begin_from(task.model, tuple(task.head) or (last_layer(task.model),), choices.init_from)
        task = replace(task, initial=initial, remarks=(*task.remarks, initial.line(choices.init_from)))
    if choices.lora is None:
        return task
    with LOCK:
        return adapted(task, choices.lora, seed)


def check_task_name(spec: str) -> None:
    """Refuse the name of a built-in task that does not exist.

    Raises:
        UnknownName: It is such.
    """
    if ":" not in spec and not spec.endswith(".py") and spec not in BUILTIN_TASKS:
        raise UnknownName("task", spec, BUILTIN_TASKS)


def _loaded(spec: str, place: tuple[int, int, int], given: dict[str, Any], choices: Choices) -> Task:
    check_task_name(spec)
    with LOCK:
        if spec in BUILTIN_TASKS:
            if choices.model is not None and (chosen := find_model(choices.model)).own:
                chosen.maker()  # a file may draw numbers while it is imported
            seed_globals(place[2])
            with defaults_kept():
                return builtin_task(spec, *place, given, choices)
        _check_own(spec, choices)
        with plugins.load(PLUGIN, spec) as factory:
            if not callable(factory):
                kind = type(factory).__name__
                raise TaskError(f"task {spec!r} is a {kind}, not a function that returns a Task")
            task = _made(spec, factory, place, given)
        return task if choices.head_prefixes is None else replace(task, head=choices.head_prefixes)


def _check_own(spec: str, choices: Choices) -> None:
    """Refuse settings that only built-in tasks have; a user's own task states these itself."""
    every = ("head", "init_from", "lora", *(() if choices.apart else ("validation",)))
    fields = ((name, field) for name, field in DataSettings.model_fields.items() if name not in every)
    others = ((name, field.get_default(call_default_factory=True)) for name, field in fields)
    chosen = next((name for name, default in others if getattr(choices, name) not in (default, False)), None)
    if chosen is None:
        return
    value = getattr(choices, chosen)
    flag = f"--{chosen.replace('_', '-')}" + ("" if value is True else f" {value}")
    raise ConfigurationError(
        f"{flag} is for built-in tasks ({', '.join(BUILTIN_TASKS)}): {spec!r} brings its own data and model; pass it "
        "a --task-option, and use dpeer.training.partition in the factory"
    )


def _made(spec: str, factory: Callable[..., Any], place: tuple[int, int, int], options: Mapping[str, Any]) -> Task:
    seed_globals(place[2])
    with blame(f"task {spec!r} failed"), defaults_kept():
        task = factory(*place, **options)
    if not isinstance(task, Task):
        raise TaskError(f"task {spec!r} returned a {type(task).__name__}; it must return a dpeer.training.Task")
    return task


def with_validation(task: Task, share: float, seed: int, rank: int, *, only_if_enough: bool) -> Task:
    """The task with validation data; the same where it brings some.

    Each sample, or group, is held out with the probability `share`; with `only_if_enough` none where that would be too
    few samples, or far too many.

    Raises:
        TaskError: Without `only_if_enough`: all samples would be held out, or none.
    """
    if task.validation is not None:
        return task
    count, key = len(task.train), stream(seed, Purpose.HOLD_OUT, rank, 1).bytes(16)
    held = hold_out_apart(_names(task), share, key)
    if only_if_enough and not enough(len(held), count, share):
        return task
    if not 0 < len(held) < count:
        raise TaskError(
            f"--validation {share:g} would hold out {len(held)} of the task's {count} training samples: give its "
            "Task(...) a data set `validation=`, or another share"
        )
    rest = np.delete(np.arange(count, dtype=np.int64), held)
    return replace(
        task, train=_rows(task.train, rest), validation=_rows(task.train, held), held_out=held,
        indices={"train": rest, "validation": held},
        groups=None if task.groups is None else task.groups[rest],
    )  # fmt: skip


def _names(task: Task) -> Sequence[bytes]:
    """The name of each training sample in the draw, in bytes; samples of one name are not parted."""
    if task.groups is not None:
        return [str(group).encode() for group in task.groups.tolist()]
    if _in_memory(task.train):
        return [blake2b(little_endian(row), digest_size=16).digest() for row in task.train.tensors[0]]
    return [place.to_bytes(8, "little") for place in range(len(task.train))]


def _in_memory(dataset: Any) -> bool:
    """Whether the samples are rows of tensors, and no code of the user's makes them."""
    return type(dataset) is TensorDataset and dataset.tensors[0].layout == torch.strided


def _rows(dataset: Any, index: Indices) -> Any:
    if not _in_memory(dataset):
        return Subset(dataset, index.tolist())
    rows = torch.from_numpy(index)
    return TensorDataset(*(tensor[rows] for tensor in dataset.tensors))
