"""The noise: exact where floating point is not, normal in body and tails, and never from the same key twice."""

import ast
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpeer.privacy import Sparsifier, noise, privatize, randomness
from dpeer.privacy.noise import ERROR, cosines_and_sines, decide, grid, noised
from dpeer.privacy.randomness import KEY_BYTES, Keystream
from tests.syntax_trees import parsed

ROOT = Path(__file__).parents[2]
MANY = 4_000_000
WORD = 2**64


def drawn(size: int, std: float = 1.0, value: float = 0.0, threads: int = 1) -> np.ndarray:
    """Noised steps of the grid, whole numbers."""
    out = np.empty(size)

    def give(here: slice, steps: np.ndarray) -> None:
        out[here] = steps

    noised(size, std, lambda here: np.full(min(here.stop, size) - here.start, value / grid(std)), give, threads)
    return out


def counted(key: int) -> Keystream:
    """A keystream under a known key."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(randomness.os, "urandom", lambda size: key.to_bytes(size, "big"))
        return Keystream()


@pytest.fixture
def known_key(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have noise drawn under this key."""
    return lambda key: monkeypatch.setattr(noise, "Keystream", lambda: counted(key))


def exactly(u: int, v: int, bits: int, *, sine: bool) -> mpmath.mpf:
    """The deviate of U = u / 2^bits, V = v / 2^bits, to 200 digits."""
    with mpmath.workdps(200):
        radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(u) / mpmath.mpf(2) ** bits))
        angle = 2 * mpmath.pi * mpmath.mpf(v) / mpmath.mpf(2) ** bits
        return radius * (mpmath.sin(angle) if sine else mpmath.cos(angle))


def hard_words() -> Iterator[tuple[int, int]]:
    """U at the edges of what float64 is trusted with, V where sine or cosine vanish."""
    edge = 1 << 40
    us = [edge + d for d in (0, 1, 9999)] + [WORD - edge - d for d in (1, 2, 9999)]
    us += [edge << n for n in range(24)] + [WORD - (edge << n) for n in range(24)]
    quarter = 1 << 62
    vs = [c * quarter + d for c in range(4) for d in (-1, 0, 1, 12345)] + [1 << n for n in range(0, 64, 7)]
    return ((u, v % WORD) for u in us for v in vs)


@pytest.mark.slow
def test_floating_point_errs_far_less_than_the_margin_it_is_given() -> None:
    rng = np.random.default_rng(2)
    words = [*hard_words(), *zip(*rng.integers(0, WORD - 1, (2, 200), dtype=np.uint64).tolist(), strict=True)]
    u, v = np.array(words, dtype=np.uint64).T.copy()
    found = np.empty(2 * len(u))
    cosines_and_sines(u, v, found)
    worst = 0.0
    for place, (a, b) in enumerate(words):
        signed = b - WORD if b >= WORD // 2 else b
        for sine in (False, True):
            got = float(found[place + sine * len(u)])
            # The bits that have not been drawn may be all zeros or all ones.
            errors = (abs(exactly(a + more, signed + more, 64, sine=sine) - got) for more in (0, 1) if a + more < WORD)
            worst = max(worst, *(float(error) for error in errors))
    assert 0 < worst < ERROR / 16


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 65_536, 65_537, 200_001])
def test_the_result_is_the_nearest_grid_point_to_the_real_sum(size: int, known_key: Callable[[int], None]) -> None:
    """Against numbers of 200 digits, under a key that is known here."""
    known_key(3)
    std, value = 5.3, 0.123456789
    found = drawn(size, std, value)
    stream = counted(3)
    for place in {0, size // 3, size // 2, size - 1}:
        block = place // 65_536 * 65_536
        half = -(-min(65_536, size - block) // 2)
        sine, pair = divmod(place - block, half)
        u, v = stream.words(block // 2, 2 * half)[[pair, half + pair]].tolist()
        deviate = exactly(u, v - WORD if v >= WORD // 2 else v, 64, sine=bool(sine))
        assert found[place] == int(mpmath.nint((value + std * deviate) / grid(std)))


@pytest.mark.slow
def test_what_is_hard_to_decide_is_decided_with_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error a million times as large, many values are decided by interval arithmetic, and none differs."""
    monkeypatch.setattr(noise, "Keystream", lambda: counted(11))
    plain = drawn(8_000)
    asked = []

    def counting(*arguments: object, sine: bool) -> int:
        asked.append(sine)
        return decide(*arguments, sine=sine)

    monkeypatch.setattr(noise, "decide", counting)
    monkeypatch.setattr(noise, "ERROR", ERROR * 2**20)
    assert np.array_equal(drawn(8_000), plain)
    assert len(asked) > 200
    assert 0.4 < np.mean(asked) < 0.6


def test_bits_are_drawn_until_a_tie_is_broken() -> None:
    """U = V = 0 so far: only what follows decides, for both values of the pair alike."""

    class Known(noise.FurtherBits):
        def draw(self) -> None:
            self.u, self.v, self.bits = self.u << 64 | 5, self.v << 64 | 9, self.bits + 64
            if self.bits == 192:
                self.u += 1 << 64

    for sine in (False, True):
        known = Known(Keystream(), 0, 0, 0)
        steps = decide(0.25, 4096.0, known, sine=sine)
        assert known.bits >= 128
        deviate = exactly(known.u, known.v, known.bits, sine=sine)
        assert steps == int(mpmath.nint(deviate * 4096 + mpmath.mpf(0.25)))


@pytest.mark.parametrize("apart", [0.5, 0.1, 0.01])
def test_an_update_finer_than_the_grid_is_not_lost(apart: float, known_key: Callable[[int], None]) -> None:
    """Under one key, values that are so far apart end on different grid points as often: none is rounded first."""
    found = []
    for sign in (-1, 1):
        known_key(5)
        found.append(drawn(200_000, 1.0, sign * apart / 2 * grid(1.0)))
    moved = found[1] - found[0]
    assert set(np.unique(moved)) == {0.0, 1.0}
    assert moved.mean() == pytest.approx(apart, abs=5 * math.sqrt(apart / 200_000))


@pytest.fixture(scope="module")
def many() -> np.ndarray:
    """Four million deviates (of standard deviation 1, rounded to 1/4096)."""
    return drawn(MANY, threads=2) * grid(1.0)


@pytest.mark.slow
def test_the_body_is_normal(many: np.ndarray) -> None:
    edges = norm.ppf(np.arange(1, 2000) / 2000)
    # Values stand for the cell around them: cut between grid points.
    edges = (np.floor(edges / grid(1.0)) + 0.5) * grid(1.0)
    expected = np.diff(np.concatenate([[0.0], norm.cdf(edges), [1.0]])) * MANY
    counts = np.bincount(np.searchsorted(edges, many), minlength=2000)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert chi2.ppf(1e-7, 1999) < statistic < chi2.isf(1e-7, 1999)
    assert abs(many.mean()) < 5.5 / math.sqrt(MANY)
    assert abs(many.var() - 1) < 5.5 * math.sqrt(2 / MANY)


def test_the_tails_are_normal(many: np.ndarray) -> None:
    for beyond in (3.0, 4.0, 4.75, 5.0):
        edge = beyond - grid(1.0) / 2
        for values in (many, -many):
            expected = norm.sf(edge) * MANY
            assert abs((values >= beyond).sum() - expected) < 5 * math.sqrt(expected) + 3


def test_no_two_releases_share_a_keystream(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    drawing = randomness.os.urandom

    def watched(count: int) -> bytes:
        asked.append(drawing(count))
        return asked[-1]

    monkeypatch.setattr(randomness.os, "urandom", watched)
    base = np.zeros(50, dtype=np.float32)
    released = [privatize(base, base, 1.0, 1.0, Sparsifier(), None)[0].tobytes() for _ in range(500)]
    assert len(asked) == 500, "one key for each release"
    assert {len(key) for key in asked} == {KEY_BYTES}
    assert len(set(asked)) == 500
    assert len(set(released)) == 500


def test_no_place_of_a_keystream_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[range] = []
    reading = Keystream.words

    def watched(stream: Keystream, block: int, count: int) -> np.ndarray:
        places.append(range(block, block + -(-count // 2)))
        return reading(stream, block, count)

    monkeypatch.setattr(Keystream, "words", watched)
    for size in (1, 2, 3, 65_535, 65_537, 300_001):
        places.clear()
        drawn(size, threads=2)
        used = sorted(places, key=lambda place: place.start)
        assert all(one.stop <= other.start for one, other in itertools.pairwise(used))


def test_a_keystream_is_forgotten_after_its_release() -> None:
    stream = Keystream()
    words = stream.words(5, 9)
    assert np.array_equal(stream.words(5, 9), words)
    assert not np.array_equal(stream.words(6, 9), words)
    assert np.array_equal(stream.words(6, 7), words[2:])
    stream.forget()
    with pytest.raises(ValueError, match="one release only"):
        stream.words(0, 1)


SECRET = {"urandom", "getrandom", "SystemRandom", "secrets"}
SEEDED = {"default_rng", "SeedSequence", "standard_normal", "normal", "SFC64", "PCG64", "Philox", "MT19937"}


def names(path: Path) -> set[str]:
    """Every name, attribute and import in a file."""
    found: set[str] = set()
    for node in ast.walk(parsed(path.read_text())):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                found.add(name)
            case ast.ImportFrom(module=module, names=aliases):
                found |= {module or "", *(alias.name for alias in aliases)}
            case ast.Import(names=aliases):
                found |= {alias.name for alias in aliases}
    return found


def test_private_randomness_is_drawn_in_one_module_only() -> None:
    """What training/ draws follows from the federation's seed: batch order, partitions, masks. Noise does not."""
    for package, forbidden in (("privacy", SECRET | SEEDED), ("training", SECRET)):
        drawing = [path.name for path in (ROOT / package).rglob("*.py") if names(path) & forbidden]
        assert drawing == (["randomness.py"] if package == "privacy" else [])
