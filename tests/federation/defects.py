"""Noise with defects, which audits have to find."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpeer.privacy import noise
from dpeer.privacy.randomness import KEY_BYTES, Keystream


def noise_changed(change: Callable[[np.ndarray, np.ndarray, slice], np.ndarray]) -> Callable[..., None]:
    """`noised` with the noise, in steps, changed: a function of the noise and the values without it."""

    def changed(size: int, std: float, values: Any, give: Any, threads: int = 1) -> None:
        def altered(here: slice, steps: np.ndarray) -> None:
            plain = values(here)
            give(here, np.rint(plain + change(steps - plain, plain, here)))

        noise.noised(size, std, values, altered, threads)

    return changed


def scaled(factor: float) -> Callable[..., None]:
    return noise_changed(lambda drawn, plain, here: factor * drawn)


def spared(drawn: np.ndarray, plain: np.ndarray, here: slice) -> np.ndarray:
    """One coordinate gets no noise."""
    return drawn * (np.arange(here.start, here.start + len(drawn)) != 3)


class Constant(Keystream):
    def __init__(self) -> None:
        super().__init__()
        self._key = bytearray(KEY_BYTES)


class EightBits(Keystream):
    def __init__(self) -> None:
        super().__init__()
        self._key = bytearray([self._key[0]] * KEY_BYTES)


class Remembering:
    """A quarter of the noise is that of the release before, moved by a coordinate."""

    def __init__(self) -> None:
        self._last: np.ndarray | None = None

    def __call__(self, *arguments: Any, **options: Any) -> None:
        noise_changed(self._changed)(*arguments, **options)

    def _changed(self, drawn: np.ndarray, plain: np.ndarray, here: slice) -> np.ndarray:
        last, self._last = self._last, drawn
        if last is None or len(last) != len(drawn):
            return drawn
        return 0.5 * np.roll(last, 1) + 0.75**0.5 * drawn
