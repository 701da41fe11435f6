"""The text of `--finish`: what is trained at home after the last mixing; imports no torch."""

from __future__ import annotations

import math
from typing import NamedTuple

EXPECTED = "none, head:E, all:E or all:E,RATE, for example head:5 or all:5,0.01"


class Finish(NamedTuple):
    """What `--finish` asks for.

    Attributes:
        part: "none", "head" or "all", the whole model.
        epochs: How many.
        rate: The learning rate; None for a share of the last round's.
    """

    part: str
    epochs: int
    rate: float | None

    @classmethod
    def parse(cls, text: str) -> Finish:
        """Read none, PART:E or PART:E,RATE.

        Raises:
            ValueError: It is something else.
        """
        if text == "none":
            return cls("none", 0, None)
        what, comma, rate = text.partition(",")
        part, _, epochs = what.partition(":")
        found = cls(part, int(epochs), float(rate) if comma else None)
        whole = part in ("head", "all") and epochs.isdecimal() and found.epochs > 0
        if not whole or (found.rate is not None and not 0 < found.rate < math.inf):
            raise ValueError(text)
        return found

    def __str__(self) -> str:
        """The text that `parse` reads."""
        if self.part == "none":
            return "none"
        return f"{self.part}:{self.epochs}" + ("" if self.rate is None else f",{self.rate!r}")


def check_finish(text: str) -> str:
    """The text, if it can be read.

    Raises:
        ValueError: It cannot.
    """
    try:
        Finish.parse(text)
    except ValueError:
        raise ValueError(f"expected {EXPECTED}") from None
    return text
