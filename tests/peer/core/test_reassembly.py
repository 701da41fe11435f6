"""Where the pieces of bodies go."""

import random

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import cut as pieces_of
from dpeer.peer.core.payload_fingerprint import imprint
from dpeer.peer.core.reassembly import Assembly
from dpeer.peer.core.wire import Piece

SIZES = [10, 0, 23]
LIMITS = wire.Limits(payload_bytes=1000)


def buffers(seed, sizes=SIZES):
    return [random.Random(seed * 100 + index).randbytes(length) for index, length in enumerate(sizes)]


def cut(seed, *, rank=1, number=0, sizes=SIZES, piece_bytes=8):
    """A body as it is announced, and its pieces."""
    frames = wire.encode(wire.body(b"f" * 16, rank, number, buffers(seed, sizes)))
    announced, *pieces = [wire.decode(message, LIMITS) for message in pieces_of(frames, piece_bytes)]
    assert len(pieces) >= 3
    return announced, pieces


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


def fed(assembly, link, pieces):
    """Add the pieces, the last of which completes a body; returns that."""
    *first, last = pieces
    for piece in first:
        assert not assembly.add(link, piece).complete
    arriving = assembly.add(link, last)
    assert arriving.complete
    return arriving


def test_pieces_in_order_make_the_body(rooms):
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 1234, wanted=True)
    arriving = fed(assembly, "a", pieces)
    assert joined(arriving.payload) == joined(buffers(1))
    assert (arriving.body, arriving.wire_bytes, arriving.wanted) == (announced, 1234, True)
    refused("stray", assembly.add, "a", pieces[-1])


def test_with_room_the_buffers_are_as_they_were_and_read_only():
    rooms = Rooms(2 * sum(SIZES))
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    payload = fed(assembly, "a", pieces).payload
    assert [bytes(one) for one in payload] == buffers(1)
    assert all(one.readonly for one in payload)
    (room,) = rooms.given
    room[0] ^= 255  # they are that very memory
    assert payload[0][0] == room[0]
    assert room[sum(SIZES) :] == b"\xaa" * sum(SIZES), "what is beyond the body is left alone"


def test_without_room_the_pieces_are_kept_as_they_came():
    assembly = Assembly(lambda: None)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    payload = fed(assembly, "a", pieces).payload
    assert all(
        one is part for one, part in zip(payload, [part for piece in pieces for part in piece.data], strict=True)
    )


@pytest.mark.parametrize("shift", [-8, -1, 1, 8, 2**60])
def test_a_piece_at_another_place_is_stray_and_the_body_still_comes(rooms, shift):
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    assembly.add("a", pieces[0])
    tag, offset, data = pieces[1]
    refused("stray", assembly.add, "a", Piece(tag, offset + shift, data))
    assert joined(fed(assembly, "a", pieces[1:]).payload) == joined(buffers(1))


def test_a_piece_that_comes_twice_counts_once(rooms):
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    for piece in pieces[:-1]:
        assembly.add("a", piece)
        refused("stray", assembly.add, "a", piece)
    assert joined(fed(assembly, "a", pieces[-1:]).payload) == joined(buffers(1))


def test_a_piece_of_another_body_is_stray_and_the_body_still_comes(rooms):
    assembly = Assembly(rooms)
    (announced, pieces), (_, others) = cut(1), cut(2, number=1)
    assembly.begin("a", announced, 0, wanted=True)
    for piece, other in zip(pieces[:-1], others[:-1], strict=True):
        refused("stray", assembly.add, "a", other)
        assembly.add("a", piece)
    assert joined(fed(assembly, "a", pieces[-1:]).payload) == joined(buffers(1))


def test_a_piece_past_the_end_is_stray_and_the_body_still_comes(rooms):
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    for piece in pieces[:-1]:
        assembly.add("a", piece)
    tag, offset, data = pieces[-1]
    refused("stray", assembly.add, "a", Piece(tag, offset, (*data, b"x")))
    assert joined(fed(assembly, "a", pieces[-1:]).payload) == joined(buffers(1))


def test_a_piece_without_an_announcement_is_stray(rooms):
    refused("stray", Assembly(rooms).add, "a", cut(1)[1][0])
    assert not rooms.given


@pytest.mark.parametrize("came", [0, 1, 3])
def test_another_announcement_gives_up_the_body_before(rooms, came):
    assembly = Assembly(rooms)
    (announced, pieces), (other, others) = cut(1), cut(2, number=1)
    assembly.begin("a", announced, 1, wanted=True)
    for piece in pieces[:came]:
        assembly.add("a", piece)
    refused("incomplete", assembly.begin, "a", other, 2, wanted=True)
    refused("stray", assembly.add, "a", pieces[came])
    arriving = fed(assembly, "a", others)
    assert (arriving.body, arriving.wire_bytes) == (other, 2)
    assert joined(arriving.payload) == joined(buffers(2))


def test_announced_again_it_begins_anew_with_nothing_of_before(rooms):
    """Same header, so the same tag; but another body."""
    assembly = Assembly(rooms)
    (announced, pieces), (again, others) = cut(1), cut(2)
    assert announced.tag == again.tag
    assembly.begin("a", announced, 0, wanted=True)
    for piece in pieces[:3]:
        assembly.add("a", piece)
    refused("incomplete", assembly.begin, "a", again, 0, wanted=True)
    assert joined(fed(assembly, "a", others).payload) == joined(buffers(2))


def test_after_a_whole_body_another_is_not_called_incomplete(rooms):
    assembly = Assembly(rooms)
    for seed in (1, 2, 3):
        announced, pieces = cut(seed, number=seed)
        assembly.begin("a", announced, 0, wanted=True)
        assert joined(fed(assembly, "a", pieces).payload) == joined(buffers(seed))


def test_what_is_not_wanted_takes_no_memory():
    rooms = Rooms(sum(SIZES))
    for give in (rooms, lambda: None):
        assembly = Assembly(give)
        announced, pieces = cut(1)
        assembly.begin("a", announced, 0, wanted=False)
        arriving = fed(assembly, "a", pieces)
        assert not arriving.wanted
        assert (arriving.room, arriving.pieces) == (None, [])
        assert arriving.imprint.digest() == imprint(buffers(1)) != imprint(buffers(2))
        refused("stray", assembly.add, "a", pieces[0])
    assert not rooms.given


def test_what_is_forgotten_is_not_finished(rooms):
    assembly = Assembly(rooms)
    announced, pieces = cut(1)
    assembly.begin("a", announced, 0, wanted=True)
    assembly.add("a", pieces[0])
    assembly.forget("a")
    assembly.forget("a")
    assembly.forget(None)
    refused("stray", assembly.add, "a", pieces[1])
    assembly.begin("a", announced, 0, wanted=True)  # nothing is incomplete
    assert joined(fed(assembly, "a", pieces).payload) == joined(buffers(1))


@pytest.mark.parametrize("seed", range(5))
def test_links_know_nothing_of_each_other(rooms, seed):
    assembly = Assembly(rooms)
    links = {f"link {rank}": cut(rank, rank=rank) for rank in range(4)}
    for link, (announced, _) in links.items():
        assembly.begin(link, announced, 0, wanted=True)
    for link in links:
        others = [pieces[0] for other, (_, pieces) in links.items() if other != link]
        for piece in others:
            refused("stray", assembly.add, link, piece)
    order = [link for link, (_, pieces) in links.items() for _ in pieces]
    random.Random(seed).shuffle(order)
    left, done = {link: list(pieces) for link, (_, pieces) in links.items()}, {}
    for link in order:
        if link == "link 3" and len(left[link]) == 2:
            assembly.forget(link)
            left[link].clear()
        if not left[link]:
            continue
        arriving = assembly.add(link, left[link].pop(0))
        if arriving.complete:
            done[link] = joined(arriving.payload)
    assert done == {f"link {rank}": joined(buffers(rank)) for rank in range(3)}
