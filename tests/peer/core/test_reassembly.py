"""Where the pieces of bodies go."""

import random

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import Reassembly
from dpeer.peer.core.chunking import chunked as pieces_of
from dpeer.peer.core.payload_fingerprint import fingerprint_of
from dpeer.peer.core.wire import Chunk

SIZES = [10, 0, 23]
LIMITS = wire.Limits(payload_bytes=1000)


def buffers(seed, sizes=SIZES):
    return [random.Random(seed * 100 + index).randbytes(length) for index, length in enumerate(sizes)]


def chunked(seed, *, rank=1, number=0, sizes=SIZES, chunk_bytes=8):
    """A body as it is announced, and its pieces."""
    frames = wire.encode(wire.body(b"f" * 16, rank, number, buffers(seed, sizes)))
    announced, *chunks = [wire.decode(message, LIMITS) for message in pieces_of(frames, chunk_bytes)]
    assert len(chunks) >= 3
    return announced, chunks


class Rooms:
    """Gives out memory, and remembers it; None where pieces are to stay as they came."""

    def __init__(self, nbytes):
        self.nbytes, self.given = nbytes, []

    def __call__(self):
        if self.nbytes is None:
            return None
        self.given.append(bytearray(b"\xaa" * self.nbytes))
        return memoryview(self.given[-1])


@pytest.fixture(params=["room", "larger room", "no room"])
def rooms(request):
    return Rooms({"room": sum(SIZES), "larger room": 3 * sum(SIZES), "no room": None}[request.param])


def joined(payload):
    return b"".join(bytes(part) for part in payload)


def refused(reason, call, *args, **kwargs):
    with pytest.raises(ProtocolError) as caught:
        call(*args, **kwargs)
    assert caught.value.reason == reason


def fed(reassembly, link, chunks):
    """Add the pieces, the last of which completes a body; returns that."""
    *first, last = chunks
    for chunk in first:
        assert not reassembly.add(link, chunk).complete
    arriving = reassembly.add(link, last)
    assert arriving.complete
    return arriving


def test_pieces_in_order_make_the_body(rooms):
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 1234, wanted=True)
    arriving = fed(reassembly, "a", chunks)
    assert joined(arriving.payload) == joined(buffers(1))
    assert (arriving.body, arriving.wire_bytes, arriving.wanted) == (announced, 1234, True)
    refused("stray", reassembly.add, "a", chunks[-1])


def test_with_room_the_buffers_are_as_they_were_and_read_only():
    rooms = Rooms(2 * sum(SIZES))
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    payload = fed(reassembly, "a", chunks).payload
    assert [bytes(one) for one in payload] == buffers(1)
    assert all(one.readonly for one in payload)
    (room,) = rooms.given
    room[0] ^= 255  # they are that very memory
    assert payload[0][0] == room[0]
    assert room[sum(SIZES) :] == b"\xaa" * sum(SIZES), "what is beyond the body is left alone"


def test_without_room_the_pieces_are_kept_as_they_came():
    reassembly = Reassembly(lambda: None)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    payload = fed(reassembly, "a", chunks).payload
    assert all(
        one is part for one, part in zip(payload, [part for chunk in chunks for part in chunk.data], strict=True)
    )


@pytest.mark.parametrize("shift", [-8, -1, 1, 8, 2**60])
def test_a_piece_at_another_place_is_stray_and_the_body_still_comes(rooms, shift):
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    reassembly.add("a", chunks[0])
    tag, offset, data = chunks[1]
    refused("stray", reassembly.add, "a", Chunk(tag, offset + shift, data))
    assert joined(fed(reassembly, "a", chunks[1:]).payload) == joined(buffers(1))


def test_a_piece_that_comes_twice_counts_once(rooms):
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    for chunk in chunks[:-1]:
        reassembly.add("a", chunk)
        refused("stray", reassembly.add, "a", chunk)
    assert joined(fed(reassembly, "a", chunks[-1:]).payload) == joined(buffers(1))


def test_a_piece_of_another_body_is_stray_and_the_body_still_comes(rooms):
    reassembly = Reassembly(rooms)
    (announced, chunks), (_, others) = chunked(1), chunked(2, number=1)
    reassembly.begin("a", announced, 0, wanted=True)
    for chunk, other in zip(chunks[:-1], others[:-1], strict=True):
        refused("stray", reassembly.add, "a", other)
        reassembly.add("a", chunk)
    assert joined(fed(reassembly, "a", chunks[-1:]).payload) == joined(buffers(1))


def test_a_piece_past_the_end_is_stray_and_the_body_still_comes(rooms):
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    for chunk in chunks[:-1]:
        reassembly.add("a", chunk)
    tag, offset, data = chunks[-1]
    refused("stray", reassembly.add, "a", Chunk(tag, offset, (*data, b"x")))
    assert joined(fed(reassembly, "a", chunks[-1:]).payload) == joined(buffers(1))


def test_a_piece_without_an_announcement_is_stray(rooms):
    refused("stray", Reassembly(rooms).add, "a", chunked(1)[1][0])
    assert not rooms.given


@pytest.mark.parametrize("came", [0, 1, 3])
def test_another_announcement_gives_up_the_body_before(rooms, came):
    reassembly = Reassembly(rooms)
    (announced, chunks), (other, others) = chunked(1), chunked(2, number=1)
    reassembly.begin("a", announced, 1, wanted=True)
    for chunk in chunks[:came]:
        reassembly.add("a", chunk)
    refused("incomplete", reassembly.begin, "a", other, 2, wanted=True)
    refused("stray", reassembly.add, "a", chunks[came])
    arriving = fed(reassembly, "a", others)
    assert (arriving.body, arriving.wire_bytes) == (other, 2)
    assert joined(arriving.payload) == joined(buffers(2))


def test_announced_again_it_begins_anew_with_nothing_of_before(rooms):
    """Same header, so the same tag; but another body."""
    reassembly = Reassembly(rooms)
    (announced, chunks), (again, others) = chunked(1), chunked(2)
    assert announced.tag == again.tag
    reassembly.begin("a", announced, 0, wanted=True)
    for chunk in chunks[:3]:
        reassembly.add("a", chunk)
    refused("incomplete", reassembly.begin, "a", again, 0, wanted=True)
    assert joined(fed(reassembly, "a", others).payload) == joined(buffers(2))


def test_after_a_whole_body_another_is_not_called_incomplete(rooms):
    reassembly = Reassembly(rooms)
    for seed in (1, 2, 3):
        announced, chunks = chunked(seed, number=seed)
        reassembly.begin("a", announced, 0, wanted=True)
        assert joined(fed(reassembly, "a", chunks).payload) == joined(buffers(seed))


def test_what_is_not_wanted_takes_no_memory():
    rooms = Rooms(sum(SIZES))
    for give in (rooms, lambda: None):
        reassembly = Reassembly(give)
        announced, chunks = chunked(1)
        reassembly.begin("a", announced, 0, wanted=False)
        arriving = fed(reassembly, "a", chunks)
        assert not arriving.wanted
        assert (arriving.buffer, arriving.chunks) == (None, [])
        assert arriving.fingerprint.digest() == fingerprint_of(buffers(1)) != fingerprint_of(buffers(2))
        refused("stray", reassembly.add, "a", chunks[0])
    assert not rooms.given


def test_what_is_forgotten_is_not_finished(rooms):
    reassembly = Reassembly(rooms)
    announced, chunks = chunked(1)
    reassembly.begin("a", announced, 0, wanted=True)
    reassembly.add("a", chunks[0])
    reassembly.forget("a")
    reassembly.forget("a")
    reassembly.forget(None)
    refused("stray", reassembly.add, "a", chunks[1])
    reassembly.begin("a", announced, 0, wanted=True)  # nothing is incomplete
    assert joined(fed(reassembly, "a", chunks).payload) == joined(buffers(1))


@pytest.mark.parametrize("seed", range(5))
def test_links_know_nothing_of_each_other(rooms, seed):
    reassembly = Reassembly(rooms)
    links = {f"link {rank}": chunked(rank, rank=rank) for rank in range(4)}
    for link, (announced, _) in links.items():
        reassembly.begin(link, announced, 0, wanted=True)
    for link in links:
        others = [chunks[0] for other, (_, chunks) in links.items() if other != link]
        for chunk in others:
            refused("stray", reassembly.add, link, chunk)
    order = [link for link, (_, chunks) in links.items() for _ in chunks]
    random.Random(seed).shuffle(order)
    left, done = {link: list(chunks) for link, (_, chunks) in links.items()}, {}
    for link in order:
        if link == "link 3" and len(left[link]) == 2:
            reassembly.forget(link)
            left[link].clear()
        if not left[link]:
            continue
        arriving = reassembly.add(link, left[link].pop(0))
        if arriving.complete:
            done[link] = joined(arriving.payload)
    assert done == {f"link {rank}": joined(buffers(rank)) for rank in range(3)}
