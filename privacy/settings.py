"""Settings of differential privacy, and their refusals beside the figures of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Literal

from pydantic import Field

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.guarantee import Ascent, Guarantee, Head, Unit, check_delta, default_delta
from dpeer.privacy.mechanism import Sparsifier
from dpeer.sections import Mark, Section, setting

_setting = partial(setting, group="Privacy")

Sparsify = Annotated[str, Field(pattern=r"^(top-k|random):[0-9.]+$")]


class PrivacySettings(Section):
    """What neighbors may learn of a peer's data, and the noise that keeps the rest from them."""

    privacy: Literal["none", "client", "sample"] = _setting(
        "none",
        "noise for sites or records: client protects a peer's whole data set in what leaves it; sample protects each "
        "training record, or group of records, against everyone (differential privacy, DP)",
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


@dataclass(frozen=True)
class PrivacyConfig:
    """What privacy needs to know of a run; equal on all peers but for what settings of privacy a rank has of its own.

    Attributes:
        size: The number of peers.
        rounds: The most rounds in which one peer takes part, for which noise is calibrated.
        batch_size: The expected one.
        standardize: Whether inputs are scaled by their own statistics.
        shares: Whether anything leaves the peer at all.
    """

    settings: PrivacySettings = field(default_factory=PrivacySettings)
    size: int = 1
    rounds: int = 0
    batch_size: float = 32
    checkpoint_every: int = 1
    algorithm: str = ""
    task: str = ""
    finish: str = "none"
    standardize: bool = False
    shares: bool = True

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """The guarantee at client level, equal on all peers; None at other levels, whose settings are only checked.

        Raises:
            ConfigurationError: Settings are missing, or are not sound.
            BudgetTooSmall: The budget allows no release.
        """
        asked = self.settings
        self._check_level()
        if asked.privacy == "none":
            return None
        if asked.noise_multiplier is None and asked.target_epsilon is None:
            raise ConfigurationError(
                f"--privacy {asked.privacy} needs to know how much: give --target-epsilon 8 (the noise follows from "
                "it) or --noise-multiplier"
            )
        if asked.privacy == "sample":
            self._check_unseen()
            return None
        Sparsifier.parse(asked.sparsify)  # so that a share that is none is refused before data are read
        delta = asked.delta if asked.delta is not None else default_delta(self.size)
        check_delta(delta, self.size)
        base = Guarantee(asked.noise_multiplier or 1.0, asked.clip_norm, delta)
        return base.within(asked.target_epsilon, self.rounds, noise_given=asked.noise_multiplier is not None)

    def _check_level(self) -> None:
        """Refuse settings without an effect at the level of privacy."""
        level = self.settings.privacy
        for name, field_ in PrivacySettings.model_fields.items():
            value, flag = getattr(self.settings, name), f"--{name.replace('_', '-')}"
            of = "sample" if name in SAMPLE_ONLY else "client" if name in CLIENT_ONLY else None
            if value != field_.default and (level == "none" or of not in (level, None)):
                raise ConfigurationError(
                    f"{flag} {value} belongs to --privacy {of or 'sample or client'}: with --privacy {level} leave it "
                    "out"
                )

    def _check_unseen(self) -> None:
        """Refuse to read records past the noise of sample level, by training at home or for statistics of inputs."""
        if self.standardize:
            raise ConfigurationError(
                "--standardize cannot be used with --privacy sample: the statistics of this peer's data would be in "
                "all that it computes, without noise; leave it out, and give the ranges of columns in a --schema"
            )
        if self.finish != "none" and self.settings.dp_head != "post":
            raise ConfigurationError(
                f"--finish {self.finish} with --dp-head {self.settings.dp_head}: it trains without noise, and the "
                "model that predicts would not be private any more; leave it out, or use --dp-head post"
            )
