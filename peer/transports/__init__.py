"""Transports: ZeroMQ for addresses of tcp, ipc and relay, and one for peers of one process."""

from dpeer.peer.transports.curve import Keyring
from dpeer.peer.transports.inprocess import InProcessTransport, Network
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = [
    "InProcessTransport",
    "Keyring",
    "Network",
    "ZeroMQTransport",
]
