"""Inbox and outbox: bodies by round, and the fingerprints by which a second, different one shows."""

import random

import numpy as np
import pytest

from dpeer.peer.core.bodies import WHOLE, WIDTH, WINDOWS, Inbox, PayloadFingerprint, Received, fingerprint_of


def body(text):
    return Received([text], len(text))


def test_collects_in_rank_order_and_keeps_the_next_round():
    inbox = Inbox()
    for rank in (5, 1):
        inbox.put(rank, 0, body(b"now"))
        inbox.put(rank, 1, body(b"next"))
    found = inbox.take(0, (1, 5))
    assert list(found) == [1, 5]
    assert found[1].payload == [b"now"]
    assert inbox.take(1, (1, 5))[5].payload == [b"next"]


def test_of_no_use_is_dropped_and_counted():
    inbox = Inbox()
    inbox.open(4)
    inbox.put(1, 3, body(b"late"))
    inbox.put(1, 6, body(b"early"))
    inbox.put(1, 4, body(b"first"))
    inbox.put(1, 4, body(b"first"))
    assert inbox.dropped == {"late": 1, "early": 1, "duplicate": 1}
    assert inbox.take(4, (1,))[1].payload == [b"first"]
    inbox.put(1, 4, body(b"first"))
    assert inbox.dropped == {"late": 1, "early": 1, "duplicate": 2}


@pytest.fixture
def told():
    """Of which ranks and rounds an inbox has said that another body came."""
    return []


@pytest.fixture
def inbox(told):
    return Inbox(lambda rank, number: told.append((rank, number)))


def reach(inbox, number, ranks=(1, 5)):
    """Run the rounds before `number`, in which everybody sends."""
    for earlier in range(inbox.earliest, number):
        inbox.open(earlier)
        for rank in ranks:
            inbox.put(rank, earlier, body(b"%d of %d" % (earlier, rank)))
        inbox.take(earlier, ranks)
    inbox.open(number)


def test_another_body_is_reported_once_for_each_rank_and_round_and_the_first_is_used(inbox, told):
    for rank in (1, 5):
        for number in (0, 1):
            inbox.put(rank, number, body(b"first"))
            for text in (b"other", b"first", b"third", b"other"):
                inbox.put(rank, number, body(text))
    assert told == [(1, 0), (1, 1), (5, 0), (5, 1)]
    assert inbox.dropped == {"different": 12, "duplicate": 4}
    for number in (0, 1):
        found = inbox.take(number, (1, 5))
        assert [one.payload for one in found.values()] == [[b"first"], [b"first"]]


@pytest.mark.parametrize("ago", [1, 2, 3])
def test_another_body_of_one_of_the_last_rounds_is_noticed(inbox, told, ago):
    reach(inbox, 9)
    inbox.put(5, 9 - ago, body(b"%d of 5" % (9 - ago)))
    assert (dict(inbox.dropped), told) == ({"duplicate": 1}, [])
    inbox.put(5, 9 - ago, body(b"other"))
    assert (dict(inbox.dropped), told) == ({"duplicate": 1, "different": 1}, [(5, 9 - ago)])


def test_a_body_of_long_ago_or_far_ahead_is_only_counted(inbox, told):
    reach(inbox, 9)
    for number in (0, 4, 11, 1000):
        inbox.put(5, number, body(b"other"))
        assert not inbox.wants(5, number)
        inbox.compare(5, number, fingerprint_of([b"other"]))
    assert inbox.dropped == {"late": 4, "early": 4}
    assert not told


def test_of_a_neighbor_that_seldom_sends_the_last_bodies_are_remembered(inbox, told):
    """Where graphs change, its next body may come many rounds later; so may its last one, once more."""
    inbox.put(7, 0, body(b"first"))
    inbox.take(0, (7,))
    reach(inbox, 50)
    inbox.put(7, 0, body(b"other"))
    assert told == [(7, 0)]


def test_what_is_remembered_is_bounded(inbox):
    for number in range(30):
        reach(inbox, number)
        for rank in (1, 5):
            for ahead in range(5):
                inbox.put(rank, number + ahead, body(b"%d of %d" % (number + ahead, rank)))
        for rank in (1, 5):
            assert sum(inbox.knows(rank, other) for other in range(40)) <= 6
    inbox.open(30)
    for rank in (1, 5):
        assert [other for other in range(40) if inbox.knows(rank, other)] == [27, 28, 29, 30]


def test_one_that_was_dropped_when_its_round_was_over_is_remembered(inbox, told):
    inbox.put(1, 0, body(b"first"))
    inbox.open(1)
    inbox.put(1, 0, body(b"other"))
    assert (dict(inbox.dropped), told) == ({"late": 1, "different": 1}, [(1, 0)])


# -- fingerprints of bodies --------------------------------------------------------------------------------------------

SIZES = [0, 1, 63, 65, 1000, WHOLE - 1, WHOLE, WHOLE + 1, WHOLE + WINDOWS - 1, 2 * WHOLE, 70_001, 1_000_003]


def cut(data, length):
    return [data[start : start + length] for start in range(0, len(data), length)]


def at_random(data, seed):
    generator = random.Random(seed)
    ends = sorted(generator.choices(range(len(data) + 1), k=generator.randint(1, 40)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@pytest.mark.parametrize("size", SIZES)
def test_a_fingerprint_does_not_depend_on_how_a_body_is_cut_nor_on_what_holds_it(size):
    data = random.Random(size).randbytes(size)
    whole = fingerprint_of([data])
    for parts in [
        cut(data, 7 if size < 10**5 else 1000),
        cut(data, WHOLE),
        *(at_random(data, seed) for seed in range(5)),
    ]:
        assert fingerprint_of(parts) == whole
        one = PayloadFingerprint(size)
        for part in parts:
            one.add(memoryview(bytearray(part)))
        assert one.digest() == whole
    if size % 4 == 0:
        assert fingerprint_of([memoryview(np.frombuffer(data, np.float32))]) == whole


def test_bodies_of_zeros_differ_by_their_size():
    assert len({fingerprint_of([bytes(size)]) for size in SIZES}) == len(SIZES)
    assert fingerprint_of([]) == fingerprint_of([b""]) == fingerprint_of([b"", memoryview(b"")])


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_changed_byte_is_seen_in_a_small_body_and_in_every_window_of_a_large_one(size):
    data = random.Random(size).randbytes(size)
    if size <= WHOLE:
        places, unseen = {0, size // 2, size - 1, *random.Random(size).choices(range(size), k=20)}, []
    else:
        step = (size - WIDTH) // (WINDOWS - 1)
        places = {window * step + byte for window in (0, 1, 40, WINDOWS - 1) for byte in (0, WIDTH - 1)}
        unseen = [window * step + WIDTH for window in (0, 30)] if step > WIDTH else []
        assert size - ((WINDOWS - 1) * step + WIDTH) < WINDOWS, "they reach to the end"
    for place in [*places, *unseen]:
        other = bytearray(data)
        other[place] ^= 1
        assert (fingerprint_of([other]) != fingerprint_of([data])) == (place in places), place


def test_fresh_noise_is_seen_and_the_same_noise_is_not():
    body = np.random.default_rng(0).standard_normal(250_000, dtype=np.float32)
    noised = [body + np.float32(1e-3) * np.random.default_rng(seed).standard_normal(250_000) for seed in (1, 1, 2)]
    first, same, other = (fingerprint_of([one.astype(np.float32).tobytes()]) for one in noised)
    assert first == same
    assert first != other
