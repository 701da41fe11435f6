"""Relay server: admits listed keys, joins callers to the connections on which called peers wait, limits each key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpeer.exceptions import ProtocolError, not_bound
from dpeer.peer.core.limits import RateLimiter
from dpeer.peer.relay import messages
from dpeer.peer.relay.messages import LISTEN, TAKEN, WAITING, Claim, Verifier
from dpeer.peer.transports.hosts import join, receive, set_up
from dpeer.results.units import size

MOST_UNPROVED = 128
"""Connections that have not proved a key, at most. Of more, the oldest of the host with the most is ended."""

PROVE_WITHIN = 10.0
"""Seconds in which a connection has to prove a key."""

GIVE_UP = 30.0
"""Seconds after which a connection breaks whose other end confirms nothing."""

REPORT = 30.0
"""Seconds for which refused connections are counted before a line of the log tells them."""

CALLS_A_SECOND = 4.0
CALLS_AT_ONCE = 32.0
"""Calls of one key, in the long run and at once, with half as many and as many more for each listed key. Waiting again
costs nothing: a called peer must not pay for its callers."""

LINES_A_SECOND = 0.1
LINES_AT_ONCE = 300.0
"""Lines of the log that one key may cause, in the long run and at once; further ones are left out."""

RATE = 125_000_000.0
"""Bytes a second that one key may send, by default: a line of 1 Gbit/s."""

CONNECTIONS = 256
"""Calls of one key at once, by default. Those that it gets are its callers': they must not keep each other out."""

_BURST = 1.0
"""Seconds of a key's rate that may come at once after a silence."""

_AGAIN = 1.0
"""Seconds after which connections are accepted again when that has failed (too many open files, for example)."""


@dataclass(frozen=True)
class Listed:
    """What a relay knows of a key.

    Attributes:
        federation: Keys of one federation alone are joined.
        name: The owner in the log, such as "rank 3".
    """

    federation: str
    name: str


@dataclass
class _Line:
    """A connection on which a peer waits for a caller."""

    connection: socket.socket
    over: asyncio.Event = field(default_factory=asyncio.Event)  # it was taken, or it cannot be any more


@dataclass
class _Key:
    """A listed key's state. What it may use lasts as long as the relay, however often the owner connects."""

    key: bytes
    listed: Listed
    free_at: float  # when all that it has sent would have gone at its rate
    here: bool = False  # it waits, or has just been called and will wait again
    line: _Line | None = None
    waits: asyncio.Event = field(default_factory=asyncio.Event)  # set while it has a line

    def __str__(self) -> str:
        return f"{self.listed.name} ({self.key.hex()[:8]})"

    def take(self, answer: bytes) -> socket.socket | None:
        """End the line with this answer; returns a copy of its connection, None without a line."""
        line, self.line = self.line, None
        self.waits.clear()
        if line is None:
            return None
        asyncio.get_running_loop().remove_reader(line.connection)  # what comes from now on is for the caller
        line.over.set()
        _tell(line.connection, answer)
        return line.connection.dup()


class Relay:
    """Joins the outgoing connections of listed keys, two and two.

    Args:
        rate: Bytes a second that one key may send.
        connections: The most calls of one key at once.

    Attributes:
        joined, carried, refused: Connections that were joined; bytes that they carried; connections that were refused.
    """

    def __init__(
        self, listed: Mapping[bytes, Listed], say: Callable[[str], None], rate: float = RATE,
        connections: int = CONNECTIONS,
    ) -> None:  # fmt: skip
        self.joined = self.carried = self.refused = 0
        self._say, self._rate, self._connections = say, rate, connections
        self._loop = asyncio.get_running_loop()
        self._verifier, self._verifying = Verifier(), asyncio.Lock()
        self._keys: dict[bytes, _Key] = {}
        self._calls: dict[tuple[bytes, bytes], asyncio.Task[None]] = {}  # by the keys of caller and called
        self._unproved: dict[asyncio.Task[None], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[str, tuple[int, str]] = {}
        self._server: socket.socket | None = None
        self.relist(listed)

    # -- opening and closing -----------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Take connections at a host's port; "*" for all its addresses, port 0 for a free one. Returns both.

        Raises:
            AddressError: the port cannot be had; names it.
        """
        both = host == "*" and socket.has_dualstack_ipv6()
        host = ("::" if both else "0.0.0.0") if host == "*" else host  # noqa: S104 - as asked for
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._server = socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=512)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            advice = ": stop what listens there or choose another port" if error.errno == errno.EADDRINUSE else ""
            raise not_bound(f"--listen: port {port} of {host} cannot be used ({why}){advice}", error) from error
        self._server.setblocking(False)
        return host, self._server.getsockname()[1]

    async def run(self) -> None:
        """Serve until this is cancelled; then end every connection."""
        assert self._server is not None, "listen first"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._accept(self._server))
                while True:
                    await asyncio.sleep(REPORT)
                    self._report()
        finally:
            for task in [*self._tasks]:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._server.close()
            self._report()

    def relist(self, listed: Mapping[bytes, Listed]) -> None:
        """Take these keys in place of the listed ones; connections of others end."""
        for key in [*self._keys]:
            if listed.get(key) != self._keys[key].listed:
                if (connection := self._keys.pop(key).take(messages.UNKNOWN_KEY)) is not None:
                    connection.close()
                for pair in [*self._calls]:
                    if key in pair:
                        self._calls.pop(pair).cancel()
        for key, one in listed.items():
            if key not in self._keys:
                self._keys[key] = _Key(key, one, self._loop.time() - _BURST)
        self.listed = listed
        # All others may be away, and are called again and again.
        calls = CALLS_A_SECOND + len(listed) / 2, CALLS_AT_ONCE + len(listed)
        self._may_call = RateLimiter(*calls, len(listed) + 1)
        self._may_say = RateLimiter(LINES_A_SECOND, LINES_AT_ONCE, len(listed) + 1)

    # -- connections that have proved no key -------------------------------------------------------------------

    async def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, place = await self._loop.sock_accept(server)
            except OSError as error:
                await asyncio.sleep(0 if error.errno == errno.ECONNABORTED else _AGAIN)
                continue
            if len(self._unproved) >= MOST_UNPROVED:
                self._displace()
            host = _host(place[0])
            task = self._loop.create_task(self._admit(connection, host))
            self._tasks.add(task)
            self._unproved[task] = host
            task.add_done_callback(self._ended)
            await asyncio.sleep(0)  # a flood of connections leaves the others their turns

    def _displace(self) -> None:
        """End the oldest connection without a key of the host that has most of them."""
        [(busiest, _)] = Counter(self._unproved.values()).most_common(1)
        oldest = next(task for task, host in self._unproved.items() if host == busiest)
        del self._unproved[oldest]
        oldest.cancel()
        self._refuse("too many at once that have proved no key", busiest)

    async def _admit(self, connection: socket.socket, host: str) -> None:
        """Have a connection prove its key, and serve it."""
        task = asyncio.current_task()
        assert task is not None
        try:
            set_up(connection, GIVE_UP)
            try:
                async with asyncio.timeout(PROVE_WITHIN):
                    claim, one = await self._prove(connection)
            except TimeoutError:
                self._refuse("no key proved in time", host)
                return
            if one is None:
                self._refuse("an unlisted key, or one that was not proved", host)
                _tell(connection, messages.UNKNOWN_KEY)
                return
            self._unproved.pop(task, None)
            if claim.purpose == LISTEN:
                await self._wait(connection, one, host)
            elif self._may_call.spend(one.key, 1, self._loop.time()):
                await self._call(connection, one, claim.other, task)
            else:
                self._refuse("more calls than a key may make", host)
                _tell(connection, messages.TOO_MANY)
        except ProtocolError:
            self._refuse("another protocol", host)
        except OSError:
            pass  # it is gone
        finally:
            connection.close()

    async def _prove(self, connection: socket.socket) -> tuple[Claim, _Key | None]:
        """The claim on a connection, and whose it is; None for a key that is not listed, or was not proved."""
        greeting = self._verifier.greeting()
        await self._loop.sock_sendall(connection, greeting)
        claim = Claim.decode(await receive(connection, messages.CLAIM_BYTES))
        async with self._verifying:
            # For unlisted keys, too, so that the time tells no stranger which ones are listed; and one in each turn
            # of the event loop, so that a flood of claims leaves joints theirs.
            proved = self._verifier.holds(greeting, claim)
            await asyncio.sleep(0)
        return claim, self._keys.get(claim.key) if proved else None

    # -- peers that wait, and their callers ----------------------------------------------------------------------

    async def _wait(self, connection: socket.socket, one: _Key, host: str) -> None:
        """Have a peer wait until a caller takes its connection."""
        if (before := one.take(messages.REPLACED)) is not None:
            before.close()
        if not one.here:
            self._say_of(one, f"{one} is here, from {host}")
        line = one.line = _Line(connection)
        one.here = True
        one.waits.set()
        self._loop.add_reader(connection, line.over.set)  # it has nothing to say, so it is gone
        try:
            while not line.over.is_set():
                _tell(connection, WAITING)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(messages.WAITING_EVERY):
                        await line.over.wait()
        finally:
            if one.line is line:
                self._loop.remove_reader(connection)
                one.line, one.here = None, False
                one.waits.clear()
                self._say_of(one, f"{one} is gone")

    async def _call(self, near: socket.socket, caller: _Key, other: bytes, task: asyncio.Task[None]) -> None:
        """Join a caller to the called peer's connection; a newer call of both replaces this one."""
        called, pair = self._keys.get(other), (caller.key, other)
        if called is None or called is caller or called.listed.federation != caller.listed.federation:
            _tell(near, messages.UNKNOWN_OTHER)
            return
        if pair in self._calls:  # no variable: its frame would keep all calls before this one
            self._calls.pop(pair).cancel()
        if not called.here:
            _tell(near, messages.ABSENT)
            return
        if sum(key == caller.key for key, _ in self._calls) >= self._connections:
            _tell(near, messages.TOO_MANY)
            return
        self._calls[pair] = task
        try:
            async with asyncio.timeout(messages.CALL_WITHIN):
                while (far := called.take(TAKEN)) is None:
                    await called.waits.wait()
        except TimeoutError:
            called.here = called.line is not None  # it may have come in this very moment
            _tell(near, messages.ABSENT)
        else:
            await self._join(near, far, caller, called)
        finally:
            if self._calls.get(pair) is task:
                del self._calls[pair]

    async def _join(self, near: socket.socket, far: socket.socket, caller: _Key, called: _Key) -> None:
        began, copied = self._loop.time(), [0, 0]

        async def passes(way: int, nbytes: int) -> None:
            copied[way] += nbytes
            sender, now = (caller, called)[way], self._loop.time()
            sender.free_at = max(sender.free_at, now - _BURST) + nbytes / self._rate
            if sender.free_at > now:
                await asyncio.sleep(sender.free_at - now)

        _tell(near, TAKEN)
        self.joined += 1
        self._say_of(caller, f"joined {caller} to {called}")
        try:
            await join(near, far, passes)
        finally:
            self.carried += sum(copied)
            there, back = (size(nbytes) for nbytes in copied)
            seconds = self._loop.time() - began
            self._say_of(caller, f"parted {caller} from {called} after {seconds:.0f} s: {there} there, {back} back")

    # -- the log -----------------------------------------------------------------------------------------------

    def _refuse(self, why: str, host: str) -> None:
        self.refused += 1
        self._refusals[why] = self._refusals.get(why, (0, ""))[0] + 1, host

    def _say_of(self, one: _Key, line: str) -> None:
        """Log what a key does, unless it does it without end."""
        if self._may_say.spend(one.key, 1, self._loop.time()):
            self._say(line)

    def _report(self) -> None:
        for why, (times, host) in self._refusals.items():
            self._say(f"refused {times} connection{'' if times == 1 else 's'}: {why}; the last from {host}")
        self._refusals.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._unproved.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(f"a connection was ended by an error in dpeer: {type(error).__name__}: {error}")


def _tell(connection: socket.socket, answer: bytes) -> None:
    """Send a byte, which goes into an empty buffer."""
    with contextlib.suppress(OSError):  # it is gone
        connection.send(answer)


def _host(address: str) -> str:
    """A host by its address: one that has IPv6 has a whole network of addresses."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))
