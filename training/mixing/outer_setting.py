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


def check_outer(text: str) -> str:
    """The one text that means what this one means, so that peers can compare texts.

    Raises:
        ValueError: It cannot be read.
    """
    return str(Outer.parse(text))
