"""TCP connections that a peer dials: directly or through a proxy, each after its name was resolved anew."""

from __future__ import annotations

import asyncio
import os
import socket

from dpeer.peer.core.limits import KEEPALIVE_IDLE, PROVE_WITHIN
from dpeer.peer.transports.hosts import is_literal, resolve
from dpeer.peer.transports.proxies import Proxies, Proxy, ask


def set_up(connection: socket.socket, give_up: float) -> None:
    """Have the operating system notice within `give_up` seconds that nothing confirms what was sent."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A firewall on the way must not forget a connection that is idle during training (libzmq's has heartbeats).
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS before Python 3.13
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(give_up * 1000))


class DialOut:
    """Makes connections.

    Args:
        proxies: Which hosts are reached through a proxy.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
    """

    def __init__(self, proxies: Proxies, give_up: float) -> None:
        self._proxies, self._give_up = proxies, give_up

    def proxied(self, host: str) -> bool:
        """Whether a host is reached through a proxy."""
        return self._proxies.of(host) is not None

    async def connect(self, host: str, port: int) -> socket.socket:
        """A non-blocking connection to the host, or through its proxy, within `PROVE_WITHIN` seconds.

        Raises:
            OSError: its text states why it could not be made.
        """
        proxy = self._proxies.of(host)
        where = f"port {port} of {host}" if proxy is None else f"proxy {proxy}"
        try:
            async with asyncio.timeout(PROVE_WITHIN):
                return await (self._direct(host, port) if proxy is None else self._through(proxy, host, port))
        except TimeoutError as error:
            raise OSError(f"{where} does not answer") from error

    async def _through(self, proxy: Proxy, host: str, port: int) -> socket.socket:
        try:
            connection = await self._direct(proxy.host, proxy.port)
        except OSError as error:
            raise OSError(f"proxy {proxy}: {error}") from error
        try:
            await ask(connection, proxy, host, port)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError) and error.errno:
                raise OSError(f"proxy {proxy}: {os.strerror(error.errno)}") from error
            raise
        return connection

    async def _direct(self, host: str, port: int) -> socket.socket:
        """Of a name that stands for several addresses, the first one that takes the connection."""
        if is_literal(host):
            found = [host]
        else:
            try:
                found = await resolve(host, port)
            except OSError as error:
                raise OSError(f"its name {host!r} cannot be resolved ({error.strerror or error})") from error
        last = OSError(f"its name {host!r} stands for no address")
        for one in found:
            connection = socket.socket(socket.AF_INET6 if ":" in one else socket.AF_INET)
            try:
                set_up(connection, self._give_up)
                async with asyncio.timeout(PROVE_WITHIN / len(found)):
                    await asyncio.get_running_loop().sock_connect(connection, (one, port))
            except OSError as error:  # TimeoutError, too
                connection.close()
                why = os.strerror(error.errno) if error.errno else str(error) or "nothing answers"
                last = OSError(f"port {port} of {host} cannot be reached ({why})")
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise last
