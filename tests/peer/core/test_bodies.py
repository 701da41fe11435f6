"""Inbox and outbox: bodies by round, and the digests by which a second, different one shows."""

import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Inbox, Received


def body(rank, number, text):
    return wire.body(b"f" * 16, rank, number, [text], wire.digest_of([text]))


def put(inbox, rank, number, text):
    announced = body(rank, number, text)
    return inbox.put(announced, Received([text], len(text)))


def test_collects_in_rank_order_and_keeps_the_next_round():
    inbox = Inbox()
    for rank in (5, 1):
        put(inbox, rank, 0, b"now")
        put(inbox, rank, 1, b"next")
    found = inbox.take(0, (1, 5))
    assert list(found) == [1, 5]
    assert found[1].payload == [b"now"]
    assert inbox.take(1, (1, 5))[5].payload == [b"next"]


def test_of_no_use_is_dropped_and_counted():
    inbox = Inbox()
    inbox.open(4)
    put(inbox, 1, 3, b"late")
    put(inbox, 1, 6, b"early")
    put(inbox, 1, 4, b"first")
    put(inbox, 1, 4, b"first")
    assert inbox.dropped == {"late": 1, "early": 1, "duplicate": 1}
    assert inbox.take(4, (1,))[1].payload == [b"first"]
    put(inbox, 1, 4, b"first")
    assert inbox.dropped == {"late": 1, "early": 1, "duplicate": 2}


@pytest.fixture
def told():
    """Of which ranks and rounds an inbox has said that another body came."""
    return []


@pytest.fixture
def inbox(told):
    return Inbox(lambda *event, **of: told.append((of["neighbor"], of["round"])))


def reach(inbox, number, ranks=(1, 5)):
    """Run the rounds before `number`, in which everybody sends."""
    for earlier in range(inbox.earliest, number):
        inbox.open(earlier)
        for rank in ranks:
            put(inbox, rank, earlier, b"%d of %d" % (earlier, rank))
        inbox.take(earlier, ranks)
    inbox.open(number)


def test_another_body_is_reported_once_for_each_rank_and_round_and_the_first_is_used(inbox, told):
    for rank in (1, 5):
        for number in (0, 1):
            put(inbox, rank, number, b"first")
            for text in (b"other", b"first", b"third", b"other"):
                put(inbox, rank, number, text)
    assert told == [(1, 0), (1, 1), (5, 0), (5, 1)]
    assert inbox.dropped == {"different": 12, "duplicate": 4}
    for number in (0, 1):
        found = inbox.take(number, (1, 5))
        assert [one.payload for one in found.values()] == [[b"first"], [b"first"]]


@pytest.mark.parametrize("ago", [1, 2, 3])
def test_another_body_of_one_of_the_last_rounds_is_noticed(inbox, told, ago):
    reach(inbox, 9)
    put(inbox, 5, 9 - ago, b"%d of 5" % (9 - ago))
    assert (dict(inbox.dropped), told) == ({"duplicate": 1}, [])
    put(inbox, 5, 9 - ago, b"other")
    assert (dict(inbox.dropped), told) == ({"duplicate": 1, "different": 1}, [(5, 9 - ago)])


def test_a_body_of_long_ago_or_far_ahead_is_only_counted(inbox, told):
    reach(inbox, 9)
    for number in (0, 4, 11, 1000):
        put(inbox, 5, number, b"other")
        assert not inbox.wants(body(5, number, b"other"))
    assert inbox.dropped == {"late": 4, "early": 4}
    assert not told


def test_of_a_neighbor_that_seldom_sends_the_last_bodies_are_remembered(inbox, told):
    """Where graphs change, its next body may come many rounds later; so may its last one, once more."""
    put(inbox, 7, 0, b"first")
    inbox.take(0, (7,))
    reach(inbox, 50)
    put(inbox, 7, 0, b"other")
    assert told == [(7, 0)]


def test_what_is_remembered_is_bounded(inbox):
    for number in range(30):
        reach(inbox, number)
        for rank in (1, 5):
            for ahead in range(5):
                put(inbox, rank, number + ahead, b"%d of %d" % (number + ahead, rank))
        for rank in (1, 5):
            assert sum(inbox.knows(rank, other) for other in range(40)) <= 6
    inbox.open(30)
    for rank in (1, 5):
        assert [other for other in range(40) if inbox.knows(rank, other)] == [27, 28, 29, 30]


def test_one_that_was_dropped_when_its_round_was_over_is_remembered(inbox, told):
    put(inbox, 1, 0, b"first")
    inbox.open(1)
    put(inbox, 1, 0, b"other")
    assert (dict(inbox.dropped), told) == ({"late": 1, "different": 1}, [(1, 0)])


# -- digests of bodies -------------------------------------------------------------------------------------------------

SIZES = [0, 1, 15, 16, 17, 1000, 70_001, 1_000_003]


def cut(data, length):
    return [data[start : start + length] for start in range(0, len(data), length)]


def at_random(data, seed):
    generator = random.Random(seed)
    ends = sorted(generator.choices(range(len(data) + 1), k=generator.randint(1, 40)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@pytest.mark.parametrize("size", SIZES)
def test_a_digest_is_the_tag_of_aes_gcm_however_a_body_is_cut_and_whatever_holds_it(size, monkeypatch):
    data = random.Random(size).randbytes(size)
    whole = AESGCM(bytes(16)).encrypt(bytes(12), b"", data)
    assert len(whole) == wire.DIGEST_BYTES
    for parts in [cut(data, 7 if size < 10**5 else 1000), *(at_random(data, seed) for seed in range(5))]:
        assert wire.digest_of(parts) == whole
    assert wire.digest_of([bytearray(data)]) == whole
    if size % 4 == 0:
        assert wire.digest_of([memoryview(np.frombuffer(data, np.float32))]) == whole
    monkeypatch.setattr(wire, "_AT_ONCE", 400)
    assert wire.digest_of([data]) == whole


def test_each_byte_and_the_size_of_a_body_show():
    data = random.Random(0).randbytes(200)
    others = [bytes(size) for size in SIZES]
    others += [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(200)]
    assert len({wire.digest_of([one]) for one in others}) == len(others)
