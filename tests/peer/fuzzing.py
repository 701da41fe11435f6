"""What is tried with messages that anybody may have made: by `make fuzz` for as long as one likes (`tests.peer.fuzz`).

A case is some bytes: how many frames each message has, how long each is, and their contents (`messages`). The corpus is
what the fuzzer has kept: one case for each way through the codec that it has found.
"""

import struct
from pathlib import Path

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Reassembly

CORPUS = Path(__file__).parent / "corpus"
LIMITS = wire.Limits(header_bytes=4096, small_header_bytes=1024, payload_bytes=256, buffers=4)
ROOM = 256
LEAST = 16
"""Bytes of a chunk at least."""

_LENGTH = struct.Struct("<H")


def case(*several):
    """The bytes of these messages, each some frames."""
    found = b""
    for frames in several:
        views = [bytes(frame) for frame in frames]
        found += bytes([len(views)]) + b"".join(_LENGTH.pack(len(view)) for view in views) + b"".join(views)
    return found


def messages(data):
    """The messages of a case: lists of frames; of what is cut off there is what is there."""
    while data:
        count, data = data[0] % 8, data[1:]
        lengths = [length for (length,) in _LENGTH.iter_unpack(data[: 2 * count][: len(data) // 2 * 2])]
        data, frames = data[2 * count :], []
        for length in lengths:
            frames.append(data[:length])
            data = data[length:]
        yield frames


def tried(data):
    """Decode a case, put its bodies together, and see that whatever is taken is sent on as it came."""
    reassembly = Reassembly(lambda: memoryview(bytearray(ROOM)), LEAST)
    kinds = []
    for number, frames in enumerate(messages(data)):
        try:
            kinds.append(_one(reassembly, frames, kept=number % 2 == 0))
        except ProtocolError as error:
            kinds.append(error.reason)
    assert len(reassembly) <= 1
    return kinds


def _one(reassembly, frames, *, kept):
    message = wire.decode(frames, LIMITS)
    if isinstance(message, wire.Chunk):
        assert message.nbytes <= LIMITS.payload_bytes
        arriving = reassembly.add("link", message)
        assert arriving.got <= arriving.body.payload_bytes <= ROOM
        if arriving.complete and arriving.wanted:
            assert [part.nbytes for part in arriving.payload] == arriving.body.sizes
        return "chunk"
    again = wire.encode(message)
    assert wire.encode(wire.decode(again, LIMITS)) == again
    if isinstance(message, wire.Body) and message.buffers is None:
        assert message.payload_bytes <= LIMITS.payload_bytes
        reassembly.begin("link", message, wire.size(frames), wanted=kept)
        return "announced"
    return message.kind
