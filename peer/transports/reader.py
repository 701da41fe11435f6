"""Reading a ZeroMQ socket on the event loop, many messages in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

_AT_ONCE = 8
"""Messages that are read before others of the event loop have their turn."""


class Reader:
    """Hands every message of a socket to a callback, as long as there is room for more.

    A ZeroMQ socket's file descriptor says only once that something came, and any call on the socket may have used that
    word up: so the socket is read until it is empty, and again after every send. (zmq.asyncio does so too, at the price
    of some futures for each message.)

    Of a message with too many frames the first ones are handed over, as far as they show that; the others are skipped,
    a part of them at a time.

    Args:
        socket: The socket; nobody else reads it.
        handle: Called with each message.
        room: Whether another message may be taken. When this becomes true again, `look_soon` has to be called.
        emptied: Called when the socket has no further message at present.
        signalled: Called when something happened to the socket, such as that it can be written to again.
        frames: The most that are kept of a message.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        handle: Callable[[list[zmq.Frame]], None],
        room: Callable[[], bool] = lambda: True,
        emptied: Callable[[], None] = lambda: None,
        signalled: Callable[[], None] = lambda: None,
        frames: int = 2**12,
    ) -> None:
        self._socket, self._handle, self._room = socket, handle, room
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

    def stop(self) -> None:
        """Read no more; before the socket is closed. What handles a message may call this."""
        self._stopped = True
        self._loop.remove_reader(self._descriptor)
        if self._due is not None:
            self._due.cancel()

    def read_rest(self) -> None:
        """Read all that is there, whether there is room or not."""
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
            if not self._room():
                # Takes the descriptor's word, too: else the event loop would turn without a pause until there is room.
                self._socket.getsockopt(zmq.EVENTS)
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

    def _receive(self) -> list[zmq.Frame] | None:
        try:
            message = [self._socket.recv(zmq.NOBLOCK, copy=False)]
        except zmq.Again:
            return None
        while message[-1].more and len(message) < self._frames:
            message.append(self._socket.recv(zmq.NOBLOCK, copy=False))
        self._more = message[-1].more
        return message

    def _skip(self) -> None:
        for _ in range(self._frames):
            if not self._more:
                return
            self._more = self._socket.recv(zmq.NOBLOCK, copy=False).more
