"""Transports: what carries frames between peers."""

from dpeer.peer.transports.base import Arrival, Link, Transport
from dpeer.peer.transports.inprocess import InProcessTransport, Network
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = ["Arrival", "InProcessTransport", "Link", "Network", "Transport", "ZeroMQTransport"]
