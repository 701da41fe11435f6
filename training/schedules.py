"""How learning rates change from round to round; imports no torch."""

from __future__ import annotations

import math

PATTERN = r"^(exponential|cosine|step:[1-9][0-9]*)(\+warmup:[1-9][0-9]*)?$"
"""The pattern of a schedule."""


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

    Raises:
        ValueError: No such schedule is known.
    """
    schedule, _, grows = schedule.partition("+warmup:")
    scheduled, warmup = _scheduled(schedule, number, decay, rounds), int(grows or 0)
    return scheduled * (number + 1) / (warmup + 1) if number < warmup else scheduled


def _scheduled(schedule: str, number: int, decay: float, rounds: int) -> float:
    kind, _, every = schedule.partition(":")
    if kind == "exponential":
        return decay**number
    if kind == "cosine":
        return (1 + math.cos(math.pi * number / rounds)) / 2
    if kind == "step":
        return decay ** (number // int(every))
    raise ValueError(f"no schedule {schedule!r}: exponential, cosine or step:N")


def ends_with_the_run(schedule: str) -> bool:
    """Whether the schedule depends on how many rounds are planned."""
    return schedule.partition("+")[0] == "cosine"
