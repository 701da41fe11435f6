"""The address of a web server: of `serve` and of the dashboard, as it is written and bound."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from dpeer.exceptions import not_bound
from dpeer.ipv4 import check_host

LOOPBACK = "127.0.0.1"

_WRITTEN = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|\*|[\w.-]+):)?(?P<port>[0-9]{1,5})")
_EVERYWHERE = ("*", "0.0.0.0", "::")  # noqa: S104 - read, not bound
_LOCAL = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1", re.IGNORECASE)


@dataclass(frozen=True)
class ServeAddress:
    """Where status is served.

    Attributes:
        host: A name, an IP address without brackets, or "*" for all addresses of this host.
        port: 0 for a free one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def everywhere(self) -> bool:
        """Whether it is every address of this host, so that others need a name of it."""
        return self.host in _EVERYWHERE

    @property
    def loopback(self) -> bool:
        """Whether programs of this host alone can connect."""
        return _LOCAL.fullmatch(self.host) is not None


def read_serve(text: str) -> ServeAddress:
    """The address that a text such as "7780" or "10.0.0.3:7780" states.

    Raises:
        ValueError: It states none.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("expected PORT or HOST:PORT, for example 7780 or 10.0.0.3:7780")
    check_host(match["host"] or LOOPBACK)
    return ServeAddress((match["host"] or LOOPBACK).strip("[]"), int(match["port"]))


def checked(value: str) -> str:
    """The text itself, for a setting.

    Raises:
        ValueError: It states no address.
    """
    read_serve(value)
    return value


def as_text(value: object) -> object:
    """A port that was written as a number, as a text; other values as they are."""
    return str(value) if type(value) is int else value


def bound(address: ServeAddress, option: str) -> socket.socket:
    """A socket that listens at an address.

    Args:
        address: Where.
        option: By which it was given, for the error.

    Raises:
        AddressError: The address cannot be bound.
    """
    both = address.host in ("*", "::") and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in address.host else socket.AF_INET
    place = ("" if address.host == "*" else address.host, address.port)
    try:
        return socket.create_server(place, family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0  # a name server's is negative, and has words of its own
        why = os.strerror(number) if number > 0 else getattr(error, "strerror", error)
        raise not_bound(
            f"{option} {address}: this host cannot listen there: {why}; choose an address of its own and a free port",
            error,
        ) from error
