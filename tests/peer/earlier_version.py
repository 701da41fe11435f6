"""Version 5 of the protocol, as a peer of it behaves: it neither says nor heeds what a hello holds."""

from dpeer.peer.core import wire
from dpeer.peer.core.versions import Protocol


class _Until5(Protocol):
    newest = 5


PROTOCOL_5 = _Until5(wire.ADDED, wire.CURRENT.messages)
