"""Tunnels: loopback ports through which libzmq reaches an address that it cannot dial, behind a relay or a proxy.

libzmq knows no relay and no HTTP proxy. So the connection is made first, and libzmq then connects to a port of loopback
that is open for this one connection; a joint copies between both. A relay's connection comes about like this:

    dialling peer   DIAL, with the key of the called one    \
                                                             relay: joins both
    called peer     ANSWER_CALL, with the call's ticket     /

`dpeer.peer.relay.messages` has the messages. The bytes are CURVE's, so neither relay nor proxy reads or changes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import PROVE_WITHIN
from dpeer.peer.relay.joint import Joint
from dpeer.peer.relay.messages import CALL_WITHIN, DIAL, GREETING_BYTES, KEY_BYTES, REFUSALS, TAKEN, Greeting, Prover
from dpeer.peer.transport import RELAY
from dpeer.peer.transports.dial_out import DialOut
from dpeer.peer.transports.hosts import endpoint, split
from dpeer.peer.transports.proxies import receive

LOOPBACK = "127.0.0.1"

_STRANGERS = 8
"""Connections of other programs that a tunnel's port keeps while its own one is awaited."""


class RelayRefusedError(OSError):
    """A relay refuses a connection.

    Attributes:
        code: Why, as in `handshake.REFUSALS`.
    """

    def __init__(self, relay: str, code: bytes) -> None:
        super().__init__(f"relay {relay}: {REFUSALS.get(code, 'it refuses the connection')}")
        self.code = code


class Tunnel:
    """One connection to a far listener, and the port of loopback that is open for it.

    Args:
        remote: The connection.
        join: Takes the connection and the local one.

    Attributes:
        address: The port, as libzmq dials it.
    """

    def __init__(self, remote: socket.socket, join: Callable[[socket.socket, socket.socket], object]) -> None:
        self._remote: socket.socket | None = remote
        self._join = join
        self._loop = asyncio.get_running_loop()
        self._server = socket.create_server((LOOPBACK, 0), backlog=_STRANGERS)
        self._server.setblocking(False)
        self.address = endpoint(LOOPBACK, self._server.getsockname()[1])
        self._accepted: dict[int, socket.socket] = {}
        self._own: int | None = None
        self._loop.add_reader(self._server, self._accept)
        self._limit = self._loop.call_later(PROVE_WITHIN, self.close)

    def confirm(self, port: int) -> None:
        """Use the connection that comes from this port of loopback: it is this process's own."""
        self._own = port
        self._look()

    def close(self) -> None:
        """Close everything that is not joined."""
        self._limit.cancel()
        if self._server.fileno() < 0:
            return
        self._loop.remove_reader(self._server)
        self._server.close()
        for one in (*self._accepted.values(), *([self._remote] if self._remote else [])):
            one.close()
        self._accepted.clear()
        self._remote = None

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, (_, port) = self._server.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._accepted) == _STRANGERS:
                oldest = next(iter(self._accepted))
                self._accepted.pop(oldest).close()
            self._accepted[port] = connection
            self._look()

    def _look(self) -> None:
        if self._remote is not None and self._own in self._accepted:
            self._join(self._accepted.pop(self._own), self._remote)
            self._remote = None
            self.close()


class Tunnels:
    """The tunnels of one transport.

    Args:
        dial_out: Makes the connections.
        secret: The peer's secret key, which relays ask for; None without keys.
    """

    def __init__(self, dial_out: DialOut, secret: bytes | None) -> None:
        self._dial_out = dial_out
        self._prover = None if secret is None else Prover(secret)
        self._joints: dict[asyncio.Task[None], Joint] = {}

    def needed(self, address: str) -> bool:
        """Whether an address is dialled through a relay or a proxy."""
        place = split(address)
        return place is not None and (address.startswith(RELAY) or self._dial_out.proxied(place[0]))

    async def open(self, address: str, key: bytes | None) -> Tunnel:
        """A tunnel to the listener at an address; behind a relay, to the peer with this key.

        Raises:
            OSError: its text states why none can be made.
        """
        if address.startswith(RELAY):
            assert key is not None, "a relay is dialled for a listed rank"
            remote = await self.claim(address, DIAL, key, PROVE_WITHIN + CALL_WITHIN)
        else:
            place = split(address)
            assert place is not None, "see `needed`"
            remote = await self._dial_out.connect(*place)
        return Tunnel(remote, self.join)

    async def claim(
        self, address: str, purpose: bytes, other: bytes = bytes(KEY_BYTES), within: float = PROVE_WITHIN
    ) -> socket.socket:
        """A connection to a relay that has taken this peer's key and purpose.

        Raises:
            OSError: its text states why not.
        """
        place = split(address)
        assert place is not None, "a relay has a host and a port"
        assert self._prover is not None, "addresses are checked: relays need keys"
        name = address.removeprefix(RELAY)
        try:
            connection = await self._dial_out.connect(*place)
        except OSError as error:
            raise OSError(f"relay {name}: {error}") from error
        try:
            async with asyncio.timeout(within):
                greeting = Greeting.decode(await receive(connection, GREETING_BYTES))
                claim = self._prover.claim(greeting, purpose, other)
                await asyncio.get_running_loop().sock_sendall(connection, claim.encode())
                answer = await receive(connection, 1)
            if answer != TAKEN:
                raise RelayRefusedError(name, answer)
        except BaseException as error:
            connection.close()
            if isinstance(error, RelayRefusedError):
                raise
            if isinstance(error, TimeoutError):
                raise OSError(f"relay {name}: it does not answer") from error
            if isinstance(error, ProtocolError):
                raise OSError(f"relay {name}: {error.args[0].partition(': ')[2]}") from error
            if isinstance(error, OSError):
                raise OSError(f"relay {name}: {error.strerror or error}") from error
            raise
        return connection

    def join(self, local: socket.socket, remote: socket.socket) -> asyncio.Future[None]:
        """Copy between a connection of libzmq's and one that was dialled, until both are closed.

        Returns:
            What can be awaited for that, and cancelled without an effect on the joint.
        """
        joint = Joint(local, remote)
        task = asyncio.create_task(joint.run())
        self._joints[task] = joint
        task.add_done_callback(lambda done: self._joints.pop(done, None))
        return asyncio.shield(task)

    async def close(self, linger: float) -> None:
        """Copy what closed sockets have left behind, for at most `linger` seconds; then end every joint."""
        if self._joints and linger > 0:
            await asyncio.wait([*self._joints], timeout=linger)
        for joint in self._joints.values():
            joint.end()
        await asyncio.gather(*self._joints, return_exceptions=True)
