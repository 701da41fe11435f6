"""Turning errors of a user's code into the one line that the user needs."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.exceptions import DpeerError, TaskError, describe, system_error
from dpeer.training.layouts import type_of


@contextmanager
def blame(what: str, hint: Callable[[], str] = lambda: "", kind: type[DpeerError] = TaskError) -> Iterator[None]:
    """Report whatever a user's code raises as one error; its traceback stays attached for ``--debug``.

    Args:
        what: The start of the message: whose code it was and what it was doing.
        hint: Called for the end of the message: the remedy, if one is known.
        kind: The class of the error that is raised.

    Raises:
        DpeerError: Of the class `kind`: the block raised something that is not dpeer's own.
    """
    try:
        yield
    except DpeerError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may well exit
        advice = "" if system_error(error) else hint()
        raise kind(f"{what}: {describe(error)}{f' ({advice})' if advice else ''}") from error


def lone_sample_hint(model: nn.Module, samples: int, batch_size: int) -> str:
    """Advice if the error being handled is that of batch statistics of one sample; empty for another.

    Args:
        model: What failed.
        samples: The number of training samples.
        batch_size: How many a minibatch has, but for the last.
    """
    error = sys.exception()
    if not isinstance(error, ValueError) or "more than 1 value per channel" not in str(error):
        return ""
    names = {id(module): f" {name!r}" if name else "" for name, module in model.named_modules()}
    run = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    who = next((f"{type(it).__name__}{names[id(it)]}" for it in run[::-1] if id(it) in names), "batch normalisation")
    if batch_size == 1:
        return f"{who} needs two samples a minibatch: choose a larger --batch-size than 1, or use torch.nn.GroupNorm"
    return (
        f"{who} needs two samples a minibatch, and {samples} training samples in minibatches of {batch_size} leave one "
        "over: choose a --batch-size that does not, or use torch.nn.GroupNorm"
    )


def batch_hint(inputs: Any) -> str:
    """The probable fault of the inputs of a batch on which the model failed; empty if none shows."""
    if isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], str):
        return "the inputs are text: turn them into numbers in the dataset"
    if isinstance(inputs, Tensor) and inputs.dtype in (torch.float64, torch.float16, torch.bfloat16, torch.uint8):
        return f"the inputs are {_name(inputs)}, the model float32: give inputs as .float()"
    return ""


def loss_hint(targets: Any, outputs: Any) -> str:
    """The probable fault of a batch on which the loss failed, or of its outputs; empty if none shows.

    Args:
        targets: The batch's targets.
        outputs: What the model made of its inputs.
    """
    if not isinstance(outputs, Tensor):
        return _output_hint(outputs)
    if kind := type_of(outputs):
        return f"the model gives a {kind} tensor: have forward return a dense one"
    if isinstance(targets, list | tuple) and targets and isinstance(targets[0], str):
        return "the targets are text: give class numbers 0, 1, ..."
    if not isinstance(targets, Tensor) or not targets.numel():
        return ""
    if hint := _shape_hint(outputs, targets):
        return hint
    if outputs.ndim < 2:
        return ""
    if targets.is_floating_point() and (*targets.shape, 1) == outputs.shape:
        return (
            f"the outputs have shape {_shape(outputs)} and the targets {_shape(targets)}: give targets as .unsqueeze(1)"
        )
    if targets.shape == outputs.shape[:1] + outputs.shape[2:]:
        if targets.dtype != torch.int64:
            return f"the targets are {_name(targets)}: give class numbers as .long(), or the task a `loss` for others"
        lowest, highest, classes = int(targets.min()), int(targets.max()), outputs.shape[1]
        if lowest < 0 or highest >= classes:
            return f"the targets run from {lowest} to {highest}, the model has {classes} outputs: classes count from 0"
    return ""


def _output_hint(outputs: Any) -> str:
    """Advice on a model that gives something else than a tensor."""
    if isinstance(outputs, Mapping):
        keys = ", ".join(map(repr, outputs))
        return f"the model gives a dict of {keys}: have forward return one tensor, or the task's `loss` take the dict"
    if isinstance(outputs, tuple | list):
        kind = type(outputs).__name__
        return (
            f"the model gives a {kind} of {len(outputs)}: have forward return one tensor, or the task's `loss` take "
            f"the {kind}"
        )
    kind = "nothing" if outputs is None else f"a {type(outputs).__name__}"
    return f"the model gives {kind}: have forward return a tensor"


def not_differentiable_hint(loss: Tensor, outputs: Any = None) -> str:
    """The probable fault of a loss that cannot be differentiated; empty if none shows.

    Args:
        loss: The loss.
        outputs: The model's outputs.
    """
    if loss.requires_grad:
        return ""
    if isinstance(outputs, Tensor) and outputs.requires_grad:
        return (
            "the loss does not follow from the outputs: compute it with gradients enabled, and without .item(), "
            ".detach(), .argmax() or numpy"
        )
    return (
        "the loss follows from no parameter that is trained: leave torch.no_grad(), torch.set_grad_enabled(False) and "
        ".detach() out of the model's forward"
    )


def as_tensor(loss: Any) -> Tensor:
    """The value of a task's loss, if that is a tensor.

    Raises:
        TaskError: It is something else.
    """
    if not isinstance(loss, Tensor):
        raise TaskError(
            f"the task's loss gave a {type(loss).__name__}; it must give a tensor, which training differentiates: "
            "leave out .item() and numpy"
        )
    return loss


def _shape_hint(outputs: Tensor, targets: Tensor) -> str:
    """The fault of shapes that cross-entropy cannot take together; empty if it can."""
    if targets.is_floating_point() or not outputs.ndim:
        return ""
    shapes = f"the outputs have shape {_shape(outputs)} and the targets {_shape(targets)}"
    want = "(rows, classes, ...) and (rows, ...)"
    if outputs.ndim == 1:
        return f"{shapes}: classes go in dimension 1 of the outputs, which lack it; cross-entropy takes {want}"
    if (
        targets.shape == outputs.shape[:-1]
        and outputs.ndim > 2
        and targets.shape != outputs.shape[:1] + outputs.shape[2:]
    ):
        return f"{shapes}: classes go in dimension 1, and here are in the last: give outputs.movedim(-1, 1)"
    if targets.shape == (*outputs.shape[:1], 1) and outputs.ndim == 2:
        return f"{shapes}: give the targets as .squeeze(1); cross-entropy takes {want}"
    if targets.ndim + 1 != outputs.ndim or targets.shape[0] != outputs.shape[0]:
        return f"{shapes}: classes go in dimension 1; cross-entropy takes {want}"
    return ""


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
