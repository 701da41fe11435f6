"""The numbers that steer local training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hyperparameters:
    """What every algorithm's local steps are made with; the command line checks the ranges.

    The defaults suit small models; the papers' values are presets. Round t (from 0) uses a learning rate times
    ``lr_decay ** t``, for body and head alike.

    Attributes:
        body_lr: Learning rate of the body, and of the whole model where an algorithm trains it jointly.
        head_lr: Learning rate of the head.
        momentum: PyTorch's momentum (no dampening, no Nesterov); zero at the start of each phase.
        lr_decay: What both learning rates are multiplied with after each round.
        body_epochs: Passes over the training data a round with the body (or the whole model).
        head_epochs: Passes over the training data a round with the head.
        batch_size: Samples per step; the short last batch is kept.
        rho: Radius of SAM's perturbation, where an algorithm uses SAM.
        weight_decay: PyTorch's coupled weight decay (L2), added to the gradient.
    """

    body_lr: float = 0.05
    head_lr: float = 0.05
    momentum: float = 0.9
    lr_decay: float = 0.995
    body_epochs: int = 5
    head_epochs: int = 1
    batch_size: int = 32
    rho: float = 0.05
    weight_decay: float = 0.0
