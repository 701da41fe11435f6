"""What a user may choose about a built-in task."""

from __future__ import annotations

from dataclasses import dataclass

from dpeer.training.settings import TestSplit


@dataclass(frozen=True)
class Choices:
    """How a built-in task's data are divided and what is trained on them.

    Attributes:
        partition: Who gets which samples; None for the task's own default.
        test_split: Whether a test sample is one peer's alone ("disjoint"), or several may draw it ("shared").
        validation: Share of each peer's training samples to hold out for validation; 0 for none.
        model: One of `dpeer.training.models.MODELS`; None for the task's own default.
        head: Name prefixes of the parameters that stay at home; None for the last linear layer.
        augment: Whether to crop and flip training images at random.
        standardize: Whether to scale inputs by the mean and deviation of the peer's own training samples.
    """

    partition: str | None = None
    test_split: TestSplit = "disjoint"
    validation: float = 0.0
    model: str | None = None
    head: tuple[str, ...] | None = None
    augment: bool = False
    standardize: bool = False
