import array
import contextlib
import pickle
import tracemalloc

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked

FEDERATION = b"f" * 16
LIMITS = wire.Limits(header_bytes=10_000, payload_bytes=100, buffers=3)

MESSAGES = [
    wire.Hello(
        rank=3, next_round=7, reply=True, fingerprint={"size": 8, "rho": 0.05}, manifest={"count": 2}, digest="d"
    ),
    wire.Heartbeat(rank=1, federation=FEDERATION, round=12),
    wire.Goodbye(rank=1, federation=FEDERATION, reason="stopped"),
    wire.Refusal(rank=1, reason="taken"),
    wire.Hello(
        rank=3, next_round=7, fingerprint={}, manifest={}, digest="d", apart_from=2, apart_because="body_lr differs"
    ),
    wire.body(FEDERATION, 2, 5, [b"abcd", b""]),
    wire.body(FEDERATION, 2, 5, []),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_what_is_encoded_is_decoded(message):
    assert wire.decode(wire.encode(message), LIMITS) == message


def test_buffers_travel_without_a_copy():
    buffer = memoryview(bytearray(64))
    frames = wire.encode(wire.body(FEDERATION, 0, 0, [buffer]))
    assert frames[1] is buffer
    assert wire.decode(frames, LIMITS).buffers[0] is buffer


def test_size_counts_header_and_buffers():
    frames = wire.encode(wire.body(FEDERATION, 0, 0, [b"x" * 40, b"y" * 2]))
    assert wire.size(frames) == len(frames[0]) + 42


def reason(frames):
    with pytest.raises(ProtocolError) as caught:
        wire.decode(frames, LIMITS)
    return caught.value.reason


def header(**changes):
    fields = {"kind": "body", "rank": 0, "federation": FEDERATION, "round": 0, "sizes": [4]} | changes
    return msgpack.packb(fields)


def test_limits_are_checked_before_anything_is_unpacked():
    assert reason([b"\x00" * 10_001]) == "oversized"
    assert reason([header(), b"x" * 101]) == "oversized"
    assert reason([header(), b"", b"", b"", b""]) == "oversized"


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"not msgpack \xc1"],
        [pickle.dumps({"kind": "heartbeat"})],
        [msgpack.packb([1, 2])],
        [msgpack.packb({"kind": "dance", "rank": 0})],
        [header(rank=-1), b"abcd"],
        [header(rank=True), b"abcd"],
        [header(round=1.5), b"abcd"],
        [header(round=2**60), b"abcd"],
        [header(federation="text"), b"abcd"],
        [header(extra=1), b"abcd"],
        [header(buffers=[b"smuggled"]), b"abcd"],
        [header(), b"abc"],
        [header(), b"abcd", b""],
        [header(sizes=[-4]), b"abcd"],
        [wire.encode(MESSAGES[1])[0], b"a heartbeat has no buffers"],
        [b"\x91" * 5000],
    ],
)
def test_malformed_frames_are_refused(frames):
    assert reason(frames) == "malformed"


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect of the data
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_bytes_raise_nothing_but_protocol_errors(frames):
    with contextlib.suppress(ProtocolError):
        wire.decode(frames, LIMITS)


@given(st.binary(min_size=1, max_size=60), st.integers(0, 200))
def test_a_damaged_header_raises_nothing_but_protocol_errors(noise, where):
    good = bytearray(wire.encode(MESSAGES[0])[0])
    good[where : where + len(noise)] = noise
    with contextlib.suppress(ProtocolError):
        wire.decode([bytes(good)], LIMITS)


def test_a_later_version_of_hello_can_be_read_so_that_the_difference_can_be_named():
    later = wire.PROTOCOL + 1
    fields = msgpack.unpackb(wire.encode(MESSAGES[0])[0]) | {"protocol": later, "compression": "zstd"}
    assert wire.decode([msgpack.packb(fields)], LIMITS).protocol == later


@pytest.mark.parametrize(("message", "field"), [(MESSAGES[0], "apart_because"), (MESSAGES[3], "reason")])
def test_words_of_another_peer_are_short_and_leave_a_terminal_alone(message, field):
    def frames(text):
        return [msgpack.packb(msgpack.unpackb(wire.encode(message)[0]) | {field: text})]

    def expected(text):
        return getattr(wire.decode(frames(text), LIMITS), field)

    assert expected("\x1b[2Jtaken\nrank 3 says: \u202eé") == "?[2Jtaken?rank 3 says: ?é"
    assert expected("x" * 300) == "x" * 300
    assert reason(frames("x" * 301)) == "malformed"


def test_federations_differ_when_any_setting_does():
    one = wire.federation_id({"size": 8, "rho": 0.05})
    assert one == wire.federation_id({"rho": 0.05, "size": 8})
    assert one != wire.federation_id({"size": 8, "rho": 0.06})
    assert len(one) == 16


# Bodies in pieces.

ROOMY = wire.Limits(payload_bytes=10_000, buffers=8)
CHUNK = 16
AROUND = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]


def content(length, seed=0):
    return bytes((seed + 37 * index) % 256 for index in range(length))


def travelled(buffers, chunk_bytes, limits=ROOMY):
    """What decoding makes of each message that a body is cut into."""
    frames = wire.encode(wire.body(FEDERATION, 2, 5, buffers))
    return [wire.decode(message, limits) for message in chunked(frames, chunk_bytes)]


def put_together(announced, chunks):
    """The buffers, each byte put where its piece says; every byte comes once."""
    room, times = bytearray(announced.payload_bytes), [0] * announced.payload_bytes
    for chunk in chunks:
        assert isinstance(chunk, wire.Chunk)
        assert chunk.tag == announced.tag
        for index, byte in enumerate(b"".join(chunk.data)):
            room[chunk.offset + index] = byte
            times[chunk.offset + index] += 1
    assert set(times) <= {1}
    ends = [sum(announced.sizes[: index + 1]) for index in range(len(announced.sizes))]
    return [bytes(room[end - length : end]) for end, length in zip(ends, announced.sizes, strict=True)]


@given(st.lists(st.sampled_from(AROUND), max_size=5), st.booleans())
def test_what_is_cut_can_be_put_together(lengths, as_views):
    contents = [content(length, seed) for seed, length in enumerate(lengths)]
    buffers = [memoryview(one) if as_views else one for one in contents]
    first, *rest = travelled(buffers, CHUNK)
    assert first.sizes == lengths
    if sum(lengths) <= CHUNK:
        assert rest == []
        assert [bytes(one) for one in first.buffers] == contents
        return
    assert first.buffers is None
    assert [chunk.offset for chunk in rest] == sorted(chunk.offset for chunk in rest)
    assert max(chunk.nbytes for chunk in rest) <= CHUNK
    assert {chunk.nbytes for chunk in rest[:-1]} <= {CHUNK}, "only the last one may be shorter"
    assert put_together(first, rest) == contents


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 400))
def test_any_piece_size_gives_the_same_buffers(contents, chunk_bytes):
    first, *rest = travelled(contents, chunk_bytes)
    if rest:
        assert put_together(first, rest) == contents
    else:
        assert sum(map(len, contents)) <= chunk_bytes
        assert list(first.buffers) == contents


def test_pieces_are_parts_of_the_buffers_themselves():
    buffer = bytearray(3 * CHUNK)
    frames = wire.encode(wire.body(FEDERATION, 0, 0, [buffer]))
    chunks = [data for _, data in list(chunked(frames, CHUNK))[1:]]
    buffer[CHUNK] = 255
    assert [bytes(one)[0] for one in chunks] == [0, 255, 0]


@pytest.mark.parametrize("length", [0, 1, 5_000])
def test_without_a_piece_size_nothing_is_cut(length):
    frames = wire.encode(wire.body(FEDERATION, 2, 5, [content(length), b"end"]))
    (only,) = chunked(frames, None)
    assert only is frames
    assert wire.decode(only, ROOMY).buffers == (content(length), b"end")


def test_bodies_have_tags_of_their_own():
    sets = [(FEDERATION, 2, 5), (FEDERATION, 2, 6), (FEDERATION, 3, 5), (b"g" * 16, 2, 5)]
    tags = set()
    for federation, rank, number in sets:
        frames = wire.encode(wire.body(federation, rank, number, [content(2 * CHUNK)]))
        announced, *chunks = [wire.decode(message, ROOMY) for message in chunked(frames, CHUNK)]
        assert {announced.tag} == {chunk.tag for chunk in chunks}
        tags.add(announced.tag)
    assert len(tags) == len(sets)


def a_piece(tag=b"t" * 8, offset=3, data=b"data"):
    return [b"\xc1" + tag + offset.to_bytes(8, "little"), data]


def test_a_piece_may_have_the_bytes_of_several_buffers():
    found = wire.decode([*a_piece(), b"more"], LIMITS)
    assert (found.data, found.nbytes) == ((b"data", b"more"), 8)


def test_a_piece_says_where_it_belongs():
    for kind in (bytes, memoryview):
        found = wire.decode([kind(frame) for frame in a_piece()], LIMITS)
        assert (found.tag, found.offset, b"".join(found.data)) == (b"t" * 8, 3, b"data")
    assert wire.decode(a_piece(offset=2**64 - 1), LIMITS).offset == 2**64 - 1


@pytest.mark.parametrize(
    "frames",
    [
        a_piece(data=b""),
        a_piece(tag=b"t" * 7),
        a_piece(tag=b"t" * 9),
        [b"\xc1", b"data"],
        [b"\xc1" * 20_000, b"data"],
        a_piece()[:1],
        [*a_piece(), b""],
        [b"\xc2" + a_piece()[0][1:], b"data"],
        [header(sizes=[-4])],
        [header(sizes=[2.0])],
        [header(sizes="4")],
        [header(sizes=[0])],
        [header(sizes=[0] * 5)],
        [header(sizes=[4], buffers=None)],
        [header(sizes=[4], tag=b"t" * 8)],
    ],
)
def test_malformed_pieces_and_announcements_are_refused(frames):
    assert reason(frames) == "malformed"
    assert reason([memoryview(frame) for frame in frames]) == "malformed"


@pytest.mark.parametrize(
    "sizes", [[101], [50, 51], [1] * 4, [2**63], [2**64 - 1, 2**64 - 1], [1] * 5_000], ids=lambda sizes: f"{sizes[:2]}"
)
def test_an_announcement_beyond_the_limits_is_refused(sizes):
    assert reason([header(sizes=sizes)]) == "oversized"


def test_an_announcement_at_the_limits_is_not():
    found = wire.decode([header(sizes=[1, 99, 0])], LIMITS)
    assert found.buffers is None
    assert found.payload_bytes == 100


def test_the_header_of_an_announcement_is_small():
    limits = wire.Limits(header_bytes=10_000, small_header_bytes=1_000, payload_bytes=10**9, buffers=10_000)
    assert wire.decode([header(sizes=[1] * 500)], limits).payload_bytes == 500
    with pytest.raises(ProtocolError) as caught:
        wire.decode([header(sizes=[1] * 1_000)], limits)
    assert caught.value.reason == "oversized"


@given(st.binary(max_size=30), st.lists(st.binary(max_size=40), max_size=2))
def test_random_bytes_after_a_pieces_mark_are_a_piece_or_refused(noise, frames):
    try:
        found = wire.decode([b"\xc1" + noise, *frames], LIMITS)
    except ProtocolError as error:
        assert error.reason == "malformed"  # noqa: PT017
    else:
        assert len(noise) == 16
        assert found == wire.Chunk(noise[:8], int.from_bytes(noise[8:], "little"), tuple(frames))
        assert frames
        assert all(frames)


def test_a_buffer_of_wide_items_is_cut_by_bytes():
    buffer = memoryview(array.array("f", range(40)))
    _, *chunks = chunked(wire.encode(wire.body(FEDERATION, 0, 0, [buffer])), 32)
    assert [len(data) for _, data in chunks] == [32] * 5
    assert b"".join(data for _, data in chunks) == buffer.tobytes()


# What a header costs, whoever made it.

BIG = wire.Limits(payload_bytes=100)
HELLO = wire.encode(MESSAGES[0])[0]


def hello_with(count, blob):
    """A hello whose manifest has a list of so many times this value."""
    fields = msgpack.unpackb(HELLO)
    del fields["manifest"]
    packer = msgpack.Packer()
    head = packer.pack_map_header(len(fields) + 1) + b"".join(
        packer.pack(one) for pair in fields.items() for one in pair
    )
    return head + packer.pack("manifest") + packer.pack_map_header(1) + packer.pack("a") + (
        packer.pack_array_header(count) + blob * count
    )  # fmt: skip


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
    with contextlib.suppress(ProtocolError):
        wire.decode([costly], BIG)  # what is made once stays
    tracemalloc.start()
    with contextlib.suppress(ProtocolError):
        wire.decode([costly], BIG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * BIG.header_bytes


@pytest.mark.parametrize(
    "value",
    [
        b"\xd4\x01\x00",
        b"\xa1\xff",
        b"\xa3\xed\xa0\x80",
        b"\x82\xa1a\x00\xa1a\x01",
        b"\x81\xc4\x01a\x00",
        b"\x81\x01\x00",
        b"\x91" * 16 + b"\x00",
        b"\xdc\xff\xff",
        b"\xc1",
    ],
    ids=["extension", "no UTF-8", "surrogate", "key twice", "key of bytes", "key of a number", "deep", "short", "0xc1"],
)
def test_a_value_that_no_message_has_is_refused_wherever_it_is(value):
    for count in (1, 3):
        assert reason([hello_with(count, value)]) == "malformed"


@pytest.mark.slow
def test_as_many_parameters_as_fit_a_header_are_no_attack():
    parameters = [{"name": f"{number:02x}", "shape": [1], "offset": 0} for number in range(20_000)]
    hello = MESSAGES[0].model_copy(update={"manifest": {"parameters": parameters}})
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

SMALL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
        fingerprint=tables, manifest=tables, apart_from=st.none() | numbers, apart_because=expected,
        running=st.booleans(),
    ),
    st.builds(wire.Heartbeat, round=rounds, pace=st.integers(0, 2**63), **common),
    st.builds(wire.Goodbye, reason=st.sampled_from(["done", "stopped", "failed"]), **common),
    st.builds(wire.Refusal, rank=numbers, reason=expected),
    st.builds(wire.Unknown, rank=numbers),
    st.builds(wire.body, st.binary(max_size=20), numbers, rounds, st.lists(st.binary(max_size=30), max_size=3)),
)  # fmt: skip


@SMALL
@given(messages)
def test_every_kind_of_message_comes_as_it_was_said(message):
    assert wire.decode(wire.encode(message), LIMITS) == message


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
