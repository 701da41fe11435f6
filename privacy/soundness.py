"""Bounds of values of privacy, by which the mechanisms, the accounting and `dpeer privacy` hold.

Every check raises a ConfigurationError that names the command's option, because that is what a user can change.
"""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError

SMALLEST = 1e-15
"""Of a clip norm and a noise multiplier: what follows from them is far from the limits of float32."""


def check_rate(rate: float) -> None:
    """Refuse a sampling rate that is no probability above 0."""
    if not 0.0 < rate <= 1.0:
        raise ConfigurationError(f"sampling rate {rate:g}: choose one above 0 and at most 1, for example 0.05")


def check_noise(noise_multiplier: float, clip_norm: float) -> None:
    """Refuse noise that cannot be computed with."""
    for name, value in (("noise-multiplier", noise_multiplier), ("clip-norm", clip_norm)):
        if not SMALLEST <= value <= 1.0 / SMALLEST:
            raise ConfigurationError(
                f"--{name} {value:g}: choose a number from {SMALLEST:g} to {1.0 / SMALLEST:g}, for example 1.0"
            )


def check_probability(delta: float) -> None:
    """Refuse a delta that is not between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise ConfigurationError(f"delta {delta:g}: choose one above 0 and below 1, for example 1e-5")


def check_delta(delta: float, units: int, unit: str = "peer") -> str | None:
    """A warning about a delta above 1 / (10 N), N the protected units; one of 1 / N or more is refused."""
    check_probability(delta)
    _check_units(units)
    if delta >= 1.0 / units:
        raise ConfigurationError(
            f"delta {delta:g} with {units} {unit}s: at 1/{units} or more, publishing one {unit}'s data outright would "
            f"count as private: choose at most {0.1 / units:.4g}"
        )
    if delta > 0.1 / units:
        return f"delta {delta:g} is above 1/(10 N) = {0.1 / units:.4g} of {units} {unit}s: choose that or less"
    return None


def default_delta(units: int) -> float:
    """min(1e-5, 1 / (10 N)) for N protected units (peers or records)."""
    _check_units(units)
    return min(1e-5, 0.1 / units)


def _check_units(units: int) -> None:
    if units < 1:
        raise ConfigurationError(f"size {units}: at least 1 peer is to be protected")
