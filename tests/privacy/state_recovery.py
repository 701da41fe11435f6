"""The first attack on the old scheme: from eight neighboring values of a release follows the noise of all others.

A neighbor knows the base and that the first coordinates were not updated, so there it sees noise alone. Where noise is
small, few words can have made it. Of all releases it takes the eight coordinates in a row, four outputs of 64 bits, for
which the fewest first and third outputs are possible, tries these (`inversion`), and the second and fourth confirm it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy import Vector

from .inversion import NINTH, WORD, f, solutions
from .ziggurat import Words, explanations, outcomes, tables

FIRST_COUNTER = 13
"""SFC64's, once it is seeded."""

_EXTRA, _EXTRA_SPREAD = 0.022, 0.17
"""Words that a coordinate takes beyond one, on average, and their standard deviation."""

_LOOKED_AT = 100
"""Windows of which all possible words are listed: those that look best."""


@dataclass(frozen=True, eq=False)
class Release:
    """What a neighbor has.

    Attributes:
        base: What it knows from earlier releases.
        released: What it was sent.
        untouched: So many coordinates at the beginning were not updated.
    """

    base: Vector
    released: Vector
    untouched: int


@dataclass(frozen=True)
class Window:
    """Eight coordinates of a release.

    Attributes:
        release: Which release.
        start: The first coordinate.
        outputs: For coordinates 0 and 1, and 4 and 5, the outputs of 64 bits that explain both.
    """

    release: Release
    start: int
    outputs: tuple[list[int], list[int]]

    @property
    def pairs(self) -> int:
        """How many first and third outputs there are to try."""
        return math.prod(map(len, self.outputs))

    @property
    def cost(self) -> int:
        """What a search of it takes, in steps."""
        return self.pairs * (8 + len(counters(self.start)))


@dataclass(frozen=True)
class Recovered:
    """A generator found.

    Attributes:
        release: Whose it was.
        noise: All that it drew for it, shape (parameters,).
        pairs: How many had to be tried.
    """

    release: Release
    noise: Vector
    pairs: int


def recover(seen: Sequence[Release], std: float, most_pairs: int) -> Recovered | None:
    """The noise of the release that is easiest to attack; None if nothing is found with so many tries."""
    tried = 0
    for window in windows(seen, std):
        first, third = window.outputs
        for one, three in ((one, three) for one in first for three in third):
            if tried == most_pairs:
                return None
            tried += 1
            for c, counter in solutions((three - 9 * one - 2) % WORD, counters(window.start)):
                for two in _seconds(window, std, one, c, counter):
                    noise = _replayed(_first_state(one, two, c, counter), window.release.base.size, std)
                    if _explains(noise, window.release):
                        return Recovered(window.release, noise, tried)
    return None


@cache
def counters(start: int) -> range:
    """What the counter can be at a coordinate: it may have taken some more words to get there than one for each."""
    spread = 2.5 * _EXTRA_SPREAD * math.sqrt(start)
    extra = range(max(0, math.floor(_EXTRA * start - spread)), math.ceil(_EXTRA * start + spread) + 1)
    even = [FIRST_COUNTER + (start + more) // 2 for more in extra if (start + more) % 2 == 0]
    return range(even[0], even[-1] + 1) if even else range(0)


def windows(seen: Sequence[Release], std: float) -> list[Window]:
    """The most promising eight coordinates in a row, best first."""
    near_one = float((2.0**-23 / tables()[0]).sum())  # words behind a value in [1, 2); in [1/2, 1) half
    ranked: list[tuple[float, Release, int]] = []
    for release in seen:
        there = slice(release.untouched)
        size = np.abs(np.subtract(release.released[there], release.base[there], dtype=np.float64)) / std
        words = np.log1p(near_one * 2.0 ** (np.frexp(size)[1] - 1))
        hard = words[:-7] + words[1:-6] + words[4:-3] + words[5:-2]
        hard += np.log([8 + len(counters(start)) for start in range(hard.size)])
        best = np.argsort(hard)[:_LOOKED_AT]
        ranked += [(float(hard[start]), release, int(start)) for start in best if len(counters(int(start)))]
    ranked.sort(key=lambda entry: entry[0])
    listed = [Window(release, at, _outputs(release, at, std)) for _, release, at in ranked[:_LOOKED_AT]]
    return sorted((window for window in listed if window.pairs), key=lambda window: window.cost)


@lru_cache(maxsize=1000)
def _words(release: Release, place: int, std: float) -> Words:
    return explanations(release.released[place], release.base[place], np.float32(0), std)


def _outputs(release: Release, start: int, std: float) -> tuple[list[int], list[int]]:
    words = [_words(release, start + offset, std).tolist() for offset in (0, 1, 4, 5)]
    first, third = ([low | high << 32 for low in lows for high in highs] for lows, highs in (words[:2], words[2:]))
    return first, third


def _seconds(window: Window, std: float, one: int, c: int, counter: int) -> Iterator[int]:
    """Outputs that explain the third and fourth coordinate, and with which the next but one explains two more.

    That is T4 = 9 T2 + f(c') + w + 3, with the c' that the first output leaves; its lower half needs that of T2 only.
    """
    after = np.array([((c << 24 | c >> 40) + one) % WORD], dtype=np.uint64)
    known = int(f(after)[0]) + counter + 3
    release, start = window.release, window.start

    def fit(words: Words, place: int) -> NDArray[np.bool_]:
        return outcomes(words, release.base[place], np.float32(0), std) == release.released[place]

    lows = _words(release, start + 2, std)
    for low in lows[fit(9 * lows + np.uint32(known % 2**32), start + 6)].tolist():
        for high in _words(release, start + 3, std).tolist():
            two = low | high << 32
            four = (9 * two + known) % WORD
            if fit(np.array([four >> 32], dtype=np.uint32), start + 7).all():
                yield two


def _first_state(one: int, two: int, c: int, counter: int) -> tuple[int, int, int]:
    """Words a, b and c as they were when the generator was fresh."""
    b = _unmixed((two - 9 * c - counter - 1) % WORD)
    a = (one - b - counter) % WORD
    while counter > FIRST_COUNTER:
        counter -= 1
        b, b_after = _unmixed(a), b
        c, c_after = b_after * int(NINTH) % WORD, c
        a = (c_after - (c << 24 | c >> 40) - b - counter) % WORD
    return a, b, c


def _unmixed(mixed: int) -> int:
    """The b of which b ^ (b >> 11) is this."""
    return mixed ^ mixed >> 11 ^ mixed >> 22 ^ mixed >> 33 ^ mixed >> 44 ^ mixed >> 55


def _replayed(state: tuple[int, int, int], size: int, std: float) -> Vector:
    """What numpy draws from this state."""
    source = np.random.SFC64(0)
    words = np.array([*state, FIRST_COUNTER], dtype=np.uint64)
    source.state = source.state | {"state": {"state": words}, "has_uint32": 0, "uinteger": 0}
    return np.random.Generator(source).standard_normal(size, dtype=np.float32) * np.float32(std)


def _explains(noise: Vector, release: Release) -> bool:
    there = slice(release.untouched)
    return np.array_equal(release.base[there] + noise[there], release.released[there])
