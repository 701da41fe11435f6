"""Turning errors of a user's code into the one line that the user needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import DpeerError, TaskError, describe, system_error


@contextmanager
def blame(what: str, hint: Callable[[], str] = lambda: "", kind: type[DpeerError] = TaskError) -> Iterator[None]:
    """Report whatever a user's code raises as one error; its traceback stays attached for ``--debug``.

    The message begins with whose code it was and what it was doing, and ends with the remedy, if the hint knows one.

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


def described(**values: Any) -> str:
    """What the values are, by name: types of tensors with their shapes, in the structures that hold them."""
    return "; ".join(f"{name} {kind_of(value)}" for name, value in values.items())


def kind_of(value: Any) -> str:
    """Type and shape of a tensor, or the type of anything else; with those of what a structure holds."""
    if isinstance(value, Tensor):
        shape = "of several shapes" if value.is_nested else tuple(value.shape)
        layout = "" if value.layout is torch.strided else f" {value.layout}"
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{value.dtype} {shape}{layout}{device}".replace("torch.", "")
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"{kind} of {', '.join(f'{key!r}: {kind_of(one)}' for key, one in value.items())}"
    if isinstance(value, tuple | list):
        return f"{kind} of {len(value)}: {', '.join(dict.fromkeys(map(kind_of, value)))}"
    return kind


def scalar(loss: Any) -> Tensor:
    """The value of a task's loss, of a batch or of one example, as a scalar.

    Raises:
        TaskError: It is no tensor of one number.
    """
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise TaskError(f"the task's loss gave {kind_of(loss)}; it must give one number, as a tensor: the mean")
    return loss.reshape(())
