"""JSON messages between `dpeer cluster` and the processes it started."""

from __future__ import annotations

import asyncio
import json
from multiprocessing.connection import Connection
from typing import Any


class Channel:
    """One end of a pipe, on the event loop. Messages are JSON: not even our own processes are unpickled."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._open = True
        asyncio.get_running_loop().add_reader(connection.fileno(), self._read)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; nothing happens when the other end is gone."""
        try:
            self._connection.send_bytes(json.dumps(message).encode())
        except OSError:
            self._end()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other end is gone, now and ever after."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        return message

    def close(self) -> None:
        """Let go of this end."""
        self._end()
        self._connection.close()

    def _read(self) -> None:
        try:
            self._messages.put_nowait(json.loads(self._connection.recv_bytes()))
        except (OSError, EOFError):
            self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._messages.put_nowait(None)
