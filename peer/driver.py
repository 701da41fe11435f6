"""Runs a peer's core over a transport: the only place where its decisions meet sockets, the clock and tasks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from dpeer.peer.core.bodies import Received, Released
from dpeer.peer.core.effects import Admit, Close, Deliver, Dial, Effect, Fail, Keep, LogEvent, Throttle, Wake, Write
from dpeer.peer.core.limits import REST, REST_AFTER
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.wait import Kind
from dpeer.peer.core.wire import Goodbyes
from dpeer.peer.transport import Broken, Link, Sent, Transport

Log = Callable[[LogEvent], None]
"""Writes an event of a core."""

KeepLists = Callable[[MemberList, MemberList | None], Awaitable[object]]
"""Writes the member list that counts, and the one that waits."""


class Driver:
    """Passes events to the core, carries out its effects, and lets the round loop wait for them.

    Args:
        linger: Seconds for which messages may still be written when the peer leaves, and as many again for the
            transport to deliver them.

    Attributes:
        broken: Done with the exception that ended the driver, if one did: then nothing that is waited for comes.
    """

    def __init__(self, core: Core, transport: Transport, log: Log, linger: float, keep: KeepLists) -> None:
        self.core = core
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport = transport
        self._log = log
        self._linger = linger
        self._keep = keep
        self._keeping: asyncio.Task[None] | None = None
        self._to_keep: Keep | None = None
        self._loop = asyncio.get_running_loop()
        self._addresses: Mapping[int, str] = {}
        self._todo: deque[Effect] = deque()
        self._doing = False
        self._waiting: asyncio.Future[Any] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._idle = asyncio.Event()
        self._excess = 0

    # -- opening and closing -----------------------------------------------------------------------------------

    def open(self, to_dial: Collection[int], addresses: Mapping[int, str], number: int) -> None:
        """Dial the neighbors at these addresses and start answering; `number` is the first round that will be run."""
        self._addresses = addresses
        self._do(self.core.open(sorted(to_dial), number, self.now(), addresses))
        self._reading = asyncio.create_task(self._guarded())

    async def close(self, reason: Goodbyes, back_within: int = 0) -> None:
        """Say goodbye and close every connection; `back_within`: seconds within which a stopped peer will be back."""
        try:
            if not self.broken.done():
                self._do(self.core.leave(reason, self.now(), back_within))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._written(), self._linger)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in (self._reading, self._keeping):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            if self.broken.done():
                self.broken.exception()  # no task may be left to fetch it
            await self._transport.close(self._linger)

    async def _written(self) -> None:
        while not self.core.written:
            self._idle.clear()
            await self._idle.wait()

    # -- wishes of the round loop ------------------------------------------------------------------------------

    def behind(self, number: int) -> bool:
        """Whether the others have gone past round `number` without this peer."""
        found = self.core.behind(number)
        self._do(self.core.look(self.now()))
        return found

    def enter(self, number: int) -> None:
        """Begin round `number`, which nothing holds up."""
        self._do(self.core.enter(number, self.now()))

    def hand(self, one: MemberList) -> str | None:
        """An operator hands over a member list; returns the reason for which it is not taken, None if it is."""
        why, effects = self.core.hand(one, self.now())
        self._do(effects)
        return why

    def begin(self, number: int) -> None:
        """Make round `number` this peer's current round: the rounds before are on disk."""
        self._do(self.core.begin(number, self.now()))

    def send(self, number: int, body: Released | None) -> None:
        """Send round `number`'s body to the out-neighbors as each becomes ready; None without one."""
        self._do(self.core.release(number, body, self.now()))

    async def wait(self, kind: Kind, number: int = 0) -> None:
        """Wait for this aim, in round `number`; the rounds that are complete where it is after the last one.

        Raises:
            DpeerError: Nothing that it waits for can come any more: `RULES` of `peer/core/waiting.py` says what when.
        """
        await self._until(kind, number)

    async def collect(self, number: int) -> dict[int, Received]:
        """Round `number`'s bodies, once none of those that are not here is awaited any more; by rank."""
        found: Deliver = await self._until("collect", number)
        return dict(found.bodies)

    async def settle(self, number: int) -> int:
        """Wait until round `number` may be completed; return the bytes of all copies of its body."""
        found: Wake = await self._until("settle", number)
        return found.bytes_sent

    def drain(self) -> None:
        """Begin no other round; a wait in which no round runs ends at once."""
        self._do(self.core.drain(self.now()))

    def left_out(self, rank: int, reason: str) -> None:
        """Count a body that arrived whole but must not be mixed, and log it once."""
        self._do(self.core.left_out(rank, reason, self.now()))

    async def _until(self, kind: Kind, number: int) -> Any:
        self._waiting = self._loop.create_future()
        self._do(self.core.wait(kind, number, self.now()))
        return await self._waiting

    # -- running -----------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The clock time of the core."""
        return self._loop.time()

    async def _guarded(self) -> None:
        try:
            while True:
                event = await self._transport.receive()
                self._do(self.core.happened(event, self.now()))
                if self._excess >= REST_AFTER:
                    self._excess = 0
                    await asyncio.sleep(REST)
        except Exception as error:  # whatever it is, the peer must not go on deaf
            self._break(error)

    def _do(self, effects: Iterable[Effect]) -> None:
        """Do these effects, and those that they lead to, in order."""
        self._todo.extend(effects)
        if self._doing:
            return
        self._doing = True
        try:
            while self._todo:
                match effect := self._todo.popleft():
                    case Write(link):
                        self._write(link)
                    case Dial(rank, address):
                        link = self._transport.dial(address or self._addresses[rank], rank)
                        self._todo.extend(self.core.dialled(rank, link, self.now()))
                    case Close(link):
                        self._transport.drop(link)
                    case Deliver() | Wake():
                        if self._waiting is not None and not self._waiting.done():
                            self._waiting.set_result(effect)
                    case Fail(error):
                        if self._waiting is not None and not self._waiting.done():
                            self._waiting.set_exception(error)
                    case LogEvent():
                        self._log(effect)
                    case Throttle():
                        self._excess += 1
                    case Keep():
                        self._to_keep = effect
                        if self._keeping is None:
                            self._keeping = asyncio.create_task(self._keep_lists())
                    case Admit(keys):
                        self._transport.admit(keys)
        finally:
            self._doing = False
        self._set_timer()
        self._idle.set()

    async def _keep_lists(self) -> None:
        """Write the member lists, as long as they change meanwhile; then say so."""
        try:
            while (one := self._to_keep) is not None:
                self._to_keep = None
                await self._keep(one.counts, one.waits)
                self._do(self.core.kept(one.stamp, self.now()))
        except Exception as error:
            self._break(error)
        finally:
            self._keeping = None

    def _write(self, link: Link) -> None:
        while (frames := self.core.outgoing(link)) is not None:
            sent = self._transport.send(link, frames)
            if sent is Sent.FULL:
                self.core.full(link)
                return
            if sent is Sent.GONE:
                self._todo.extend(self.core.happened(Broken(link), self.now()))
                return
            self.core.taken(link)

    def _set_timer(self) -> None:
        now = self.now()
        due = self.core.next_tick(now)
        self._due = due
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # which looks again then: most waits end long before they are due
            self._timer.cancel()
            self._timer = None
        if due != math.inf:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        assert self._timer is not None, "called by it"
        early, self._timer = self._timer.when() < self._due, None
        if early:
            self._set_timer()
            return
        try:
            self._do(self.core.tick(self.now()))
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        text = f"the connections of this peer failed, so it ends: {type(error).__name__}: {error}"
        self._log(LogEvent("warning", "connections-failed", text, {"traceback": traceback.format_exc()}))
        if not self.broken.done():
            self.broken.set_exception(error)
