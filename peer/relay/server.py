"""Relay server: admits listed keys, announces calls, joins each call's two connections, and limits each key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import ProtocolError, not_bound
from dpeer.peer.core.limits import RateLimiter
from dpeer.peer.relay import limits, messages
from dpeer.peer.relay.joint import Joint
from dpeer.peer.relay.messages import ANSWER_CALL, CALL, DIAL, LISTEN, PING, REPLACED, TAKEN, Claim, News, Verifier
from dpeer.peer.transports.hosts import receive, set_up
from dpeer.results.units import size

_AGAIN = 1.0
"""Seconds after which connections are accepted again when that has failed (too many open files, for example)."""

_ANSWER_WITHIN = 1.0
"""Seconds for one byte, which goes into an empty buffer."""

_GIVE_UP = 30.0
"""Seconds after which a connection breaks whose other end confirms nothing."""


@dataclass(frozen=True)
class Listed:
    """What a relay knows of a key.

    Attributes:
        federation: Keys of one federation alone are joined.
        name: The owner in the log, such as "rank 3".
    """

    federation: str
    name: str


class Pace:
    """A token bucket of the bytes of one key, which makes their sender wait; it holds those of one second.

    Args:
        rate: Bytes a second.
        now: The time of its start, in seconds.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._left, self._since = rate, rate, now

    def spend(self, nbytes: int, now: float) -> float:
        """Take these bytes; returns the seconds that their sender has to wait."""
        self._left = min(self._rate, self._left + (now - self._since) * self._rate) - nbytes
        self._since = now
        return max(0.0, -self._left / self._rate)

    async def __call__(self, nbytes: int) -> None:
        """Take these bytes, and wait as long."""
        if delay := self.spend(nbytes, asyncio.get_running_loop().time()):
            await asyncio.sleep(delay)


@dataclass
class _Key:
    """A listed key's state. What it may use lasts as long as the relay, however often the owner connects."""

    key: bytes
    listed: Listed
    pace: Pace
    left_out: int = 0  # lines since the last report
    line: socket.socket | None = None  # the connection on which the peer is called

    def __str__(self) -> str:
        return f"{self.listed.name} ({self.key.hex()[:8]})"


@dataclass
class _Call:
    """A call that waits to be taken, and then lasts until both ends are parted."""

    caller: _Key
    called: _Key
    taken: asyncio.Future[socket.socket]
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Relay:
    """Joins the outgoing connections of listed keys, two and two.

    Args:
        listed: The keys.
        say: Takes the lines of the log.
        rate: Bytes a second that one key may send.
        connections: The most connections of one key.

    Attributes:
        joined, carried, refused: Connections that were joined; bytes that they carried; connections that were refused.
    """

    def __init__(
        self,
        listed: Mapping[bytes, Listed],
        say: Callable[[str], None],
        rate: float = limits.RATE,
        connections: int = limits.CONNECTIONS,
    ) -> None:
        self.joined = self.carried = self.refused = 0
        self._say, self._rate, self._connections = say, rate, connections
        self._loop = asyncio.get_running_loop()
        self._verifier, self._verifying = Verifier(), asyncio.Lock()
        self._keys: dict[bytes, _Key] = {}
        self._calls: dict[bytes, _Call] = {}  # by ticket
        self._joints: dict[tuple[bytes, bytes], Joint] = {}  # by the keys of caller and called
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
                group.create_task(self._look())
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
                if (line := self._keys.pop(key).line) is not None:
                    _shut(line)
                for pair, joint in self._joints.items():
                    if key in pair:
                        joint.end()
        for key, one in listed.items():
            if key not in self._keys:
                self._keys[key] = _Key(key, one, Pace(self._rate, self._loop.time()))
        calls = limits.CALLS_A_SECOND + len(listed) / 2  # all others may be away, and are called again and again
        self._may_call = RateLimiter(calls, limits.CALLS_AT_ONCE, len(listed) + 1)
        self._may_say = RateLimiter(limits.LINES_A_SECOND, limits.LINES_AT_ONCE, len(listed) + 1)

    # -- connections that have proved no key -------------------------------------------------------------------

    async def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, place = await self._loop.sock_accept(server)
            except OSError as error:
                await asyncio.sleep(0 if error.errno == errno.ECONNABORTED else _AGAIN)
                continue
            if len(self._unproved) >= limits.MOST_UNPROVED:
                self._displace()
            host = _host(place[0])
            task = self._begin(self._admit(connection, host))
            self._unproved[task] = host
            task.add_done_callback(lambda done: self._unproved.pop(done, None))
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
        try:
            set_up(connection, _GIVE_UP)
            try:
                async with asyncio.timeout(limits.PROVE_WITHIN):
                    claim, one = await self._prove(connection)
            except TimeoutError:
                self._refuse("no key proved in time", host)
                return
            if one is None:
                self._refuse("an unlisted key, or one that was not proved", host)
                await _answer(connection, messages.UNKNOWN_KEY)
                return
            self._unproved.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
            call = self._calls.get(claim.other) if claim.purpose == ANSWER_CALL else None
            if call is not None and call.called is one and not call.taken.done():
                call.taken.set_result(connection)
                await call.over.wait()
            elif not self._may_call.spend(one.key, 1, self._loop.time()):
                self._refuse("more calls than a key may make", host)
                await _answer(connection, messages.TOO_MANY)
            elif claim.purpose == LISTEN:
                await self._serve_callable(connection, one, host)
            elif claim.purpose == DIAL:
                await self._serve_caller(connection, one, claim.other)
            else:
                await _answer(connection, messages.NO_CALLER)
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

    # -- peers that can be called, and calls --------------------------------------------------------------------

    async def _serve_callable(self, connection: socket.socket, one: _Key, host: str) -> None:
        await _answer(connection, TAKEN)
        if one.line is not None:
            _tell(one.line, News(REPLACED))
            _shut(one.line)
        self._say_of(one, f"{one} {'is here again' if one.line else 'is here'}, from {host}")
        one.line = connection
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(messages.PING_EVERY):
                        await receive(connection, 1)
                        break  # it has nothing to say of its own
                _tell(connection, News(PING))
                async with asyncio.timeout(messages.SILENT):
                    if await receive(connection, 1) != PING:
                        break
        except OSError:  # TimeoutError, too
            pass
        finally:
            if one.line is connection:
                one.line = None
                self._say_of(one, f"{one} is gone")

    async def _serve_caller(self, connection: socket.socket, caller: _Key, other: bytes) -> None:
        called = self._keys.get(other)
        if called is None or called is caller or called.listed.federation != caller.listed.federation:
            await _answer(connection, messages.UNKNOWN_OTHER)
            return
        if called.line is None:
            await _answer(connection, messages.ABSENT)
            return
        if self._full(caller, called):
            await _answer(connection, messages.TOO_MANY)
            return
        ticket = secrets.token_bytes(messages.KEY_BYTES)
        call = self._calls[ticket] = _Call(caller, called, self._loop.create_future())
        try:
            _tell(called.line, News(CALL, ticket, caller.key))
            try:
                async with asyncio.timeout(messages.CALL_WITHIN):
                    far = await call.taken
            except TimeoutError:
                await _answer(connection, messages.NO_ANSWER)
                return
            finally:
                del self._calls[ticket]
            await self._join(connection, far, caller, called)
        finally:
            call.over.set()

    def _full(self, caller: _Key, called: _Key) -> bool:
        """Whether one of two keys has all connections that it may have; a newer one of both replaces theirs."""
        pairs = [pair for pair in self._joints if pair != (caller.key, called.key)]
        pairs += [(call.caller.key, call.called.key) for call in self._calls.values()]
        used = Counter(key for pair in pairs for key in pair)
        return any(used[one.key] + 1 >= self._connections for one in (caller, called))

    async def _join(self, near: socket.socket, far: socket.socket, caller: _Key, called: _Key) -> None:
        pair, began = (caller.key, called.key), self._loop.time()
        if any(self._keys.get(one.key) is not one for one in (caller, called)):
            return  # not listed any more
        if _is_gone(near):  # it may have called anew meanwhile, and that joint stays
            await _answer(far, messages.NO_CALLER)
            return
        for end in (far, near):
            await _answer(end, TAKEN)
        if pair in self._joints:
            self._joints[pair].end()
        joint = self._joints[pair] = Joint(near, far, (caller.pace, called.pace))
        self.joined += 1
        self._say_of(caller, f"joined {caller} to {called}")
        try:
            await joint.run()
        finally:
            if self._joints.get(pair) is joint:
                del self._joints[pair]
            self.carried += sum(joint.copied)
            there, back = (size(nbytes) for nbytes in joint.copied)
            seconds = self._loop.time() - began
            self._say_of(caller, f"parted {caller} from {called} after {seconds:.0f} s: {there} there, {back} back")

    # -- by the clock ------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """End joints that are quiet, and report refusals, from time to time."""
        report_at = self._loop.time() + limits.REPORT
        while True:
            await asyncio.sleep(limits.LOOK)
            now = self._loop.time()
            for joint in self._joints.values():
                if joint.stalled(now) > limits.QUIET:
                    joint.end()
            if now >= report_at:
                report_at = now + limits.REPORT
                self._report()

    def _refuse(self, why: str, host: str) -> None:
        self.refused += 1
        self._refusals[why] = self._refusals.get(why, (0, ""))[0] + 1, host

    def _say_of(self, one: _Key, line: str) -> None:
        """Log what a key does, unless it does it without end."""
        if self._may_say.spend(one.key, 1, self._loop.time()):
            self._say(line)
        else:
            one.left_out += 1

    def _report(self) -> None:
        for one in self._keys.values():
            if one.left_out:
                self._say(f"{one} comes and goes: {one.left_out} lines were left out")
                one.left_out = 0
        for why, (times, host) in self._refusals.items():
            self._say(f"refused {times} connection{'' if times == 1 else 's'}: {why}; the last from {host}")
        self._refusals.clear()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(f"a connection was ended by an error in dpeer: {type(error).__name__}: {error}")


def _tell(line: socket.socket, news: News) -> None:
    """Send a few bytes to a peer that can be called; one that does not read is not called any more."""
    with contextlib.suppress(OSError):  # BlockingIOError, too
        if line.send(news.encode()) == messages.NEWS_BYTES:
            return
    _shut(line)


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _is_gone(connection: socket.socket) -> bool:
    """Whether the other end, which has nothing to send yet, has closed the connection."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


async def _answer(connection: socket.socket, code: bytes) -> None:
    with contextlib.suppress(OSError):  # it is gone, or takes not even this byte: TimeoutError
        async with asyncio.timeout(_ANSWER_WITHIN):
            await asyncio.get_running_loop().sock_sendall(connection, code)


def _host(address: str) -> str:
    """A host by its address: one that has IPv6 has a whole network of addresses."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))
