"""A version of the protocol after the present one, with a further field and a further kind of message."""

from typing import Literal

from dpeer.peer.core import wire
from dpeer.peer.core.versions import Protocol

NEWEST = wire.CURRENT.newest


class Heartbeat(wire.Heartbeat):
    """That of the next version."""

    mood: str = "fine"


class Greeting(wire.Header):
    """What the next version adds."""

    kind: Literal["greeting"] = "greeting"
    federation: bytes
    words: str = ""


NEXT = Protocol(
    {**wire.ADDED, NEWEST + 1: ("heartbeat.mood", "greeting")},
    (*(one for one in wire.CURRENT.messages if one is not wire.Heartbeat), Heartbeat, Greeting),
)
