"""The numbers that steer local training."""

from __future__ import annotations

from dataclasses import dataclass

from dpeer.training.settings import SamOn, WireDtype


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
        grad_clip: The longest gradient that a step is made with (the published code's guard is 10); None for no limit.
        local_steps: Minibatches that `body_epochs` stands for, whatever the number of samples; other phases are scaled
            alike. None to count epochs.
        rounds: How many rounds are planned, for schedules that end with the run.
        sam: Which phases of `dfedsmdc` take SAM steps.
        finetune_epochs: Epochs of `fedbabu` on the whole model, after the last message.
        ditto_lambda: How strongly `ditto` pulls the personal model towards the shared one.
        sparsity: Share of the weights that `dis-pfl` holds at zero.
        prune_rate: Share of the weights held that `dis-pfl` exchanges in the first round (its alpha).
        quantize: Bits per value of what travels, 4, 8 or 16; None for floats.
        wire_dtype: As which floats values travel.
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
    grad_clip: float | None = None
    local_steps: int | None = None
    rounds: int = 20
    sam: SamOn = "body"
    finetune_epochs: int = 5
    ditto_lambda: float = 0.75
    sparsity: float = 0.5
    prune_rate: float = 0.5
    quantize: int | None = None
    wire_dtype: WireDtype = "float32"
