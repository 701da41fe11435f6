"""Transports: what carries frames between peers."""

from dpeer.peer.transports.base import Arrival, Broken, Event, Link, Opened, Room, Sent, Transport, Unreachable
from dpeer.peer.transports.inprocess import InProcessTransport, Network
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = [
    "Arrival",
    "Broken",
    "Event",
    "InProcessTransport",
    "Link",
    "Network",
    "Opened",
    "Room",
    "Sent",
    "Transport",
    "Unreachable",
    "ZeroMQTransport",
]
