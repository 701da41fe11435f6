"""Intermediaries between two peers that cannot dial each other: a relay, HTTP and SOCKS5 proxies."""

import asyncio
import base64
import contextlib
import ipaddress

from dpeer.peer.relay.server import Listed, Relay


class Log(list):
    """The lines of a relay's log."""

    def has(self, *words):
        """Whether a line has all these words."""
        return any(all(word in line for word in words) for line in self)

    async def until(self, *words):
        """Wait for a line with all these words."""
        while not self.has(*words):  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.002)


def listed(keys, federation="one"):
    """What a relay knows of ranks with these keys."""
    return {key: Listed(federation, f"rank {rank}") for rank, many in keys.items() for key in many}


class Running:
    """A relay on the event loop of the test.

    Attributes:
        relay: The relay itself.
        place: HOST:PORT of it.
        log: Its lines.
    """

    def __init__(self, keys, port=0, **limits):
        self.log = Log()
        self.relay = Relay(keys, self.log.append, **limits)
        host, self.port = self.relay.listen("127.0.0.1", port)
        self.place = f"{host}:{self.port}"

    async def __aenter__(self):
        self._task = asyncio.create_task(self.relay.run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def carry(source, target):
    """Copy one way, until its end."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(2**16):
            target.write(data)
            await target.drain()
    target.close()


class ProxyServer:
    """An HTTP CONNECT or SOCKS5 proxy, written after the RFCs alone.

    Args:
        kind: "http" or "socks5".
        known: Ports of this host by the name that the proxy resolves.
        login: The user and password that it asks for.

    Attributes:
        asked: Every HOST:PORT that a connection was asked to.
    """

    def __init__(self, kind, known, login=None):
        self.kind, self.known, self.login, self.asked = kind, dict(known), login, []
        self._tasks, self._writers = set(), set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"{self.kind}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            far = await (self._http if self.kind == "http" else self._socks)(reader, writer)
            if far is None:
                writer.close()
                return
            self._writers.add(far[1])
            for source, target in ((reader, far[1]), (far[0], writer)):
                self._tasks.add(asyncio.create_task(carry(source, target)))

    async def _open(self, host, port):
        self.asked.append(f"{host}:{port}")
        if host not in self.known:
            return None
        return await asyncio.open_connection("127.0.0.1", self.known[host])

    async def _http(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, place, version = head[0].split(" ")
        assert (method, version) == ("CONNECT", "HTTP/1.1")
        assert f"Host: {place}" in head
        if self.login is not None:
            wanted = base64.b64encode(":".join(self.login).encode()).decode()
            if f"Proxy-Authorization: Basic {wanted}" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
                return None
        host, _, port = place.rpartition(":")
        far = await self._open(host.strip("[]"), int(port))
        if far is None:
            writer.write(b"HTTP/1.1 403 Forbidden by policy\r\n\r\n")
            return None
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        return far

    async def _socks(self, reader, writer):
        version, count = await reader.readexactly(2)
        assert version == 5
        methods = await reader.readexactly(count)
        method = 2 if self.login is not None else 0
        if method not in methods:
            writer.write(b"\x05\xff")
            return None
        writer.write(bytes([5, method]))
        if self.login is not None:
            assert await reader.readexactly(1) == b"\x01"
            given = tuple([(await reader.readexactly((await reader.readexactly(1))[0])).decode() for _ in range(2)])
            writer.write(b"\x01" + bytes([given != self.login]))
            if given != self.login:
                return None
        assert await reader.readexactly(3) == b"\x05\x01\x00"
        kind = (await reader.readexactly(1))[0]
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = str(ipaddress.ip_address(await reader.readexactly({1: 4, 4: 16}[kind])))
        far = await self._open(host, int.from_bytes(await reader.readexactly(2), "big"))
        writer.write(b"\x05" + (b"\x02" if far is None else b"\x00") + b"\x00\x01" + bytes(6))
        return far
