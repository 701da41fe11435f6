"""The setting `--outer`, parsed; imports no torch."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

from dpeer.training.setting_text import shortest

FORM = "none or nesterov:LR:MOMENTUM, for example nesterov:0.7:0.9"


@dataclass(frozen=True)
class Outer:
    """The outer optimizer; learning rate 1 without momentum is no outer step at all.

    Attributes:
        lr: The outer learning rate, above 0.
        momentum: Nesterov's momentum, from 0 to below 1.
    """

    lr: float = 1.0
    momentum: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Outer:
        """Read none or nesterov:LR:MOMENTUM.

        Raises:
            ValueError: It is neither, or a number is beyond its limits.
        """
        if text == "none":
            return cls()
        kind, *numbers = text.split(":")
        if kind == "nesterov" and len(numbers) == 2:
            with contextlib.suppress(ValueError):
                lr, momentum = (float(number) for number in numbers)
                if 0 < lr < math.inf and 0 <= momentum < 1:
                    return cls(lr, momentum)
        raise ValueError(f"expected {FORM}; LR is above 0, MOMENTUM from 0 to below 1")

    @property
    def plain(self) -> bool:
        """Whether the body is what mixing gave."""
        return self.lr == 1 and self.momentum == 0

    def __str__(self) -> str:
        return "none" if self.plain else f"nesterov:{shortest(self.lr)}:{shortest(self.momentum)}"

    def late_share(self) -> float:
        """The share of a difference that is one round late to mix in, at most a half.

        Along an eigenvector of W with eigenvalue l a round without training multiplies what peers disagree about by the
        roots of z^3 - (1 + m) z^2 + (m + k (1 + m)) z - k m, k = lr share (1 - l). By Jury's criterion they are within
        the unit circle where m^2 k^2 + (1 - m^2) k < 1 - m. The share is the largest for which that holds for every l
        above -1, so for any symmetric W.
        """
        m = self.momentum
        most = 2 * (1 - m) / (1 - m * m + math.sqrt((1 - m * m) ** 2 + 4 * m * m * (1 - m)))
        return min(0.5, most / (2 * self.lr))


def check_outer(text: str) -> str:
    """The one text that means what this one means, so that peers can compare texts.

    Raises:
        ValueError: It cannot be read.
    """
    return str(Outer.parse(text))
