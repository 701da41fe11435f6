"""Wire format: every message comes as it was sent, whatever is damaged is refused, and no header costs much."""

import array
import contextlib
import itertools
import pickle
import tracemalloc

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from tests.peer.table import chunked, encoded

FEDERATION = b"f" * 16
LIMITS = wire.Limits(header_bytes=10_000, small_header_bytes=1_000, payload_bytes=100, buffers=3)
HELLO = wire.Hello(
    rank=3, next_round=7, reply=True, fingerprint={"size": 8, "rho": 0.05}, manifest={"count": 2}, digest="d"
)
PACKED = wire.encode(HELLO)[0]
BODY = wire.body(FEDERATION, 0, 0, [b"abcd"], bytes(wire.DIGEST_BYTES))


def reason(frames):
    with pytest.raises(ProtocolError) as caught:
        wire.decode(frames, LIMITS)
    return caught.value.reason


def header(**changes):
    fields = {
        "kind": "body",
        "rank": 0,
        "federation": FEDERATION,
        "round": 0,
        "sizes": [4],
        "digest": bytes(16),
    } | changes
    return msgpack.packb(fields)


def hello_with(count, blob):
    """A hello whose manifest has a list of so many times this value."""
    fields = msgpack.unpackb(PACKED)
    del fields["manifest"]
    packer = msgpack.Packer()
    head = packer.pack_map_header(len(fields) + 1) + b"".join(
        packer.pack(one) for pair in fields.items() for one in pair
    )
    return head + packer.pack("manifest") + packer.pack_map_header(1) + packer.pack("a") + (
        packer.pack_array_header(count) + blob * count
    )  # fmt: skip


def a_chunk(tag=b"t" * 8, offset=3, data=b"data"):
    return [b"\xc1" + tag + offset.to_bytes(8, "little"), data]


REFUSED = {
    "oversized": {
        "a header": [b"\x00" * 10_001],
        "a payload": [header(), b"x" * 101],
        "buffers": [header(), b"", b"", b"", b""],
        "an announcement": [header(sizes=[101])],
        "an announcement of two": [header(sizes=[50, 51])],
        "an announcement of four": [header(sizes=[1] * 4)],
        "a huge announcement": [header(sizes=[2**63])],
        "two huge ones": [header(sizes=[2**64 - 1, 2**64 - 1])],
        "the header of an announcement": [header(sizes=[1] * 2_000)],
    },
    "malformed": {
        "nothing": [],
        "an empty frame": [b""],
        "no msgpack": [b"not msgpack \xc1"],
        "a pickle": [pickle.dumps({"kind": "heartbeat"})],
        "a list": [msgpack.packb([1, 2])],
        "another kind": [msgpack.packb({"kind": "dance", "rank": 0})],
        "a negative rank": [header(rank=-1), b"abcd"],
        "a truth value": [header(rank=True), b"abcd"],
        "half a round": [header(round=1.5), b"abcd"],
        "a late round": [header(round=2**60), b"abcd"],
        "a text": [header(federation="text"), b"abcd"],
        "smuggled buffers": [header(buffers=[b"smuggled"]), b"abcd"],
        "a short buffer": [header(), b"abc"],
        "a second buffer": [header(), b"abcd", b""],
        "a negative size": [header(sizes=[-4]), b"abcd"],
        "a heartbeat with a buffer": [
            wire.encode(wire.Heartbeat(rank=1, federation=FEDERATION, round=12))[0], b"a buffer",
        ],
        "deep lists": [b"\x91" * 5000],
        "an empty chunk": a_chunk(data=b""),
        "a short tag": a_chunk(tag=b"t" * 7),
        "a long tag": a_chunk(tag=b"t" * 9),
        "a mark alone": [b"\xc1", b"data"],
        "many marks": [b"\xc1" * 20_000, b"data"],
        "a chunk without bytes": a_chunk()[:1],
        "a chunk with an empty part": [*a_chunk(), b""],
        "another mark": [b"\xc2" + a_chunk()[0][1:], b"data"],
        "sizes that are no integers": [header(sizes=[2.0])],
        "sizes that are a text": [header(sizes="4")],
        "nothing to announce": [header(sizes=[0])],
        "buffers that are none": [header(sizes=[4], buffers=None)],
        "a tag": [header(sizes=[4], tag=b"t" * 8)],
        "a short digest": [header(digest=bytes(15)), b"abcd"],
        "a long digest": [header(digest=bytes(17)), b"abcd"],
        "a text for a digest": [header(digest="sixteen letters!"), b"abcd"],
        "no digest": [header(digest=None), b"abcd"],
        **{f"{name} in a list of {count}": [hello_with(count, value)] for count in (1, 3) for name, value in {
            "an extension": b"\xd4\x01\x00",
            "no UTF-8": b"\xa1\xff",
            "a surrogate": b"\xa3\xed\xa0\x80",
            "a key twice": b"\x82\xa1a\x00\xa1a\x01",
            "a key of bytes": b"\x81\xc4\x01a\x00",
            "a key of a number": b"\x81\x01\x00",
            "depth": b"\x91" * 16 + b"\x00",
            "a short list": b"\xdc\xff\xff",
            "0xc1": b"\xc1",
        }.items()},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("why", "frames"),
    [pytest.param(why, frames, id=name) for why, several in REFUSED.items() for name, frames in several.items()],
)
def test_a_message_that_cannot_be_is_refused(why, frames):
    assert reason(frames) == reason([memoryview(frame) for frame in frames]) == why


def test_an_announcement_at_the_limits_is_taken():
    found = wire.decode([header(sizes=[1, 99, 0])], LIMITS)
    assert (found.buffers, found.payload_bytes) == (None, 100)


def test_buffers_travel_without_a_copy():
    buffer = memoryview(bytearray(64))
    frames = encoded(FEDERATION, 0, 0, [buffer])
    assert frames[1] is buffer
    assert wire.decode(frames, LIMITS).buffers[0] is buffer
    assert wire.size(frames) == len(frames[0]) + 64


def test_a_later_version_of_hello_can_be_read_so_that_the_difference_can_be_named():
    fields = msgpack.unpackb(PACKED) | {"protocol": wire.PROTOCOL + 1, "compression": "zstd"}
    assert wire.decode([msgpack.packb(fields)], LIMITS).protocol == wire.PROTOCOL + 1


@pytest.mark.parametrize("message", [HELLO, BODY], ids=lambda one: one.kind)
def test_a_field_that_is_not_known_is_ignored(message):
    frames = wire.encode(message)
    fields = msgpack.unpackb(frames[0]) | {"mood": "fine"}
    assert wire.decode([msgpack.packb(fields), *frames[1:]], LIMITS) == message


def test_federations_differ_when_any_setting_does():
    one = wire.federation_id({"size": 8, "rho": 0.05})
    assert one == wire.federation_id({"rho": 0.05, "size": 8})
    assert one != wire.federation_id({"size": 8, "rho": 0.06})
    assert len(one) == 16


# Bodies in chunks.

ROOMY = wire.Limits(payload_bytes=10_000, buffers=8)
CHUNK = 16


def content(length, seed=0):
    return bytes((seed + 37 * index) % 256 for index in range(length))


def travelled(buffers, chunk_bytes, limits=ROOMY):
    """What decoding makes of each message that a body is cut into."""
    frames = encoded(FEDERATION, 2, 5, buffers)
    return [wire.decode(message, limits) for message in chunked(frames, chunk_bytes)]


@given(st.lists(st.binary(max_size=60), max_size=5), st.integers(1, 70), st.sampled_from([bytes, memoryview]))
def test_a_body_that_is_cut_can_be_put_together(contents, chunk_bytes, kind):
    first, *rest = travelled([kind(one) for one in contents], chunk_bytes)
    assert first.sizes == [len(one) for one in contents]
    if sum(first.sizes) <= chunk_bytes:
        assert rest == []
        assert [bytes(one) for one in first.buffers] == contents
        return
    assert first.buffers is None
    assert {chunk.tag for chunk in rest} == {first.tag}
    ends = list(itertools.accumulate(chunk.nbytes for chunk in rest))
    assert [chunk.offset for chunk in rest] == [0, *ends[:-1]]
    cuts = {at for end, size in zip(itertools.accumulate(first.sizes), first.sizes, strict=True) for at in (
        *range(end - size, end, chunk_bytes), end)}  # fmt: skip
    assert ends == sorted(cuts - {0}), "only the last one of a buffer may be shorter"
    assert b"".join(chunk.data for chunk in rest) == b"".join(contents)


def test_chunks_are_parts_of_the_buffers_themselves_cut_by_bytes():
    buffer = array.array("f", range(40))
    _, *chunks = chunked(encoded(FEDERATION, 0, 0, [memoryview(buffer)]), 32)
    buffer[10] = -1.0
    assert [len(data) for _, data in chunks] == [32] * 5
    assert b"".join(data for _, data in chunks) == buffer.tobytes()


@pytest.mark.parametrize("length", [0, 1, 5_000])
def test_without_a_chunk_size_nothing_is_cut(length):
    frames = encoded(FEDERATION, 2, 5, [content(length), b"end"])
    (only,) = chunked(frames, None)
    assert only is frames
    assert wire.decode(only, ROOMY).buffers == (content(length), b"end")


def test_bodies_have_tags_of_their_own():
    sets = [(FEDERATION, 2, 5), (FEDERATION, 2, 6), (FEDERATION, 3, 5), (b"g" * 16, 2, 5)]
    tags = set()
    for federation, rank, number in sets:
        frames = encoded(federation, rank, number, [content(2 * CHUNK)])
        announced, *chunks = [wire.decode(message, ROOMY) for message in chunked(frames, CHUNK)]
        assert {announced.tag} == {chunk.tag for chunk in chunks}
        tags.add(announced.tag)
    assert len(tags) == len(sets)


def test_a_chunk_says_where_it_belongs():
    for kind in (bytes, memoryview):
        found = wire.decode([kind(frame) for frame in a_chunk()], LIMITS)
        assert (found.tag, found.offset, bytes(found.data)) == (b"t" * 8, 3, b"data")
    assert wire.decode(a_chunk(offset=2**64 - 1), LIMITS).offset == 2**64 - 1
    with pytest.raises(ProtocolError, match="malformed"):
        wire.decode([*a_chunk(), b"more"], LIMITS)


@given(st.binary(max_size=30), st.lists(st.binary(max_size=40), max_size=2))
def test_random_bytes_after_a_chunks_mark_are_a_chunk_or_refused(noise, frames):
    try:
        found = wire.decode([b"\xc1" + noise, *frames], LIMITS)
    except ProtocolError as error:
        assert error.reason == "malformed"  # noqa: PT017
    else:
        assert len(noise) == 16
        assert [found] == [wire.Chunk(noise[:8], int.from_bytes(noise[8:], "little"), one) for one in frames]
        assert found.data


# What a header costs, whoever made it.

BIG = wire.Limits(payload_bytes=100)


COSTLY = {
    "empty tables": hello_with(10**6, b"\x80"),
    "tables of one": hello_with(340_000, b"\x81\xa0\x00"),
    "empty lists": hello_with(10**6, b"\x90"),
    "lists within lists": hello_with(1000, b"\x91" * 1000 + b"\xc0"),
    "extensions": hello_with(340_000, b"\xd4\x01\x00"),
    "timestamps": hello_with(170_000, b"\xd6\xff\x00\x00\x00\x00"),
    "floats": hello_with(200_000, b"\xca\x7f\xc0\x00\x00"),
    "lists that are not there": b"\xdd\x00\x0f\x00\x00" * 200_000,
    "tables that are not there": b"\xdf\x00\x0f\x00\x00\xa0" * 170_000,
    "unknown fields": msgpack.packb(msgpack.unpackb(header()) | {str(number): 0 for number in range(9000)}),
    "sizes that are none": header(sizes=[-1] * 65_000),
    "sizes of nothing": header(sizes=[0] * 65_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("costly", COSTLY.values(), ids=COSTLY)
def test_no_header_takes_much_more_memory_than_its_bytes(costly):
    assert len(costly) <= BIG.header_bytes
    tracemalloc.start()
    with contextlib.suppress(ProtocolError):
        wire.decode([costly], BIG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * BIG.header_bytes


@pytest.mark.slow
def test_as_many_parameters_as_fit_a_header_are_no_attack():
    parameters = [{"name": f"{number:02x}", "shape": [1], "offset": 0} for number in range(20_000)]
    hello = HELLO.model_copy(update={"manifest": {"parameters": parameters}})
    assert wire.decode(wire.encode(hello), BIG) == hello


@pytest.mark.parametrize("wrong", [float("nan"), True, 2**64 - 1, -(2**63), 0.0, "0", None, [0], {"": 0}, b"0"])
@pytest.mark.parametrize("field", ["rank", "round", "sizes", "federation"])
def test_a_field_of_another_kind_is_refused(field, wrong):
    if (field, wrong) == ("federation", b"0"):
        return
    if field == "sizes" and wrong == [0]:
        return
    assert reason([header(**{field: wrong}), b"abcd"]) == "malformed"


# Every kind of message, whatever it says.

SMALL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
numbers, words = st.integers(0, 2**31 - 1), st.text(max_size=20)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | words
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=9,
)
expected = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
common = {"rank": numbers, "federation": st.binary(max_size=20)}
rounds = st.integers(0, 2**53 - 1)
tables = st.dictionaries(words, plain, max_size=4)
messages = st.one_of(
    st.builds(
        wire.Hello, rank=numbers, protocol=st.integers(0, 2**63), next_round=rounds, reply=st.booleans(), digest=words,
        fingerprint=tables, manifest=tables,
    ),
    st.builds(wire.Heartbeat, round=rounds, got=st.integers(0, 2**63), **common),
    st.builds(wire.Goodbye, reason=st.sampled_from(["done", "stopped", "failed"]), **common),
    st.builds(wire.Unknown, rank=numbers),
    st.builds(
        wire.body, st.binary(max_size=20), numbers, rounds, st.lists(st.binary(max_size=30), max_size=3),
        st.binary(min_size=wire.DIGEST_BYTES, max_size=wire.DIGEST_BYTES),
    ),
)  # fmt: skip


@SMALL
@given(messages)
def test_every_kind_of_message_comes_as_it_was_said(message):
    assert wire.decode(wire.encode(message), LIMITS) == message


@SMALL
@given(messages)
def test_a_header_has_the_fields_of_a_message_in_their_order(message):
    assert wire.encode(message)[0] == msgpack.packb(message.model_dump())


@SMALL
@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_what_is_mutated_is_taken_or_refused(several, data):
    """Bytes of one message in another one's place, cut, twice, elsewhere."""
    frames = [bytearray(frame) for message in several for frame in wire.encode(message)]
    for _ in range(data.draw(st.integers(0, 4))):
        one = data.draw(st.sampled_from(frames))
        begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(one))] * 2)))
        other = data.draw(st.sampled_from(frames))
        one[begin:end] = other[begin:end] * data.draw(st.integers(0, 2)) or data.draw(st.binary(max_size=4))
    order = data.draw(st.permutations(frames))
    for count in range(1, len(order) + 1):
        with contextlib.suppress(ProtocolError):
            wire.decode([bytes(frame) for frame in order[:count]], LIMITS)
