"""Gradients that steps are made with: that of a minibatch's loss, or changed ones; they can be composed.

A gradient is called with the trainer, the part that is trained, and a minibatch. It leaves the
gradient in ``part.grad`` and returns the (unperturbed) loss, a scalar. Any function that does the same can be given to
`Trainer.fit`. One that computes more than one gradient of the loss on a batch has an attribute ``looks`` that says how
many: privacy at sample level pays for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.privacy.sample_level import Ascent
from dpeer.training.flat import Flat
from dpeer.training.sgd import climbed, sam_gradient

if TYPE_CHECKING:
    from dpeer.training.minibatches import Batch
    from dpeer.training.trainer import Trainer

Gradient = Callable[["Trainer", Flat, "Batch"], Tensor]


def plain(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
    """The gradient of the task's loss."""
    return peer.gradient(part, batch)


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

    def perturbed(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        if peer.ascent == "same-batch":
            return on_the_same_batch(peer, part, batch)
        nonlocal before
        if before is not None and before[0] is part:
            with climbed(part, before[1], rho):
                loss = gradient(peer, part, batch)
        else:
            loss = gradient(peer, part, batch)
        before = part, part.grad.clone()
        return loss

    def on_the_same_batch(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        nonlocal kept
        if kept is None or kept.shape != part.data.shape:
            kept = torch.empty_like(part.data)
        repeating = peer.repeating()

        def again() -> None:
            with repeating():
                gradient(peer, part, batch)

        return sam_gradient(part, lambda: gradient(peer, part, batch), rho, kept, again)

    perturbed.looks = 2 * looks(gradient)  # type: ignore[attr-defined]
    perturbed.looks_of_previous = looks(gradient)  # type: ignore[attr-defined]
    return perturbed


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

    def pulled(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        loss = gradient(peer, part, batch)
        part.grad.add_(part.data - towards, alpha=strength)
        return loss

    pulled.looks = looks(gradient)  # type: ignore[attr-defined]
    pulled.looks_of_previous = looks(gradient, "previous")  # type: ignore[attr-defined]
    return pulled
