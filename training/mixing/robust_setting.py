"""The setting `--robust`, parsed; imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpeer.training.setting_text import shortest

Rule = Literal["none", "clip", "trimmed-mean", "median"]


@dataclass(frozen=True)
class Robust:
    """How a peer mixes so that hostile neighbors cannot carry it off.

    Attributes:
        rule: "none" is the weighted sum.
        radius: Of "clip": how far one body may pull, as a length; None where it follows from the bodies of the round.
        trim: Of "trimmed-mean": how many values are left out at either end.
    """

    rule: Rule = "none"
    radius: float | None = None
    trim: int = 0

    @classmethod
    def parse(cls, text: str) -> Robust:
        """Read none, clip, clip:TAU, trimmed-mean:F or median.

        Raises:
            ValueError: It is nothing of these.
        """
        rule, colon, number = text.partition(":")
        if rule in ("none", "median") and not colon:
            return cls("none" if rule == "none" else "median")
        if rule == "clip":
            radius = float(number) if colon else None
            if radius is None or 0 < radius < math.inf:
                return cls("clip", radius)
        if rule == "trimmed-mean" and number.isdecimal() and number.isascii() and int(number) > 0:
            return cls("trimmed-mean", trim=int(number))
        raise ValueError("expected none, clip, clip:TAU, trimmed-mean:F or median")

    def __str__(self) -> str:
        if self.rule == "trimmed-mean":
            return f"trimmed-mean:{self.trim}"
        return self.rule if self.radius is None else f"clip:{shortest(self.radius)}"


def check_robust(text: str) -> str:
    """The one text that means what this one means, so that peers can compare texts.

    Raises:
        ValueError: It cannot be read.
    """
    return str(Robust.parse(text))
