"""Transports: ZeroMQ for addresses of tcp, ipc and relay."""

from dpeer.peer.transports.curve import Keyring
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = [
    "Keyring",
    "ZeroMQTransport",
]
