"""ZeroMQ sockets on the event loop: each is read as long as the event queue of its link is short."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from socket import has_dualstack_ipv6

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.peer.core.limits import KEEPALIVE_IDLE, UNREAD
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Event, Link

_AT_ONCE = 8
"""Messages that are read before others of the event loop have their turn."""

_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
_NOW, _NOT_LAST = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
"""As plain numbers: arithmetic with the enumerations of pyzmq takes longer than the calls that they are for."""

Parts = list[zmq.Frame]


class Reader:
    """Hands every message of a socket to a callback, as long as more may come.

    The file descriptor of a ZeroMQ socket signals only once that something came, and any call on the socket may use
    that signal up. So the socket is read until it is empty, and again after every send. (zmq.asyncio does so, too, for
    the price of some futures a message.)

    Of a message with too many frames the first ones are handed over, enough to show that; the others are skipped.

    Args:
        ready: Whether another message may be taken. When this becomes true again, `look_soon` has to be called.
        emptied: Called when the socket has no further message at present.
        signalled: Called when something happened to the socket, such as that it can be written to again.
        frames: The most that are kept of a message.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        handle: Callable[[Parts], None],
        ready: Callable[[], bool] = lambda: True,
        emptied: Callable[[], None] = lambda: None,
        signalled: Callable[[], None] = lambda: None,
        frames: int = 2**12,
    ) -> None:
        self.socket, self._handle, self._ready = socket, handle, ready
        self._emptied, self._signalled = emptied, signalled
        self._frames = frames
        self._more = False  # whether the rest of a message is to be skipped
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.getsockopt(zmq.FD))
        self._due: asyncio.Handle | None = None
        self._stopped = False
        self._loop.add_reader(self._descriptor, self._signal)
        self.look_soon()

    def look_soon(self) -> None:
        """Look for messages after everything that is already due on the event loop."""
        if self._due is None:
            self._due = self._loop.call_soon(self._look)

    def called(self) -> None:
        """Another call on the socket may have used its signal up: look soon if a message waits.

        A message that comes after this gives a signal again.
        """
        if self._due is None and self._waits():
            self._due = self._loop.call_soon(self._look)

    def close(self, linger: float = 0) -> None:
        """Read no more, and close the socket; flush for at most `linger` seconds. What handles a message may do so."""
        self._stopped = True
        self._loop.remove_reader(self._descriptor)
        if self._due is not None:
            self._due.cancel()
        self.socket.close(linger=int(linger * 1000))

    def read_rest(self) -> None:
        """Read all messages, whether more may come or not."""
        while (message := self._receive()) is not None:
            self._handle(message)
            while self._more:
                self._skip()

    def _signal(self) -> None:
        self._signalled()
        self._look()

    def _look(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        for _ in range(_AT_ONCE):
            if self._stopped:
                return
            if not self._ready():
                self._waits()  # takes the signal, too: else the event loop would turn without a pause meanwhile
                return
            if self._more:
                self._skip()
                continue
            message = self._receive()
            if message is None:
                self._emptied()
                return
            self._handle(message)
        if not self._stopped:
            self.look_soon()

    def _waits(self) -> bool:
        """Whether a message waits; the question costs a third of an attempt in vain."""
        return bool(int(self.socket.get(_EVENTS)) & _READABLE)

    def _receive(self) -> Parts | None:
        if not self._waits():
            return None
        try:
            message = [self.socket.recv(_NOW, copy=False)]
        except zmq.Again:  # its connection has ended since
            return None
        while message[-1].more and len(message) < self._frames:
            message.append(self.socket.recv(_NOW, copy=False))
        self._more = message[-1].more
        return message

    def _skip(self) -> None:
        for _ in range(self._frames):
            if not self._more:
                return
            self._more = self.socket.recv(_NOW, copy=False).more


class Sockets:
    """The sockets of one transport, and its events in one queue a link.

    Args:
        frame_bytes: The longest frame. libzmq drops a connection on which a longer one is announced, before it takes
            memory for it.
        frames: The most that are kept of a message.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        signalled: Called when something happened to a socket, such as that it can be written to again.
    """

    def __init__(self, frame_bytes: int, frames: int, give_up: float, signalled: Callable[[], None]) -> None:
        self._frame_bytes, self._frames, self._give_up, self._signalled = frame_bytes, frames, give_up, signalled
        self.context = zmq.Context()
        self._readers: dict[Link, Reader] = {}
        self._queues: dict[Link, deque[Event]] = {}
        self._turns: deque[Link] = deque()
        self._something = asyncio.Event()

    def open(self, kind: int, address: str) -> zmq.Socket[bytes]:
        """A socket that is set up for this address."""
        socket: zmq.Socket[bytes] = self.context.socket(kind)
        # "*" is all interfaces, those of IPv6 among them where the host has it.
        socket.setsockopt(zmq.IPV6, "[" in address or ("//*:" in address and has_dualstack_ipv6()))
        socket.setsockopt(zmq.MAXMSGSIZE, self._frame_bytes)
        socket.setsockopt(zmq.LINGER, 0)
        # A receiver that does not keep up makes TCP, then libzmq, then the core's send queue wait, each with a bound.
        socket.setsockopt(zmq.SNDHWM, UNREAD)
        socket.setsockopt(zmq.RCVHWM, UNREAD)
        # Dead hosts are noticed by the transport too (a pulled cable leaves the TCP connection open for hours).
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE)
        socket.setsockopt(zmq.TCP_MAXRT, int(self._give_up * 1000))
        return socket

    def monitor(self, socket: zmq.Socket[bytes], events: int, handle: Callable[[zmq.Event, int], None]) -> Reader:
        """Have these events of a socket's connections handled, each with its value, often a descriptor.

        Raises:
            zmq.ZMQError: too many open files, for example.
        """

        def handle_parts(parts: Parts) -> None:
            message = parse_monitor_message([part.bytes for part in parts])
            handle(zmq.Event(message["event"]), int(message["value"]))

        return Reader(monitored(socket, events), handle_parts)

    def read(
        self,
        key: Link,
        socket: zmq.Socket[bytes],
        handle: Callable[[Parts], None],
        emptied: Callable[[], None] = lambda: None,
    ) -> Reader:
        """Read a socket as long as the queue of this key is short."""
        queue = self._queues.setdefault(key, deque())
        self._readers[key] = Reader(socket, handle, lambda: len(queue) < UNREAD, emptied, self._signalled, self._frames)
        return self._readers[key]

    async def terminate(self) -> None:
        """Wait until the closed sockets are flushed."""
        # The event loop (of other peers, too) must not wait. The thread is not one of the loop's own pool:
        # that starts another one when it is shut down.
        thread = ThreadPoolExecutor(1, "closing")
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self.context.term)
        except RuntimeError:  # the system gives no thread
            self.context.term()
        finally:
            thread.shutdown(wait=False)

    # -- events ------------------------------------------------------------------------------------------------

    def push(self, key: Link, event: Event) -> None:
        """Add an event to a queue."""
        queue = self._queues.setdefault(key, deque())
        queue.append(event)
        if len(queue) == 1:
            self._turns.append(key)
        self._something.set()

    def waiting(self, key: Link) -> int:
        """The number of this key's events that wait for `receive`."""
        return len(self._queues.get(key, ()))

    def forget(self, key: Link) -> None:
        """Drop a key's events."""
        self._queues.pop(key, None)
        self._readers.pop(key, None)

    async def receive(self) -> Event:
        """The next event; links take turns."""
        while True:
            while not self._turns:
                self._something.clear()
                await self._something.wait()
            key = self._turns.popleft()
            queue = self._queues.get(key)
            if queue:
                break
        event = queue.popleft()
        if queue:
            self._turns.append(key)
        if len(queue) == UNREAD - 1 and key in self._readers:
            self._readers[key].look_soon()
        return event


def send(socket: zmq.Socket[bytes], parts: Frames) -> None:
    """Send a message without waiting; long frames without a copy.

    Raises:
        zmq.Again: The socket takes none at present.
        zmq.ZMQError: The link is gone.
    """
    last = len(parts) - 1
    for index, part in enumerate(parts):
        socket.send(part, _NOW if index == last else _NOT_LAST, copy=memoryview(part).nbytes < zmq.COPY_THRESHOLD)


def monitored(socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
    """A socket on which libzmq reports these events, without a limit to unread ones.

    pyzmq's `get_monitor_socket` holds a thousand messages. While that many wait, libzmq 4.3.5 blocks the thread that
    reports another one, and it holds the lock that `disable_monitor` waits for: a peer that closes under a flood of
    connections would hang for ever. So nothing is limited; the reader reads until the end, and the rest is dropped.

    Raises:
        zmq.ZMQError: too many open files, for example.
    """
    address = f"inproc://dpeer.monitor.{socket.FD}"
    socket.monitor(address, events)
    try:
        pair: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
    except zmq.ZMQError:
        socket.disable_monitor()
        raise
    pair.setsockopt(zmq.LINGER, 0)
    pair.setsockopt(zmq.RCVHWM, 0)
    pair.connect(address)
    return pair
