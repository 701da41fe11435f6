"""JSON messages between `dpeer cluster` and its child processes; neither end waits for the other."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any


class Channel:
    """One end of a pair of sockets, on the event loop. Messages are JSON: not even our own processes are unpickled.

    What the other end does not take, because it was stopped or is busy, waits here: of a peer about a kilobyte a round.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._read, self._unsent = bytearray(), bytearray()
        self._listening = self._talking = True
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._loop.add_reader(end, self._take)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, as soon as the other end takes it; nothing happens when that one is gone."""
        if self._talking:
            self._unsent += json.dumps(message).encode() + b"\n"
            self._all_sent.clear()
            self._give()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other end is gone, now and ever after."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        return message

    async def sent(self) -> None:
        """Wait until the other end has taken everything, or is gone."""
        await self._all_sent.wait()

    def close(self) -> None:
        """Let go of this end."""
        self._end_listening()
        self._end_talking()
        self._end.close()

    def _give(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._end, self._give)
        except OSError:
            self._end_talking()  # its last message may name the reason
        else:
            self._loop.remove_writer(self._end)
            self._all_sent.set()

    def _take(self) -> None:
        try:
            came = self._end.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        if not came:
            self._end_listening()
            return
        *whole, self._read = (self._read + came).split(b"\n")
        for message in whole:
            self._messages.put_nowait(json.loads(message))

    def _end_listening(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._end)
            self._messages.put_nowait(None)

    def _end_talking(self) -> None:
        if self._talking:
            self._talking = False
            self._loop.remove_writer(self._end)
            self._unsent.clear()
            self._all_sent.set()
