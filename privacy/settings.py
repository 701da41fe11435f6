"""The settings of differential privacy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpeer.privacy.guarantee import Adjacency, Adversary
from dpeer.sections import Mark, Section, setting

_GROUP = "Privacy"

Sparsify = Annotated[str, Field(pattern=r"^(top-k|random):[0-9.]+$")]


class PrivacySettings(Section):
    """What neighbors may learn of a peer's data, and the noise that keeps the rest from them."""

    privacy: Literal["none", "client"] = setting(
        "none",
        "differential privacy for what leaves a peer: none, or client (its whole data set)",
        mark=Mark.SHARED,
        group=_GROUP,
    )
    target_epsilon: float | None = setting(
        None,
        "privacy budget: the noise follows from it; or with noise-multiplier, releases end when it is used up",
        mark=Mark.FOLLOWS,
        group=_GROUP,
        gt=0,
    )
    noise_multiplier: float | None = setting(
        None, "standard deviation of the noise, divided by clip-norm", mark=Mark.FOLLOWS, group=_GROUP, gt=0
    )
    clip_norm: float = setting(
        1.0,
        "longest update of the body that is released with privacy: longer ones are scaled down to it",
        mark=Mark.FOLLOWS,
        group=_GROUP,
        gt=0,
    )
    delta: float | None = setting(
        None,
        "chance that epsilon does not hold (default: 1e-5, or 1/(10 size) if smaller)",
        mark=Mark.SHARED,
        group=_GROUP,
        gt=0,
        lt=1,
    )
    dp_adversary: Adversary = setting(
        "neighbor",
        "against whom: neighbor sees every message, aggregate sees averages only",
        mark=Mark.SHARED,
        group=_GROUP,
    )
    dp_min_honest: int | None = setting(
        None, "honest bodies in every average (dp-adversary aggregate)", mark=Mark.SHARED, group=_GROUP, ge=2
    )
    dp_adjacency: Adjacency = setting(
        "replace",
        "what a peer's data set cannot be told from: any other in its place (replace), or a zero update (zero-out)",
        mark=Mark.SHARED,
        group=_GROUP,
    )
    sparsify: Sparsify | None = setting(
        None,
        "what of a private update is kept: top-k:0.4 (after the noise), random:0.4 (before)",
        mark=Mark.SHARED,
        group=_GROUP,
    )
