"""Gradients that steps are made with: that of a minibatch's loss, or changed ones. They can be composed.

A gradient is called with the trainer, the part that is trained, and a minibatch. It leaves the
gradient in ``part.grad`` and returns the (unperturbed) loss, a scalar. Any function that does the same can be given to
`Trainer.fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpeer.training.flat import Flat
from dpeer.training.sgd import sam_gradient

if TYPE_CHECKING:
    from dpeer.training.minibatches import Batch
    from dpeer.training.trainer import Trainer

Gradient = Callable[["Trainer", Flat, "Batch"], Tensor]


def plain(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
    """The gradient of the task's loss."""
    return peer.gradient(part, batch)


def sam(rho: float, gradient: Gradient = plain) -> Gradient:
    """SAM: the gradient at w + rho g / ||g||, g being the one at w (Foret et al., ICLR 2021); two gradients a step.

    Args:
        rho: The perturbation's length, over the part that is trained; 0 for no perturbation.
        gradient: The gradient at w. At the perturbed place it draws the same numbers, and moves no running statistics.
    """
    if not rho:
        return gradient
    kept: Tensor | None = None

    def perturbed(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        nonlocal kept
        if kept is None or kept.shape != part.data.shape:
            kept = torch.empty_like(part.data)
        repeating = peer.repeating()

        def again() -> None:
            with repeating():
                gradient(peer, part, batch)

        return sam_gradient(part, lambda: gradient(peer, part, batch), rho, kept, again)

    return perturbed


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

    return pulled
