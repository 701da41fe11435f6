"""Gradients that steps are made with: that of a minibatch's loss, or changed ones; they can be composed.

A gradient is called with the trainer, the part that is trained, and a minibatch. It leaves the
gradient in ``part.grad`` and returns the (unperturbed) loss, a scalar. Any function that does the same can be given to
`Trainer.fit`. One that computes more than one gradient of the loss on a batch has an attribute ``looks`` that says how
many: privacy at sample level pays for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.privacy.guarantee import Ascent
from dpeer.training.batch_loader import Batch
from dpeer.training.flat import Flat

Gradient = Callable[[Any, Flat, Batch], Tensor]

_TINY = 1e-12  # as in the published code: a gradient whose norm underflows must not be blown up, a zero one not be NaN


def plain(peer: Any, part: Flat, batch: Batch) -> Tensor:
    """The gradient of the task's loss."""
    loss: Tensor = peer.gradient(part, batch)
    return loss


def sam(rho: float, gradient: Gradient = plain) -> Gradient:
    """SAM: the gradient at w + rho g / ||g||, g being the one at w (Foret et al., ICLR 2021); two gradients a step.

    Where the peer's `ascent` is "previous", g is the gradient of the step before, so that a step takes one gradient:
    with privacy at sample level a second one on the same batch has to be paid for. The first step of a phase has none
    before it and is not perturbed.

    Args:
        rho: The perturbation's length, over the part that is trained; 0 for no perturbation.
        gradient: The gradient at w. At the perturbed place it draws the same numbers, and moves no running statistics.
    """
    if not rho:
        return gradient
    kept: Tensor | None = None
    before: tuple[Flat, Tensor] | None = None

    def perturbed(peer: Any, part: Flat, batch: Batch) -> Tensor:
        nonlocal kept, before
        if kept is None or kept.shape != part.data.shape:
            kept = torch.empty_like(part.data)
        if peer.ascent == "same-batch":
            repeating = peer.repeating()
            loss = gradient(peer, part, batch)
            with climbed(part, part.grad, rho, kept), repeating():
                gradient(peer, part, batch)
            return loss
        if before is not None and before[0] is part:
            with climbed(part, before[1], rho, kept):
                loss = gradient(peer, part, batch)
        else:
            loss = gradient(peer, part, batch)
        before = part, part.grad.clone()
        return loss

    perturbed.looks = 2 * looks(gradient)  # type: ignore[attr-defined]
    perturbed.looks_of_previous = looks(gradient)  # type: ignore[attr-defined]
    return perturbed


@contextmanager
def climbed(part: Flat, direction: Tensor, rho: float, kept: Tensor) -> Iterator[None]:
    """Context in which the parameters are at w + rho d / ||d||; afterwards they have the very bits they had before.

    Foret et al., Sharpness-Aware Minimization, ICLR 2021, equations 2 and 3. The norm is over all of `part`.

    Args:
        part: The perturbed parameters.
        direction: d, shape (count,).
        rho: The perturbation's length.
        kept: Room for a copy of the parameters, shape (count,).
    """
    kept.copy_(part.data)
    part.data.addcmul_(direction, rho / torch.linalg.vector_norm(direction).clamp_min(_TINY))
    try:
        yield
    finally:
        part.data.copy_(kept)


def looks(gradient: Gradient, ascent: Ascent = "same-batch") -> int:
    """How many gradients of the loss a rule computes on one batch: what it says by its attribute `looks`, or 1.

    Raises:
        AlgorithmError: It says something that is no such number.
    """
    stated = getattr(gradient, "looks", 1)
    if ascent == "previous":
        stated = getattr(gradient, "looks_of_previous", stated)
    if type(stated) is not int or stated < 1:
        raise AlgorithmError(f"a gradient rule states looks = {stated!r} gradients on a batch; it must be 1 or more")
    return stated


def proximal(strength: float, towards: Tensor, gradient: Gradient = plain) -> Gradient:
    """The gradient of the loss plus strength / 2 ||w - towards||^2: a pull towards some values.

    Args:
        strength: How strong it is.
        towards: The values, shape (part.count,).
        gradient: The gradient of the loss.
    """

    @wraps(gradient)  # with what it says of its looks
    def pulled(peer: Any, part: Flat, batch: Batch) -> Tensor:
        loss = gradient(peer, part, batch)
        part.grad.add_(part.data - towards, alpha=strength)
        return loss

    return pulled
