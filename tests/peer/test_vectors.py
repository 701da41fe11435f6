"""A recorded hello and a recorded body of this protocol mean what they meant when they were recorded."""

import json

import pytest

from dpeer.peer.core import wire
from tests.peer.record import RECORDED

LIMITS = wire.Limits(payload_bytes=2**16)
MESSAGES = json.loads((RECORDED / f"protocol-{wire.PROTOCOL}.json").read_text())


@pytest.mark.parametrize("recorded", MESSAGES, ids=lambda one: one["kind"])
def test_a_recorded_message_means_what_it_meant(recorded):
    """A field that it has and this version has not is ignored."""
    message = wire.decode([bytes.fromhex(frame) for frame in recorded["frames"]], LIMITS)
    assert message.kind == recorded["kind"]
    fields = {
        name: bytes.fromhex(one["hex"]) if isinstance(one, dict) and "hex" in one else one
        for name, one in recorded["fields"].items() if name in type(message).model_fields
    }  # fmt: skip
    assert {name: getattr(message, name) for name in fields} == fields


def test_the_buffers_of_a_recorded_body_are_whole():
    frames = next(one["frames"] for one in MESSAGES if one["kind"] == "body")
    message = wire.decode([bytes.fromhex(frame) for frame in frames], LIMITS)
    assert message.buffers == (b"12345678", b"abc")
