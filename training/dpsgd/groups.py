"""Adding up the clipped gradients of groups of examples, such as a patient's records."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dpeer.privacy.mechanism import LONGEST
from dpeer.training.dpsgd.gradient_factors import Computed, lengths_of

_CANCELLING = 1e-3
"""A group's gradient is clipped as if it were at least this part of the mean length of its examples' gradients.

Where these are huge and nearly cancel, what is left of them is mostly their last bits, and these may depend on who is
computed beside them: on 1e-6 of their lengths, which is then less than `_MARGIN` leaves of the clip norm. It changes no
group whose examples' gradients are less than a thousand times as long as the clip norm."""


class Groups:
    """Adds the clipped gradients of groups, whose examples lie one after the other in a batch.

    Each group's gradient is added up in the order of its examples, in float64 and by itself, so that it does not depend
    on the other groups, or on where a piece of the batch ends.

    Args:
        units: Whose each example is, shape (examples,), ascending.
        total: Where the gradients are added.
    """

    def __init__(self, units: Tensor, total: Tensor) -> None:
        self._units, self._sizes = units.tolist(), torch.bincount(units).tolist()
        self._total, self._sum = total, torch.zeros_like(total)
        self._lengths, self._at = 0.0, 0

    def add(self, found: Computed, count: int, factors: Callable[[Tensor], Tensor]) -> None:
        """Take the next examples.

        Args:
            found: Their gradients.
            count: How many there are.
            factors: What to multiply groups' gradients of such lengths by; called once for each group.
        """
        for number, norm in enumerate(found.norms()[:count].tolist()):
            # One that is not finite, or whose values may be none in float32, is left out whatever the others are like.
            if norm <= LONGEST:
                self._sum += found.row(number)
                self._lengths += norm
            unit, self._at = self._units[self._at], self._at + 1
            if self._at == len(self._units) or self._units[self._at] != unit:
                self._end(self._sizes[unit], factors)

    def _end(self, size: int, factors: Callable[[Tensor], Tensor]) -> None:
        """Add the group of which all examples have been taken."""
        self._sum /= size
        length = lengths_of(self._sum[None]).clamp(min=_CANCELLING * self._lengths / size)
        if factor := float(factors(length)):  # zero times infinity is no zero
            self._total += self._sum.mul_(factor)
        self._sum.zero_()
        self._lengths = 0.0
