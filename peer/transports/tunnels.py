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
from collections.abc import Callable, Iterator

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import PROVE_WITHIN
from dpeer.peer.relay.joint import Joint
from dpeer.peer.relay.messages import CALL_WITHIN, DIAL, GREETING_BYTES, NOBODY, REFUSALS, TAKEN, prove
from dpeer.peer.transport import RELAY
from dpeer.peer.transports.hosts import LOOPBACK, endpoint, receive, split
from dpeer.peer.transports.proxies import Proxies, dial


class RelayRefusedError(OSError):
    """A relay refuses a connection."""


class Tunnel:
    """One connection to a far listener, and the port of loopback that is open for it.

    Args:
        remote: The connection.
        join: Takes the connection and the local one.

    Attributes:
        address: The port, as libzmq dials it.
    """

    def __init__(self, remote: socket.socket, join: Callable[[socket.socket, socket.socket], object]) -> None:
        self._remote, self._join = remote, join
        self._loop = asyncio.get_running_loop()
        self._server = socket.create_server((LOOPBACK, 0))
        self._server.setblocking(False)
        self.address = endpoint(LOOPBACK, self._server.getsockname()[1])
        self._own: int | None = None
        self._limit = self._loop.call_later(PROVE_WITHIN, self.close)

    def confirm(self, descriptor: int) -> None:
        """Use this connection of libzmq's: those of other programs of the host are closed."""
        with contextlib.suppress(OSError), socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as copy:
            self._own = copy.getsockname()[1]
            self._loop.add_reader(self._server, self._accept)
            self._accept()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, (_, port) = self._server.accept()
                if port == self._own:
                    break
                connection.close()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._join(connection, self._remote.dup())
            self.close()

    def close(self) -> None:
        """Close everything that is not joined."""
        self._limit.cancel()
        if self._server.fileno() >= 0:
            self._loop.remove_reader(self._server)
            self._server.close()
            self._remote.close()


class Tunnels:
    """The tunnels of one transport.

    Args:
        through: Which hosts are dialled through a proxy.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        secret: The peer's secret key, which relays ask for; None without keys.
    """

    def __init__(self, through: Proxies, give_up: float, secret: bytes | None) -> None:
        self._through, self._give_up, self._secret = through, give_up, secret
        self._joints: dict[asyncio.Task[None], Joint] = {}

    def needed(self, address: str) -> bool:
        """Whether an address is dialled through a relay or a proxy."""
        place = split(address)
        return place is not None and (address.startswith(RELAY) or self._through.of(place[0]) is not None)

    async def open(self, address: str, key: bytes | None) -> Tunnel:
        """A tunnel to the listener at an address; behind a relay, to the peer with this key.

        Raises:
            OSError: its text states why none can be made.
        """
        if not address.startswith(RELAY):
            return Tunnel(await self._dial(address), self.join)
        assert key is not None, "a relay is dialled for a listed rank"
        return Tunnel(await self.claim(address, DIAL, key, PROVE_WITHIN + CALL_WITHIN), self.join)

    async def _dial(self, address: str) -> socket.socket:
        place = split(address)
        assert place is not None, "see `needed`"
        return await dial(*place, self._through, self._give_up)

    async def claim(
        self, address: str, purpose: bytes, other: bytes = NOBODY, within: float = PROVE_WITHIN
    ) -> socket.socket:
        """A connection to a relay that has taken this peer's key and purpose.

        Raises:
            OSError: its text states why not.
        """
        assert self._secret is not None, "addresses are checked: relays need keys"
        with of_relay(address):
            connection = await self._dial(address)
            try:
                async with asyncio.timeout(within):
                    claim = prove(self._secret, await receive(connection, GREETING_BYTES), purpose, other)
                    await asyncio.get_running_loop().sock_sendall(connection, claim.encode())
                    answer = await receive(connection, 1)
                if answer != TAKEN:
                    raise RelayRefusedError(REFUSALS.get(answer, "it refuses the connection"))
            except BaseException:
                connection.close()
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


@contextlib.contextmanager
def of_relay(address: str) -> Iterator[None]:
    """Have errors name the relay at this address, each an OSError whose text states what is wrong with it."""
    name = address.removeprefix(RELAY)
    try:
        yield
    except TimeoutError as error:
        raise OSError(f"relay {name}: it does not answer") from error
    except ProtocolError as error:
        raise OSError(f"relay {name}: {error.args[0].partition(': ')[2]}") from error
    except OSError as error:
        raise type(error)(f"relay {name}: {error.strerror or error}") from error
