"""Texts of settings, parsed: `--compress`, `--finish`, `--lr-schedule` and `--robust`; imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple


def shortest(number: float) -> str:
    """The text of a number: six digits where they are exact, else all that distinguish it."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


BUILT_IN = ("float32", "bfloat16", "float16", "int16", "int8", "int4")
"""The codecs by name."""


def is_class(text: str) -> bool:
    """Whether a codec's name is that of a class of the user's own; a class's name begins with no digit."""
    _, colon, name = text.rpartition(":")
    return (bool(colon) and not name[:1].isdigit()) or text.endswith(".py")


def check_compress(text: str) -> str:
    """The name of a codec.

    Raises:
        ValueError: It is neither a built-in codec nor a class.
    """
    if text not in BUILT_IN and not is_class(text):
        raise ValueError(f"expected {', '.join(BUILT_IN)}, or a class: FILE.py:CLASS or MODULE:CLASS")
    return text


class Finish(NamedTuple):
    """What `--finish` asks for: the training at home after the last mixing.

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
    """The text of `--finish`, if it can be read.

    Raises:
        ValueError: It cannot.
    """
    try:
        Finish.parse(text)
    except ValueError:
        raise ValueError("expected none, head:E, all:E or all:E,RATE, for example head:5 or all:5,0.01") from None
    return text


SCHEDULE = r"^(exponential|cosine|step:[1-9][0-9]*)(\+warmup:[1-9][0-9]*)?$"
"""The pattern of a learning rate's schedule."""


def factor(schedule: str, number: int, *, decay: float, rounds: int) -> float:
    """The factor by which the learning rates are multiplied in a round.

    Args:
        schedule: ``exponential``: decay^t in round t. ``step:N``: times decay after every N rounds. ``cosine``:
            (1 + cos(pi t / rounds)) / 2, whatever the decay (Loshchilov and Hutter, SGDR, ICLR 2017, equation 5,
            without restarts and down to 0). With ``+warmup:N`` the factor is multiplied by 1/(N + 1), 2/(N + 1) and so
            on in the first N rounds.
        number: The round t, from 0.
        decay: `lr_decay`.
        rounds: How many rounds are planned.
    """
    schedule, _, grows = schedule.partition("+warmup:")
    kind, _, every = schedule.partition(":")
    if kind == "exponential":
        found = decay**number
    elif kind == "cosine":
        found = (1 + math.cos(math.pi * number / rounds)) / 2
    else:
        found = decay ** (number // int(every))
    warmup = int(grows or 0)
    return found * (number + 1) / (warmup + 1) if number < warmup else found


def ends_with_the_run(schedule: str) -> bool:
    """Whether the schedule depends on how many rounds are planned."""
    return schedule.partition("+")[0] == "cosine"


@dataclass(frozen=True)
class Robust:
    """What `--robust` asks for: mixing so that hostile neighbors cannot carry a peer off.

    Attributes:
        rule: "none" is the weighted sum.
        radius: Of "clip": how far one body may pull, as a length; None where it follows from the bodies of the round.
        trim: Of "trimmed-mean": how many values are left out at either end.
    """

    rule: Literal["none", "clip", "trimmed-mean", "median"] = "none"
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
        """The one text that means this, so that peers can compare texts."""
        if self.rule == "trimmed-mean":
            return f"trimmed-mean:{self.trim}"
        return self.rule if self.radius is None else f"clip:{shortest(self.radius)}"


def check_robust(text: str) -> str:
    """The one text that means what this text of `--robust` means.

    Raises:
        ValueError: It cannot be read.
    """
    return str(Robust.parse(text))
