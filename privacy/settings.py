"""The settings of differential privacy."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from dpeer.privacy.guarantee import Ascent, Head, Unit
from dpeer.sections import Mark, Section, setting

_setting = partial(setting, group="Privacy")

Sparsify = Annotated[str, Field(pattern=r"^(top-k|random):[0-9.]+$")]


class PrivacySettings(Section):
    """What neighbors may learn of a peer's data, and the noise that keeps the rest from them."""

    privacy: Literal["none", "client", "sample"] = _setting(
        "none",
        "noise for sites or records: client protects a peer's whole data set in what leaves it; sample protects each "
        "training record, or group of records, against everyone (differential privacy)",
        mark=Mark.SHARED,
        first=True,
    )
    target_epsilon: float | None = _setting(
        None,
        "epsilon to keep to, such as 8: the noise follows from it; if noise-multiplier is given, too, releases "
        "(sample: steps) end with it",
        mark=Mark.FOLLOWS,
        first=True,
        gt=0,
    )
    noise_multiplier: float | None = _setting(
        None, "standard deviation of the noise, divided by clip-norm", mark=Mark.FOLLOWS, gt=0
    )
    clip_norm: float = _setting(
        1.0,
        "longest update of the body (sample: gradient of a record) that counts as it is: longer ones are scaled down",
        mark=Mark.FOLLOWS,
        gt=0,
    )
    delta: float | None = _setting(
        None,
        "chance that epsilon does not hold (default: 1e-5, or if smaller 1/(10 N) of N peers, or records)",
        mark=Mark.SHARED,
        gt=0,
        lt=1,
    )
    sparsify: Sparsify | None = _setting(
        None, "what of a private update is kept: top-k:0.4 (after the noise), random:0.4 (before)", mark=Mark.SHARED
    )
    records: int | None = _setting(
        None,
        "about how many records (or groups) this peer trains with; at sample level each is in a step's batch with the "
        "chance batch-size / records; others may know it, and data of its own need it (default, where a common pool is "
        "divided: their number, rounded to a power of two)",
        mark=Mark.OWN,
        ge=1,
    )
    dp_head: Head = _setting(
        "joint",
        "how the head is trained at sample level: joint (with the body), alternate (in steps of its own), post (after "
        "the last message, by --finish)",
        mark=Mark.SHARED,
    )
    dp_sam: Ascent = _setting(
        "previous",
        "the gradient that SAM climbs along at sample level: that of the step before (previous), or of the same-batch, "
        "which costs more",
        mark=Mark.OWN,
    )
    privacy_unit: Unit = _setting(
        "record",
        "what is protected at sample level: a record, or a group of them that the task tells, such as a patient's",
        mark=Mark.OWN,
    )
    rounds_released: int = _setting(
        0,
        "rounds, from the first one on, that a disk which was lost may have released: they are charged, and none of "
        "them is released again",
        mark=Mark.ASIDE,
        ge=0,
    )
    microbatch: int = _setting(
        64,
        "how many records' gradients are in memory at a time; at sample level: with fewer than 64 each is computed by "
        "itself",
        mark=Mark.ASIDE,
        ge=1,
        le=4096,  # more are no quicker
    )


CLIENT_ONLY = ("sparsify",)
"""Settings that mean something at client level alone."""

SAMPLE_ONLY = ("records", "dp_head", "dp_sam", "privacy_unit", "microbatch")
"""Settings that mean something at sample level alone."""
