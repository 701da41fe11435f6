"""Augmentation by a task's own function: applies it to a minibatch's inputs, and checks shapes and types."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.device import mapped
from dpeer.training.errors import blame
from dpeer.training.task import Augment


def augmented(augment: Augment, inputs: Any, generator: np.random.Generator) -> Any:
    """A minibatch's inputs, changed at random.

    Raises:
        TaskError: The task's function raised, or gave something of another shape or type.
    """
    before = _kinds(inputs)
    with blame("the task's augment failed on a training batch"):
        changed = augment(inputs, generator)
    after = _kinds(changed)
    if after != before:
        raise TaskError(
            f"the task's augment turned inputs of {_words(before)} into {_words(after)}; shape, type and device must "
            "stay"
        )
    return changed


def _kinds(inputs: Any) -> list[tuple[object, ...]]:
    """Shape, type and device of every tensor in order; of any other value its type."""
    found: list[tuple[object, ...]] = []

    def note(tensor: Tensor) -> Tensor:
        found.append((tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), str(tensor.device)))
        return tensor

    mapped(inputs, note, lambda value: found.append((type(value).__name__,)))
    return found


def _words(kinds: list[tuple[object, ...]]) -> str:
    return "; ".join(" ".join(str(part) for part in kind) for kind in kinds) or "nothing"
