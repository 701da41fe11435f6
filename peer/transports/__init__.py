"""Transports by address scheme: tcp, ipc and relay (ZeroMQ), inproc (peers of one process), and those of other code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpeer.exceptions import AddressError
from dpeer.peer.core.limits import Limits
from dpeer.peer.transport import Transport
from dpeer.peer.transports.curve import Keyring
from dpeer.peer.transports.inprocess import InProcessTransport, Network
from dpeer.peer.transports.proxies import NO_PROXIES, Proxies
from dpeer.peer.transports.zeromq import ZeroMQTransport

__all__ = [
    "InProcessTransport",
    "Keyring",
    "Network",
    "TransportOptions",
    "ZeroMQTransport",
    "make_transport",
    "register",
    "schemes",
]


@dataclass(frozen=True)
class TransportOptions:
    """Options of a peer's transport.

    Attributes:
        limits: Of messages.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        keyring: The keys of the peers; None for connections without encryption.
        proxies: Through which hosts are dialled.
    """

    limits: Limits
    give_up: float = 15.0
    keyring: Keyring | None = None
    proxies: Proxies = NO_PROXIES


_MAKERS: dict[str, Callable[[TransportOptions], Transport]] = {}
_PROCESS = Network()


def register(scheme: str, make: Callable[[TransportOptions], Transport]) -> None:
    """Have peers with addresses SCHEME://... use the transports that `make` makes, one for each peer."""
    _MAKERS[scheme] = make


def schemes() -> list[str]:
    """The address schemes that have a transport."""
    return sorted(_MAKERS)


def make_transport(address: str, options: TransportOptions) -> Transport:
    """A transport for addresses of this one's scheme.

    Raises:
        AddressError: no transport is registered for it.
    """
    scheme = address.partition("://")[0]
    if scheme not in _MAKERS:
        raise AddressError(f"address {address!r}: expected one of {', '.join(f'{one}://' for one in schemes())}")
    return _MAKERS[scheme](options)


def _zeromq(options: TransportOptions) -> Transport:
    return ZeroMQTransport(options.limits, options.give_up, options.keyring, options.proxies)


register("tcp", _zeromq)
register("ipc", _zeromq)
register("relay", _zeromq)
register("inproc", lambda options: _PROCESS.transport())
