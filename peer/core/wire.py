"""Wire format: messages to frames and back; no I/O.

A message is one msgpack header frame followed by the raw buffers of a body, and nothing else:

    [header] [buffer 0] [buffer 1] ...

A large body travels as several messages: its header alone, then its buffers' bytes in order, cut into chunks
(`dpeer.peer.core.bodies`):

    [header]    [0xc1, tag, offset] [bytes]    [0xc1, tag, offset] [bytes] ...

(0xc1 begins no msgpack value; the tag is a hash of the header. A chunk has bytes of one buffer.) So no
message is long, the bytes of a body can be put in their place while others are on their way, and a neighbor on a slow
line is heard all the while.

`encode` is called once per body however many neighbors get it. `decode` trusts nothing: every limit is checked before
anything is unpacked, and a message that does not fit raises `ProtocolError` with the reason under which it is counted.
Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgpack
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from pydantic import BaseModel, ConfigDict, FailFast, Field, Strict, TypeAdapter, ValidationError

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import (
    FRAMES_UNIT,
    HEADER_CONTAINERS,
    HEADER_DEPTH,
    HEADER_FIELDS,
    HEADER_UNIT,
    MOST_AWAY,
)
from dpeer.peer.core.limits import Limits as Limits
from dpeer.peer.core.member_list import MOST_BYTES, Stamp, Stamps
from dpeer.peer.learner import Buffer

DIGEST_BYTES = 16
"""Bytes of a body's digest."""

USES_BYTES = 16
"""Bytes of a member list's digest that name it in heartbeats and bodies."""

PROTOCOL = 8
"""The protocol that this dpeer speaks. Another number means that its messages cannot be understood, and is refused.

A field that is merely added needs no other number: who does not know it ignores it, and who knows it has a default.
"""

Frames = Sequence[Buffer]
Fingerprint = Mapping[str, Any]


def printable(text: str) -> str:
    """Text of others, for a terminal or a log: with a question mark for each character that has no glyph."""
    return "".join(one if one.isprintable() else "?" for one in text)


_Rank = Annotated[int, Field(ge=0, lt=2**31)]
_Round = Annotated[int, Field(ge=0, lt=2**53)]
_Presence = Annotated[bytes, Field(max_length=2**24)]
"""The sender's table of `RoundClock`: how many rounds each rank has completed at least; may be empty."""
_Stamps = Annotated[list[Annotated[tuple[Stamp, list[_Rank]], Strict(False)]], FailFast()]
"""The sender's table of `StampTable`: which member lists each rank has on disk; empty where all have list 0."""
_Uses = Annotated[bytes, Field(max_length=USES_BYTES)]
"""The first bytes of the digest of the member list with which the sender began the round; empty if it has not yet."""
_Document = Annotated[bytes, Field(max_length=MOST_BYTES)]


class Header(BaseModel):
    """The fields of every message; others are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    rank: _Rank


class Hello(Header):
    """Opens a connection in both directions: the sender's rank, its current round, and its federation.

    Its fields without a default are in every protocol, so that each side can name the other's.
    """

    kind: Literal["hello"] = "hello"
    protocol: int = PROTOCOL
    next_round: _Round
    """The sender's current round: bodies of earlier rounds are of no use to it."""
    reply: bool = False
    """Whether this answers a hello (a reply is not answered)."""
    fingerprint: dict[str, Any]
    manifest: dict[str, Any]
    digest: str
    presence: _Presence = b""
    enters: _Round = 0
    """While the sender sits rounds out because it was left behind: the round in which it takes part again."""
    released: _Round = 0
    """The rounds up to the last one of which the sender has got the receiver's body: its ledger has to know of them."""
    stamps: _Stamps = []


class Body(Header):
    """One released body."""

    kind: Literal["body"] = "body"
    federation: bytes
    round: _Round
    sizes: Annotated[list[Annotated[int, Field(ge=0)]], FailFast()]
    digest: Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    """`digest_of` the buffers, by which the body is known: of a round a rank has one."""
    buffers: tuple[Any, ...] | None = Field(default=(), exclude=True)
    """None where the buffers follow in chunks."""
    presence: _Presence = b""
    stamps: _Stamps = []
    uses: _Uses = b""
    tag: bytes = Field(default=b"", exclude=True)
    """Marks the body's chunks: a hash of the header."""

    @property
    def payload_bytes(self) -> int:
        """The bytes of all buffers together."""
        return sum(self.sizes)


class Heartbeat(Header):
    """Shows that the sender is alive and works on this round."""

    kind: Literal["heartbeat"] = "heartbeat"
    federation: bytes
    round: _Round
    presence: _Presence = b""
    paused: bool = False
    """Whether the sender pauses: the receiver passes news of completed rounds on to it at once."""
    enters: _Round = 0
    """As in a hello."""
    got: Annotated[int, Field(ge=0)] = 0
    """Bytes that have come of the receiver's body on its way to the sender; 0 if none is."""
    stamps: _Stamps = []
    uses: _Uses = b""


class Lists(Header):
    """The sender's member lists. They travel before its next message that says what it has on disk."""

    kind: Literal["lists"] = "lists"
    counts: _Document = b""
    """The list that counts, as operators have signed it; empty for list 0, which each site has."""
    waits: _Document = b""
    """The one that waits for votes; empty without one."""


Goodbyes = Literal["done", "stopped", "failed", "isolated", "left"]
"""Why a peer leaves."""


class Goodbye(Header):
    """Announces that the sender leaves.

    Its rounds are done, it was stopped, failed, was cut off from a quorum, or is a member no more.
    """

    kind: Literal["goodbye"] = "goodbye"
    federation: bytes
    reason: Goodbyes
    back_within: Annotated[int, Field(ge=0, le=MOST_AWAY)] = 0
    """Seconds within which a stopped sender comes back, for which rounds wait for it; 0 if it may stay away."""


class Unknown(Header):
    """Answers a message on a link without a hello, so that the receiver sends one again."""

    kind: Literal["unknown"] = "unknown"


class Chunk(NamedTuple):
    """Some bytes of a body that was announced."""

    tag: bytes
    offset: int
    """Where the bytes begin in all buffers together."""
    data: Buffer
    """The bytes, of one buffer."""

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return memoryview(self.data).nbytes


Message = Hello | Body | Heartbeat | Lists | Goodbye | Unknown
_NO_FIELDS = frozenset({"buffers", "tag"})
"""Attributes of a body that are no fields of its header."""

_HEADER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
_CHUNK = struct.Struct("<c8sQ")
_AT_ONCE = 2**30
"""Bytes for which OpenSSL is called at once: it takes less than 2 GiB."""

_MARK = b"\xc1"

_PING, _PONG = b"\x00P", b"\x00Q"
"""First bytes of a ping, which a `dpeer check` sends before or beside a run, and of its answer: of no other message."""

_DIGITS = 10
"""A rank has fewer digits."""

_LONGEST_PING = 2**15
"""The most bytes of a ping."""


def federation_id(fingerprint: Fingerprint) -> bytes:
    """The federation's id in its messages: 16 bytes, other ones for other settings."""
    canonical = json.dumps(fingerprint, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(canonical).digest()[:16]


def encode(message: Message) -> list[Buffer]:
    """The frames of a message. Buffers are passed on, not copied."""
    # Plain values in the order of the fields, which is that of `model_dump`; that would copy each one.
    fields = {name: value for name, value in vars(message).items() if name not in _NO_FIELDS}
    header = msgpack.packb(fields, use_bin_type=True)
    return [header, *(message.buffers or ())] if isinstance(message, Body) else [header]


def digest_of(buffers: Sequence[Buffer]) -> bytes:
    """The digest of a body with these buffers: the tag of AES-GCM for their bytes, under a key that everybody knows.

    It names a body and proves nothing: only its sender makes it. Processors have instructions for it, so 8 MiB take
    0.4 ms; SHA-256 takes 4.5 ms.
    """
    tag = Cipher(AES(bytes(16)), GCM(bytes(12))).encryptor()
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        for start in range(0, view.nbytes, _AT_ONCE):
            tag.authenticate_additional_data(view[start : start + _AT_ONCE])
    tag.finalize()
    return tag.tag


def body(
    federation: bytes, rank: int, number: int, buffers: Sequence[Buffer], digest: bytes, presence: bytes = b"",
    stamps: Stamps = (), uses: bytes = b"",
) -> Body:  # fmt: skip
    """The message that carries round `number`'s released body of `rank`."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    return Body(
        federation=federation, rank=rank, round=number, sizes=sizes, digest=digest, buffers=tuple(buffers),
        presence=presence, stamps=list(stamps), uses=uses,
    )  # fmt: skip


def chunk(tag: bytes, offset: int, data: Buffer) -> Frames:
    """The message that carries these bytes of the body with this tag; arguments as in `Chunk`."""
    return [_CHUNK.pack(_MARK, tag, offset), data]


def tag(header: Buffer) -> bytes:
    """The mark of the chunks of the body with this header."""
    return hashlib.sha256(header).digest()[:8]


def decode(frames: Frames, limits: Limits) -> Message | Chunk:
    """The message that the frames hold. A body that comes in chunks has no buffers yet.

    Args:
        frames: As they came.
        limits: Checked before anything is made of them.

    Raises:
        ProtocolError: reason "oversized" (a limit is exceeded) or "malformed" (anything else).
    """
    if not frames:
        raise ProtocolError("malformed", "no frames")
    if is_chunk(frames):
        return _chunk(frames[0], frames[1], limits)
    lengths = [memoryview(frame).nbytes for frame in frames]
    if lengths[0] > limits.header_bytes:
        raise ProtocolError("oversized", f"header of {lengths[0]} bytes")
    if len(frames) - 1 > limits.buffers:
        raise ProtocolError("oversized", f"{len(frames) - 1} buffers")
    if sum(lengths[1:]) > limits.payload_bytes:
        raise ProtocolError("oversized", f"{sum(lengths[1:])} payload bytes, at most {limits.payload_bytes}")
    fields = unpack(frames[0])
    if not fields.keys().isdisjoint(_NO_FIELDS):
        raise ProtocolError("malformed", "header is not a message's")
    kind = fields.get("kind")
    if kind not in ("hello", "lists") and lengths[0] > limits.small_header_bytes:
        raise ProtocolError("oversized", f"header of {lengths[0]} bytes")
    if kind == "body":
        fields["buffers"] = tuple(frames[1:])
    message = _validated(fields)
    if not isinstance(message, Body):
        if len(frames) > 1:
            raise ProtocolError("malformed", f"a {message.kind} has no buffers")
        return message
    if len(frames) == 1 and message.payload_bytes > 0:
        if len(message.sizes) > limits.buffers or message.payload_bytes > limits.payload_bytes:
            raise ProtocolError("oversized", f"{message.payload_bytes} bytes announced in {len(message.sizes)} buffers")
        return message.model_copy(update={"buffers": None, "tag": tag(frames[0])})
    if message.sizes != lengths[1:]:
        raise ProtocolError("malformed", f"{len(frames) - 1} buffers are not as announced")
    return message


def is_chunk(frames: Frames) -> bool:
    """Whether this is a chunk, or a damaged one."""
    return len(frames) == 2 and bool(frames[0][:1] == _MARK)


def ping(rank: int, filler: bytes) -> Frames:
    """What a rank's `dpeer check` sends, which its receiver sends back."""
    return [_PING + str(rank).encode(), filler]


def pinged_by(frames: Frames) -> int | None:
    """The rank that a ping states; None for any other message."""
    if len(frames) != 2 or size(frames) > _LONGEST_PING or frames[0][: len(_PING)] != _PING:
        return None
    stated = bytes(frames[0][len(_PING) :])
    return int(stated) if stated.isdigit() and len(stated) < _DIGITS else None


def pong(frames: Frames) -> Frames | None:
    """The answer to a ping: the same bytes, marked as such; None for any other message."""
    return None if pinged_by(frames) is None else [_PONG, bytes(frames[1])]


def is_pong_of(frames: Frames, pinged: Frames) -> bool:
    """Whether this is the answer to that ping."""
    return len(frames) == 2 and frames[0] == _PONG and frames[1] == pinged[1]


def _chunk(header: Buffer, data: Buffer, limits: Limits) -> Chunk:
    nbytes = memoryview(data).nbytes
    if len(header) != _CHUNK.size or not nbytes:
        raise ProtocolError("malformed", f"a chunk of {len(header)} and {nbytes} bytes")
    if nbytes > limits.payload_bytes:
        raise ProtocolError("oversized", f"a chunk of {nbytes} bytes, at most {limits.payload_bytes}")
    _, mark, offset = _CHUNK.unpack(header)
    return Chunk(mark, offset, data)


def size(frames: Frames) -> int:
    """Bytes of a message on the wire: header and buffers."""
    return sum([memoryview(frame).nbytes for frame in frames])


def cost(frames: Frames) -> float:
    """Small messages that take as long to decode as this one may; a chunk is small."""
    if not frames or is_chunk(frames):
        return 1
    return 1 + memoryview(frames[0]).nbytes // HEADER_UNIT + len(frames) // FRAMES_UNIT


def _validated(fields: dict[str, Any]) -> Message:
    try:
        return _HEADER.validate_python(fields)
    except (ValidationError, RecursionError) as error:
        where, fault = "", "too deep"
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where, fault = ".".join(str(part) for part in first["loc"]), first["msg"]
        raise ProtocolError("malformed", f"header {where[:60]}: {fault[:100]}") from error


def unpack(header: Buffer) -> dict[str, Any]:
    """The fields of an untrusted message, not validated: tables with keys of text, lists, plain values.

    A byte of msgpack can stand for a container of a hundred bytes of memory, for an error report as long, or for four
    thousand million entries that do not follow. So a header has bounds of its own, and is looked at once without making
    anything of it.

    Raises:
        ProtocolError: reason "malformed".
    """
    try:
        skim = msgpack.Unpacker(max_buffer_size=max(memoryview(header).nbytes, 1))
        skim.feed(header)
        skim.skip()  # nothing is allocated: whatever is announced below has come
        made = _Made()
        # A timestamp, which no header has, becomes a number: its own objects are slow to make.
        fields = msgpack.unpackb(
            header, raw=False, object_pairs_hook=made.table, list_hook=made.sequence, ext_hook=_refuse, timestamp=1
        )
    except Exception as error:  # msgpack raises many kinds, which all mean "not msgpack"
        raise ProtocolError("malformed", f"header is not msgpack as expected: {type(error).__name__}") from error
    deep = made.containers > HEADER_DEPTH and not _is_flat(fields, HEADER_DEPTH)  # few are not within each other often
    if not isinstance(fields, dict) or len(fields) > HEADER_FIELDS or deep:
        raise ProtocolError("malformed", "header is not a message's")
    return fields


class _Made:
    """Counts containers while they are made."""

    containers = 0

    def sequence(self, values: list[Any]) -> list[Any]:
        self.containers += 1
        if self.containers > HEADER_CONTAINERS:
            raise ValueError("too many containers")
        return values

    def table(self, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        self.containers += 1
        found = dict(pairs)
        # Of two values of one key, two programs could each take another.
        if self.containers > HEADER_CONTAINERS or len(found) < len(pairs) or {*map(type, found)} - {str}:
            raise ValueError("too many containers, a key twice, or one that is not text")
        return found


def _refuse(kind: int, data: bytes) -> None:
    raise ValueError(f"extension type {kind}")


def _is_flat(value: Any, levels: int) -> bool:
    """Whether containers are within each other at most so many times."""
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(one, levels - 1) for one in inner if isinstance(one, dict | list))
