"""Protocol version 5 for tests: its peers neither send nor read what a hello holds of half-sent bodies."""

from dpeer.peer.core import wire
from dpeer.peer.core.versions import Protocol


class _Until5(Protocol):
    newest = 5


PROTOCOL_5 = _Until5(wire.ADDED, wire.CURRENT.messages)
