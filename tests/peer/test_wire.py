import contextlib
import pickle

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeer.exceptions import ProtocolError
from dpeer.peer import wire

FEDERATION = b"f" * 16
LIMITS = wire.Limits(header_bytes=10_000, payload_bytes=100, buffers=3)

MESSAGES = [
    wire.Hello(
        rank=3, next_round=7, reply=True, fingerprint={"size": 8, "rho": 0.05}, manifest={"count": 2}, digest="d"
    ),
    wire.Heartbeat(rank=1, federation=FEDERATION, round=12),
    wire.Goodbye(rank=1, federation=FEDERATION, reason="stopped"),
    wire.Refusal(rank=1, reason="taken"),
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
    fields = msgpack.unpackb(wire.encode(MESSAGES[0])[0]) | {"protocol": 2, "compression": "zstd"}
    assert wire.decode([msgpack.packb(fields)], LIMITS).protocol == 2


def test_federations_differ_when_any_setting_does():
    one = wire.federation_id({"size": 8, "rho": 0.05})
    assert one == wire.federation_id({"rho": 0.05, "size": 8})
    assert one != wire.federation_id({"size": 8, "rho": 0.06})
    assert len(one) == 16
