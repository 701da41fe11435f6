"""Check for losses that broadcast: outputs (n, 1) and targets (n,) must not be compared as an n x n matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from dpeer.exceptions import TaskError
from dpeer.training.metrics import predicts_values
from dpeer.training.task import Loss


def check_broadcast(loss: Loss, outputs: Any, targets: Any) -> None:
    """Refuse a loss that compares each output with the targets of all examples.

    Whether a loss brings the two into one shape itself is seen from what it makes of two made-up examples.

    Args:
        loss: The task's.
        outputs: A batch's outputs.
        targets: Its targets.

    Raises:
        TaskError: It does.
    """
    if not _paired(outputs, targets):
        return
    one, other = outputs.shape[1:], targets.shape[1:]
    if predicts_values(loss) or _broadcasts(loss, one, other, outputs.device):
        advice = "targets as .unsqueeze(1)" if len(one) > len(other) else "targets as .squeeze(1)"
        raise TaskError(
            f"the task's loss compares each output with all targets: the outputs have shape {tuple(outputs.shape)} and "
            f"the targets {tuple(targets.shape)}, which torch broadcasts to one table: give {advice}"
        )


def _paired(outputs: Any, targets: Any) -> bool:
    """Whether these are numbers and their targets, as many of each, in shapes that become a table of all pairs."""
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
        return False
    if not outputs.is_floating_point() or not outputs.ndim or not targets.ndim or len(outputs) != len(targets):
        return False
    one, other = Size((2, *outputs.shape[1:])), Size((2, *targets.shape[1:]))
    if one == other or one.numel() != other.numel():
        return False
    # As many values in other places: where the two can be broadcast at all, there is more than one for each pair.
    short, long = sorted((one, other), key=len)
    padded = (1,) * (len(long) - len(short)) + tuple(short)
    return all(1 in sides or sides[0] == sides[1] for sides in zip(padded, long, strict=True)) and padded != tuple(long)


def _broadcasts(loss: Loss, one: Size, other: Size, device: torch.device) -> bool:
    """Whether the mean over two examples is that of their losses in one shape, and another in the shapes they have."""
    outputs = torch.full((2, *one), 0.25, dtype=torch.float32, device=device)
    targets = torch.full((2, *other), 0.75, dtype=torch.float32, device=device)
    outputs[1], targets[1] = 0.75, 0.25
    try:
        with torch.no_grad():
            same = outputs.reshape(targets.shape)
            alone = (loss(same[:1], targets[:1]) + loss(same[1:], targets[1:])) / 2
            together, aligned = loss(outputs, targets), loss(same, targets)
            return bool(torch.isclose(aligned, alone)) and not bool(torch.isclose(together, alone))
    except Exception:  # the task's code, which need not know such shapes
        return False
