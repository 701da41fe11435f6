"""From eight values of a release under the old scheme all its noise could be computed; from a release now it cannot."""

from collections.abc import Sequence

import numpy as np
import pytest

from dpeer.privacy import Sparsifier, Vector, privatize

from . import old_scheme
from .inversion import WORD, solutions
from .state_recovery import Release, recover
from .ziggurat import explanations

CLIP_NORM, STD = 1.0, 50.0
ROUNDS, SIZE = 200, 4096
UNTOUCHED = SIZE // 2
"""An embedding's rows of words that the peer does not have, or weights of pixels that are never lit."""
TRIES = 30
"""More first and third outputs are not tried; the old scheme needs 3 here."""


@pytest.fixture(scope="module")
def bodies() -> list[tuple[Vector, Vector]]:
    """A peer's base and body in each round."""
    draw = np.random.default_rng(6)
    found = []
    for _ in range(ROUNDS):
        base, update = draw.normal(0, 0.05, (2, SIZE)).astype(np.float32)
        update[:UNTOUCHED] = 0
        found.append((base, base + update))
    return found


@pytest.fixture(scope="module")
def old(bodies: list[tuple[Vector, Vector]]) -> list[Release]:
    """What the old scheme sends; its noise is the same in each run of the test, so that the search is as well.

    These seeds need few tries. Others needed 2 to 340, at a fifth of a second each.
    """
    return [
        Release(base, old_scheme.privatize(base, body, CLIP_NORM, STD, Sparsifier(), None, seed=seed)[0], UNTOUCHED)
        for seed, (base, body) in enumerate(bodies, start=11400)
    ]


@pytest.fixture(scope="module")
def new(bodies: list[tuple[Vector, Vector]]) -> list[Release]:
    """What is sent now."""
    return [
        Release(base, privatize(base, body, CLIP_NORM, STD, Sparsifier(), None)[0], UNTOUCHED) for base, body in bodies
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_state_word_follows_from_two_outputs(seed: int) -> None:
    source = np.random.SFC64(seed)
    source.random_raw(100)
    c, counter = source.state["state"]["state"][2:].tolist()
    one, _, three = source.random_raw(3).tolist()
    found = solutions((three - 9 * one - 2) % WORD, range(counter - 2, counter + 3))
    assert (c, counter) in found
    assert len(found) < 25, "about one for each counter"


def test_a_state_word_is_found_wherever_it_lies() -> None:
    """Where the sums in it have the fewest and the most carries."""
    for c in (0, 1, WORD - 1, WORD // 9, WORD // 9 * 8, 2**40 - 1, WORD - 2**40, 0x5555555555555555):
        v = 9 * c % WORD
        total = (v ^ v >> 11) + 9 * (c << 24 | c >> 40)
        assert (c, 13) in solutions((total + 13) % WORD, [13])


@pytest.mark.slow
def test_the_noise_of_the_old_scheme_can_be_taken_off(old: list[Release], bodies: list[tuple[Vector, Vector]]) -> None:
    found = recover(old, STD, most_pairs=TRIES)
    assert found is not None
    base, body = next(pair for pair in bodies if pair[0] is found.release.base)
    clipped = body - base
    assert old_scheme.clip(clipped, CLIP_NORM).clipped
    update = clipped.astype(np.float64)
    computed = np.subtract(found.release.released, base, dtype=np.float64) - found.noise
    length = float(np.linalg.norm(update))
    assert np.linalg.norm(found.noise) > 3000 * length
    assert computed @ update > 0.9999 * np.linalg.norm(computed) * length
    assert np.linalg.norm(computed - update) < 0.01 * length


def explained(seen: Sequence[Release]) -> float:
    """For what share of the values that are nearly the base there is a word which the old scheme could have drawn."""
    found = []
    for release in seen:
        base, released = release.base[:UNTOUCHED], release.released[:UNTOUCHED]
        for place in np.flatnonzero(np.abs(released - base) < STD / 400):
            words = explanations(released[place], base[place], np.float32(0), STD, at_once=False)
            found.append(words.size > 0)
    assert len(found) > 500
    return float(np.mean(found))


def test_values_give_away_the_words_behind_them_no_more(old: list[Release], new: list[Release]) -> None:
    assert explained(old) == 1
    assert explained(new) < 0.4, "by chance"


@pytest.mark.slow
def test_nothing_explains_a_release_now(new: list[Release]) -> None:
    """Where words fit by chance, the same search finds no generator behind them."""
    assert recover(new, STD, most_pairs=TRIES) is None
