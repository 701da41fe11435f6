"""Transports: what carries frames between peers."""

from dpeer.peer.transports.base import (
    Arrival,
    Broken,
    Endless,
    Event,
    Link,
    Opened,
    Sent,
    Slower,
    Transport,
    TurnedAway,
    Unreachable,
    Writable,
)
from dpeer.peer.transports.inprocess import InProcessTransport, Network
from dpeer.peer.transports.keys import Identity, Keyring
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = [
    "Arrival",
    "Broken",
    "Endless",
    "Event",
    "Identity",
    "InProcessTransport",
    "Keyring",
    "Link",
    "Network",
    "Opened",
    "Sent",
    "Slower",
    "Transport",
    "TurnedAway",
    "Unreachable",
    "Writable",
    "ZeroMQTransport",
]
