"""Strict reading of IPv4 addresses: systems take "010.8.0.11" for 8.8.0.11, a host of another owner."""

from __future__ import annotations

import ipaddress
import re
import socket
import stringprep
import unicodedata

_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)
"""A host made of numbers: no name of a host ends in one (RFC 1123, section 2.1)."""


def check_host(host: str) -> None:
    """Refuse a host that looks like an IP address and is none as the standard library reads it.

    Args:
        host: A name or an IP address; one in brackets must be an IPv6 address, perhaps with a zone (``%eth0``).

    Raises:
        ValueError: The host is refused; the message says what to write.
    """
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host.strip("[]"))
        except ValueError:
            raise ValueError(f"{host} is no IPv6 address") from None
        return
    # As name look-ups do (RFC 3491): invisible characters are dropped, full-width digits and dots are plain ones.
    seen = "".join(letter for letter in host if not stringprep.in_table_b1(letter))
    plain = unicodedata.normalize("NFKC", seen).replace("\u3002", ".")
    if not _NUMERIC.fullmatch(plain) or (plain == host and _is_ipv4(host)):
        return
    meant = _meant(plain.rstrip("."))
    raise ValueError(f"{host} is no IPv4 address: write {meant or 'four numbers from 0 to 255, such as 10.8.0.11'}")


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _meant(text: str) -> str | None:
    """The address that a text stands for: its four numbers read as decimal, or else the system's reading of it."""
    numbers = text.split(".")
    if len(numbers) == 4 and all(number.isdecimal() for number in numbers):
        decimal = ".".join(str(int(number)) for number in numbers)
        return decimal if _is_ipv4(decimal) else None
    try:
        return socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        return None
