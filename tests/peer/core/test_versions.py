"""Versions of the protocol: which one a link uses, and that nothing of a later one is sent on it or taken."""

import msgpack
import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.handshake import agreed
from dpeer.peer.core.versions import Protocol
from tests.peer import next_version
from tests.peer.next_version import NEWEST, Greeting, Heartbeat

LIMITS = wire.Limits(payload_bytes=1000)


NEXT = Protocol({**next_version.NEXT.added, NEWEST + 2: ("greeting.words",)}, next_version.NEXT.messages)
BEAT = Heartbeat(rank=1, federation=b"f" * 16, round=3, mood="tired")


def hello(newest, oldest=None):
    return wire.Hello(rank=1, protocol=newest, oldest=oldest, next_round=0, fingerprint={}, manifest={}, digest="")


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ((5, 5), (5, 5), 5),
        ((5, 5), (6, 5), 5),
        ((7, 5), (6, 6), 6),
        ((5, 5), (7, 6), None),
        ((6, 6), (5, 5), None),
        ((5, 5), (4, None), None),
        ((6, 5), (5, None), 5),
        ((5, 5), (5, 9), None),
    ],
)
def test_a_link_uses_the_lower_of_the_two_newest_versions_that_both_speak(here, there, found):
    assert agreed(hello(*here), hello(*there)) == found
    assert agreed(hello(*there), hello(*here)) == found


def test_a_field_of_a_later_version_is_left_out():
    for version, fields in ((NEWEST, set()), (NEWEST + 1, {"mood"}), (None, {"mood"})):
        sent = msgpack.unpackb(wire.encode(BEAT, version, NEXT)[0])
        assert sent.keys() - wire.Heartbeat.model_fields.keys() == fields
    old = wire.decode(wire.encode(BEAT, NEWEST, NEXT), LIMITS)
    assert old == wire.Heartbeat(rank=1, federation=b"f" * 16, round=3)


def test_a_stored_body_loses_the_fields_that_an_older_neighbor_does_not_know():
    protocol = Protocol({5: (), 6: ("body.presence",)}, wire.CURRENT.messages)
    frames = wire.encode(wire.body(b"f" * 16, 1, 0, [b"12345678"], b"1234"), None, protocol)
    assert wire.in_version(frames, 6, protocol) is frames
    old = wire.in_version(frames, 5, protocol)
    assert old[1] is frames[1], "the body itself is not copied"
    assert wire.decode(old, LIMITS).presence == b""
    assert wire.decode(frames, LIMITS).presence == b"1234"
    assert wire.in_version(frames, 5, NEXT) is frames, "nothing of a body changed"


@pytest.mark.parametrize(
    ("message", "version", "what"),
    [
        (BEAT, NEWEST, "heartbeat.mood"),
        (Greeting(rank=1, federation=b"f" * 16), NEWEST, "greeting"),
        (Greeting(rank=1, federation=b"f" * 16, words="x"), NEWEST + 1, "greeting.words"),
    ],
)
def test_what_the_version_of_a_link_does_not_have_is_malformed_there(message, version, what):
    frames = wire.encode(message, None, NEXT)
    assert wire.decode(frames, LIMITS, NEWEST + 2, NEXT) == message
    with pytest.raises(ProtocolError) as raised:
        wire.decode(frames, LIMITS, version, NEXT)
    assert raised.value.reason == "malformed"
    assert f"{what} is later than version {version}, which this link uses" in str(raised.value)


def test_an_unknown_field_is_malformed_but_in_a_hello():
    fields = msgpack.unpackb(wire.encode(BEAT, NEWEST, NEXT)[0]) | {"mood": "fine"}
    with pytest.raises(ProtocolError) as raised:
        wire.decode([msgpack.packb(fields)], LIMITS, NEWEST)
    assert raised.value.reason == "malformed"
    fields = msgpack.unpackb(wire.encode(hello(9, 5))[0]) | {"mood": "fine"}
    assert wire.decode([msgpack.packb(fields)], LIMITS, NEWEST) == hello(9, 5)


def test_every_name_in_the_table_is_a_message_or_a_field():
    kinds = {one.model_fields["kind"].default: one for one in wire.CURRENT.messages}
    for names in wire.ADDED.values():
        for name in names:
            kind, _, field = name.partition(".")
            assert kind in kinds
            assert not field or field in kinds[kind].model_fields
