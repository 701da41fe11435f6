"""What is remembered of a body's bytes."""

import random

import numpy as np
import pytest

from dpeer.peer.core.bodies import WHOLE, WIDTH, WINDOWS, PayloadFingerprint, fingerprint_of

SIZES = [0, 1, 2, 63, 64, 65, 1000, WHOLE - 1, WHOLE, WHOLE + 1, WHOLE + 2, 2 * WHOLE, 100_000, 1_000_003]
LARGE = [WHOLE + 1, WHOLE + WINDOWS - 1, 2 * WHOLE, 1_000_003]


def drawn(count, seed=0):
    return random.Random(seed).randbytes(count)


def cut(data, length):
    return [data[start : start + length] for start in range(0, len(data), length)]


def at_random(data, seed):
    generator = random.Random(seed)
    ends = sorted(generator.choices(range(len(data) + 1), k=generator.randint(1, 40)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


class Recorder:
    """Takes a hash's place, and keeps what would have been hashed."""

    def __init__(self):
        self.seen = b""

    def update(self, data):
        self.seen += bytes(data)


def seen(chunks):
    """What a fingerprint looks at."""
    one = PayloadFingerprint(sum(map(len, chunks)))
    one._hash = Recorder()
    for chunk in chunks:
        one.add(chunk)
    return one._hash.seen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [7, 64, 1000, WHOLE, 2**22])
def test_pieces_leave_the_imprint_of_the_whole(size, length):
    data = drawn(size)
    assert fingerprint_of(cut(data, length)) == fingerprint_of([data])


@pytest.mark.parametrize("size", [1, 65, WHOLE, WHOLE + 1, 70_001])
def test_single_bytes_leave_the_imprint_of_the_whole(size):
    data = drawn(size)
    assert fingerprint_of(cut(data, 1)) == fingerprint_of([data])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_buffers_of_any_lengths_leave_the_imprint_of_the_whole(size, seed):
    data = drawn(size)
    assert fingerprint_of(at_random(data, seed)) == fingerprint_of([data])


@pytest.mark.parametrize("size", SIZES)
def test_pieces_as_they_come_leave_the_imprint_of_the_whole(size):
    data = drawn(size)
    one = PayloadFingerprint(size)
    for chunk in at_random(data, 7):
        one.add(chunk)
    assert one.digest() == fingerprint_of([data])


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: memoryview(np.frombuffer(data, np.float32))])
@pytest.mark.parametrize("size", [0, 4, WHOLE, WHOLE + 4, 1_000_000])
def test_what_holds_the_bytes_makes_no_difference(size, kind):
    data = drawn(size)
    assert fingerprint_of([kind(data)]) == fingerprint_of([data])


def test_nothing_at_all_has_an_imprint():
    assert fingerprint_of([]) == fingerprint_of([b""]) == fingerprint_of([b"", memoryview(b"")])


def test_bodies_of_zeros_differ_by_their_size():
    assert len({fingerprint_of([bytes(size)]) for size in SIZES}) == len(SIZES)


@pytest.mark.parametrize("size", [1, 64, 65, WHOLE])
def test_of_a_small_body_every_byte_counts(size):
    data = drawn(size)
    for place in {0, size // 2, size - 1, *random.Random(size).choices(range(size), k=50)}:
        other = bytearray(data)
        other[place] ^= 1
        assert fingerprint_of([other]) != fingerprint_of([data]), place


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("length", [1000, 2**22])
def test_of_a_large_body_all_windows_are_looked_at_and_nothing_else(size, length):
    data = drawn(size)
    looked_at = seen(cut(data, length))
    assert len(looked_at) == WINDOWS * WIDTH
    step = (size - WIDTH) // (WINDOWS - 1)
    assert looked_at == b"".join(data[start : start + WIDTH] for start in range(0, WINDOWS * step, step))
    assert size - ((WINDOWS - 1) * step + WIDTH) < WINDOWS, "they reach to the end"


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("window", [0, 1, 40, WINDOWS - 1])
def test_one_changed_window_is_seen(size, window):
    data = drawn(size)
    for byte in (0, WIDTH - 1):
        other = bytearray(data)
        other[window * ((size - WIDTH) // (WINDOWS - 1)) + byte] ^= 1
        assert fingerprint_of([other]) != fingerprint_of([data])
        assert fingerprint_of(cut(bytes(other), 1000)) != fingerprint_of([data])


def test_fresh_noise_is_seen_and_the_same_noise_is_not():
    body = np.random.default_rng(0).standard_normal(250_000, dtype=np.float32)
    noised = [body + np.float32(1e-3) * np.random.default_rng(seed).standard_normal(250_000) for seed in (1, 1, 2)]
    first, same, other = (fingerprint_of([one.astype(np.float32).tobytes()]) for one in noised)
    assert first == same
    assert first != other
