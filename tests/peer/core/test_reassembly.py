"""Reassembly of bodies from their chunks, step by step."""

import random

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Reassembly
from dpeer.peer.core.wire import Chunk
from tests.peer.table import chunked, encoded

SIZES = [10, 0, 23]
LIMITS = wire.Limits(payload_bytes=1000)


def buffers(seed):
    return [random.Random(seed * 100 + index).randbytes(length) for index, length in enumerate(SIZES)]


def messages(seed, number=0, rank=1):
    """A body as it is announced, and its five chunks, of buffers of 10, 0 and 23 bytes."""
    frames = encoded(b"f" * 16, rank, number, buffers(seed))
    announced, *chunks = [wire.decode(message, LIMITS) for message in chunked(frames, 8)]
    assert len(chunks) == 5
    return announced, chunks


BODIES = {"A": (1, *messages(1)), "B": (2, *messages(2)), "C": (3, *messages(3, number=1))}
"""A and B are of one round."""


class Memory:
    """Gives out memory, and remembers it; None for none."""

    def __init__(self, nbytes):
        self.nbytes, self.given = nbytes, []

    def __call__(self):
        if self.nbytes is None:
            return None
        self.given.append(bytearray(b"\xaa" * self.nbytes))
        return memoryview(self.given[-1])


@pytest.fixture(params=[sum(SIZES), 3 * sum(SIZES), None], ids=["memory", "more memory", "none"])
def memory(request):
    return Memory(request.param)


def joined(payload):
    return b"".join(bytes(part) for part in payload)


def refused(reason, call, *args, **kwargs):
    with pytest.raises(ProtocolError) as caught:
        call(*args, **kwargs)
    assert caught.value.reason == reason


def fed(reassembly, link, chunks):
    """Add the chunks, the last of which completes a body; returns that."""
    *first, last = chunks
    for chunk in first:
        assert not reassembly.add(link, chunk).complete
    partial = reassembly.add(link, last)
    assert partial.complete
    return partial


@pytest.mark.parametrize(
    "steps",
    [
        "A A0 A1 A2 A3 A4=A A4:stray",
        "A A0 A0:stray A1 A1:stray A2 A3 A4=A",  # twice
        "A A0 A2:stray A1 A3:stray A2 A3 A4=A",  # not the next one
        "A C0:stray A0 C1:stray A1 A2 A3 A4=A",  # of another body
        "A0:stray A A0 A1 A2 A3 A4=A",  # not announced
        "A C:incomplete A0:stray C0 C1 C2 C3 C4=C",
        "A A0 A1 A2 C:incomplete A3:stray C0 C1 C2 C3 C4=C",
        "A A0 A1 A2 B:incomplete B0 B1 B2 B3 B4=B",  # nothing of A is in it
        "A A0 A1 A A0 A1 A2 A3 A4=A",  # the same body again
        "A A0 A1 A A2:stray A0 A1 A2 A3 A4=A",
        "A A0 A1 A2 A3 A4=A C C0 C1 C2 C3 C4=C B B0 B1 B2 B3 B4=B",
        "A A0 - - A1:stray A A0 A1 A2 A3 A4=A",  # forgotten, and so not incomplete
    ],
)
def test_chunks_make_the_body_that_was_announced_last_and_no_other(memory, steps):
    reassembly = Reassembly(memory)
    for step in steps.split():
        act, _, whole = step.partition("=")
        act, _, reason = act.partition(":")
        if act == "-":
            reassembly.forget("link")
            continue
        seed, announced, chunks = BODIES[act[0]]
        call = (
            (reassembly.add, "link", chunks[int(act[1])]) if len(act) > 1 else (reassembly.begin, "link", announced, 9)
        )
        named = {} if len(act) > 1 else {"wanted": True}
        if reason:
            refused(reason, *call, **named)
            continue
        partial = call[0](*call[1:], **named)
        assert (partial is not None and partial.complete) == bool(whole)
        if whole:
            assert (partial.body, partial.wire_bytes, partial.wanted) == (announced, 9, True)
            assert joined(partial.payload) == joined(buffers(seed))


@pytest.mark.parametrize("shift", [-8, -1, 1, 8, 2**60])
def test_a_chunk_at_another_place_is_stray_and_the_body_still_comes(memory, shift):
    reassembly, (_, announced, chunks) = Reassembly(memory), BODIES["A"]
    reassembly.begin("link", announced, 0, wanted=True)
    reassembly.add("link", chunks[0])
    refused("stray", reassembly.add, "link", chunks[1]._replace(offset=chunks[1].offset + shift))
    for chunk in chunks[1:-1]:
        reassembly.add("link", chunk)
    tag, offset, data = chunks[-1]
    refused("stray", reassembly.add, "link", Chunk(tag, offset, bytes(data) + b"x"))  # past the end
    assert joined(reassembly.add("link", chunks[-1]).payload) == joined(buffers(1))


def test_with_memory_the_buffers_are_as_they_were_and_read_only():
    memory, (_, announced, chunks) = Memory(2 * sum(SIZES)), BODIES["A"]
    reassembly = Reassembly(memory)
    reassembly.begin("link", announced, 0, wanted=True)
    payload = fed(reassembly, "link", chunks).payload
    assert [bytes(one) for one in payload] == buffers(1)
    assert all(one.readonly for one in payload)
    (given,) = memory.given
    given[0] ^= 255  # they are that very memory
    assert payload[0][0] == given[0]
    assert given[sum(SIZES) :] == b"\xaa" * sum(SIZES), "the memory beyond the body is left alone"


def test_a_body_that_is_not_wanted_takes_no_memory():
    memory, (_, announced, chunks) = Memory(sum(SIZES)), BODIES["A"]
    reassembly = Reassembly(memory)
    reassembly.begin("link", announced, 0, wanted=False)
    partial = fed(reassembly, "link", chunks)
    assert (partial.wanted, memory.given) == (False, [])


def test_of_a_body_whose_round_is_over_nothing_is_kept_and_the_rest_may_come(memory):
    reassembly = Reassembly(memory)
    for link, body in ("late", "A"), ("present", "C"):
        _, announced, chunks = BODIES[body]
        reassembly.begin(link, announced, 0, wanted=True)
        reassembly.add(link, chunks[0])
    assert reassembly.give_up_before(1) == 1
    assert reassembly.give_up_before(1) == 0
    late, present = (fed(reassembly, link, BODIES[body][2][1:]) for link, body in (("late", "A"), ("present", "C")))
    assert not late.wanted
    assert joined(present.payload) == joined(buffers(3))
