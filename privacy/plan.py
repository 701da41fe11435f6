"""What a planned run at either level of privacy has in common: what is known of it before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass

from dpeer.privacy.guarantee import check_delta, default_delta

DELTA = 1e-5
"""The delta where nobody says how many units are protected: right for up to 10,000."""


@dataclass(frozen=True)
class Plan:
    """What is known of a run; None is what is not known.

    Attributes:
        noise_multiplier: sigma; None for the least noise that keeps to `target_epsilon`.
        target_epsilon: The budget; None where the noise decides.
        rounds: T.
        delta: None for the default of so many units.
        clip_norm: C.
        size: Number of peers.
        parameters: Of the body, those that are shared.
    """

    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    rounds: int | None = None
    delta: float | None = None
    clip_norm: float = 1.0
    size: int | None = None
    parameters: int | None = None

    @property
    def units(self) -> int | None:
        """How many units are protected, if that is known."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        """What one of them is called."""
        raise NotImplementedError

    @property
    def planned(self) -> int:
        """The number of planned rounds."""
        assert self.rounds is not None
        return self.rounds

    @property
    def chosen_delta(self) -> float:
        """The delta that was given, else the default for so many units."""
        if self.delta is not None:
            return self.delta
        return DELTA if self.units is None else default_delta(self.units)

    def warnings(self) -> list[str]:
        """Warnings about the delta.

        Raises:
            ConfigurationError: It is too large to mean anything.
        """
        warning = None if self.units is None else check_delta(self.chosen_delta, self.units, self.unit)
        return [] if warning is None else [warning]
