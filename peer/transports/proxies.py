"""HTTP CONNECT and SOCKS5 proxies: which one a host is dialled through, and connections through it."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from dpeer.exceptions import AddressError
from dpeer.ipv4 import check_host
from dpeer.peer.core.limits import PROVE_WITHIN
from dpeer.peer.transports.hosts import connect, is_literal, receive

ENVIRONMENT = "environment"
"""The setting by which the usual environment variables name the proxy."""

_LONGEST_ANSWER = 2**14
"""Bytes of a proxy's answer, at most."""

_SOCKS_REFUSALS = {
    1: "general failure", 2: "its rules do not allow it", 3: "network unreachable", 4: "host unreachable",
    5: "connection refused", 6: "it took too long", 7: "it knows no CONNECT", 8: "no such kind of address",
}  # fmt: skip
"""RFC 1928, section 6."""


@dataclass(frozen=True)
class Proxy:
    """A proxy through which a peer dials out.

    Attributes:
        user, password: What it asks for; empty for nothing.
    """

    kind: Literal["http", "socks5"]
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.kind}://{self.host}:{self.port}"


@dataclass(frozen=True)
class Proxies:
    """Which proxy a host is dialled through.

    Attributes:
        but: The hosts without it, as `no_proxy` lists them.
    """

    proxy: Proxy | None = None
    but: str = ""

    def of(self, host: str) -> Proxy | None:
        """The proxy for a host; None for one that is dialled directly, as loopback always is."""
        if self.proxy is None or _is_loopback(host) or (self.but and _excepted(host, self.but)):
            return None
        return self.proxy


NO_PROXIES = Proxies()


def proxies(given: str | None) -> Proxies:
    """The proxies that a setting names: a URL, `environment`, or None for none.

    Raises:
        AddressError: the setting, or the environment variable that it points to, names no proxy.
    """
    if given is None:
        return NO_PROXIES
    found: Mapping[str, str] = urllib.request.getproxies_environment()
    but = found.get("no", "")
    if given != ENVIRONMENT:
        proxy = _parsed(given, f"proxy = {given.rpartition('@')[2]!r}")
        if proxy.user or proxy.password:
            raise AddressError(
                f"proxy = '{proxy.kind}://…@{proxy.host}:{proxy.port}': a password does not belong in settings, which "
                'reports and other peers show: set it in https_proxy, and proxy = "environment"'
            )
        return Proxies(proxy, but)
    for name in ("https", "all"):
        if url := found.get(name):
            return Proxies(_parsed(url if "://" in url else f"http://{url}", f"{name}_proxy in the environment"), but)
    raise AddressError(
        'proxy = "environment": neither https_proxy nor all_proxy is set in the environment: set one, or leave '
        "`proxy` out"
    )


def _parsed(url: str, where: str) -> Proxy:
    try:
        parts = urlsplit(url)
        kind, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        kind, host, port = "", None, None
    if kind in ("http", "socks5", "socks5h") and host and port and parts.path in ("", "/") and not parts.query:
        try:
            check_host(f"[{host}]" if ":" in host else host)
        except ValueError as error:
            raise AddressError(f"{where}: {error}") from error
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return Proxy("http" if kind == "http" else "socks5", host, port, user, password)
    if sign := next((sign for sign in "#?/" if sign in url.rpartition("@")[0].partition("://")[2]), None):
        raise AddressError(f"{where}: a {sign!r} in its user or password is written %{ord(sign):X}")
    raise AddressError(f"{where}: expected http://HOST:PORT or socks5://HOST:PORT")


def _excepted(host: str, but: str) -> bool:
    """Whether a host is among those of `no_proxy`, as curl reads it: names with all below them, addresses, networks."""
    return any(one == "*" or _is_of(host, one) for one in re.split(r"[\s,]+", but) if one)


def _is_of(host: str, one: str) -> bool:
    if not is_literal(host):
        name = one.lower().strip(".")
        return bool(name) and f".{host.lower().rstrip('.')}".endswith(f".{name}")
    try:
        return ipaddress.ip_address(host.partition("%")[0]) in ipaddress.ip_network(one.strip("[]"), strict=False)
    except ValueError:  # it is a name
        return False


def _is_loopback(host: str) -> bool:
    if not is_literal(host):
        return host.lower().rstrip(".") == "localhost" or host.lower().rstrip(".").endswith(".localhost")
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


async def dial(host: str, port: int, through: Proxies, give_up: float) -> socket.socket:
    """A non-blocking connection to a host, directly or through its proxy, within `PROVE_WITHIN` seconds.

    A proxy resolves the name itself. The connection breaks if the other end confirms nothing for `give_up` seconds.

    Raises:
        OSError: its text states why it could not be made.
    """
    proxy = through.of(host)
    where = f"port {port} of {host}" if proxy is None else f"proxy {proxy}"
    connection = None
    try:
        async with asyncio.timeout(PROVE_WITHIN):
            if proxy is None:
                return await connect(host, port, give_up)
            connection = await connect(proxy.host, proxy.port, give_up)
            await (_connect if proxy.kind == "http" else _socks)(connection, proxy, host, port)
            return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, TimeoutError):
            raise OSError(f"{where} does not answer") from error
        if isinstance(error, OSError) and proxy is not None:
            raise OSError(f"{where}: {os.strerror(error.errno) if error.errno else error}") from error
        raise


async def _connect(connection: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """RFC 9110, section 9.3.6."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.user or proxy.password:
        lines.append(f"Proxy-Authorization: Basic {b64encode(f'{proxy.user}:{proxy.password}'.encode()).decode()}")
    await asyncio.get_running_loop().sock_sendall(connection, "\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += await receive(connection, 1)  # what follows the empty line is the other peer's
        if len(answer) > _LONGEST_ANSWER:
            raise OSError("what answers is no HTTP proxy")
    status = re.match(rb"HTTP/1\.[01] (\d{3})([^\r\n]*)", answer)
    if status is None:
        raise OSError("what answers is no HTTP proxy")
    if not status[1].startswith(b"2"):
        reason = "".join(char for char in status[2].decode("latin-1").strip()[:80] if char.isprintable())
        raise OSError(f"it refuses a connection to {place}: {status[1].decode()} {reason}".rstrip())


async def _socks(connection: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """RFC 1928, and RFC 1929 for a password."""
    loop = asyncio.get_running_loop()
    methods = b"\x00\x02" if proxy.user or proxy.password else b"\x00"
    await loop.sock_sendall(connection, bytes([5, len(methods)]) + methods)
    version, method = await receive(connection, 2)
    if version != 5:
        raise OSError("what answers is no SOCKS5 proxy")
    if method == 2 and len(methods) == 2:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        await loop.sock_sendall(connection, b"\x01" + b"".join(bytes([len(one)]) + one for one in (user, password)))
        if (await receive(connection, 2))[1] != 0:
            raise OSError("it does not take the user and password")
    elif method != 0:
        raise OSError('it asks for a password: set it in all_proxy, and proxy = "environment"')
    await loop.sock_sendall(connection, b"\x05\x01\x00" + _socks_host(host) + port.to_bytes(2, "big"))
    _, code, _, kind = await receive(connection, 4)
    if code != 0:
        raise OSError(f"it refuses a connection to {host}:{port}: {_SOCKS_REFUSALS.get(code, code)}")
    length = {1: 4, 4: 16}.get(kind) or (await receive(connection, 1))[0]
    await receive(connection, length + 2)


def _socks_host(host: str) -> bytes:
    if is_literal(host):
        found = ipaddress.ip_address(host.partition("%")[0])
        return (b"\x01" if found.version == 4 else b"\x04") + found.packed
    name = host.encode("idna")
    return b"\x03" + bytes([len(name)]) + name
