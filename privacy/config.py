"""PrivacyConfig and PeerData: the figures of a run and of a peer's data that accounting needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.guarantee import Guarantee, check_delta, default_delta
from dpeer.privacy.mechanism import Sparsifier
from dpeer.privacy.settings import CLIENT_ONLY, SAMPLE_ONLY, PrivacySettings


@dataclass(frozen=True)
class PrivacyConfig:
    """What privacy needs to know of a run; equal on all peers but for what settings of privacy a rank has of its own.

    Attributes:
        size: The number of peers.
        rounds: The most rounds in which one peer takes part, for which noise is calibrated.
        batch_size: The expected batch size.
        checkpoint_every: After how many rounds a checkpoint is written.
        finish: The training at home after the last mixing; "none" for nothing.
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

    def nominal_units(self, units: int) -> int:
        """N, a public number near that of this peer's units: `--records`, or their number rounded to a power of two.

        The rounded number is for parts of common pools alone, where who gets which record depends on the others
        anyway. Of a peer's own records N must not follow: some number is the last one that is rounded down.
        """
        return self.settings.records if self.settings.records is not None else int(2 ** round(math.log2(units)))

    def sampling_rate(self, units: int) -> float:
        """q, with which a batch has about `batch_size` units."""
        return min(1.0, self.batch_size / self.nominal_units(units))

    def sample_delta(self, units: int) -> float:
        """Delta at sample level, as given, or the default for N units."""
        return default_delta(self.nominal_units(units)) if self.settings.delta is None else self.settings.delta


@dataclass(frozen=True)
class PeerData:
    """What privacy needs to know of one peer's data; it stays on the peer.

    Attributes:
        digest: SHA-256 (hex) of the data; None where unknown.
        records: The number of training records.
        groups: The group of each record, such as its patient; None where the task has none.
        own: Whether they are the peer's own, and no part of a common pool.
        found: Options of the task that were found in the data instead of being given, with their values.
    """

    digest: str | None = None
    records: int = 0
    groups: Sequence[object] | NDArray[Any] | None = None
    own: bool = False
    found: Mapping[str, Sequence[str]] = field(default_factory=dict)
