"""Control socket of a running peer: a Unix socket that hands JSON requests of its owner to the peer's handlers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from dpeer.exceptions import DpeerError
from dpeer.results.files import finite

SOCKET = "control.sock"
"""In a rank's folder while its peer runs."""

LONGEST = 4 * 2**20
"""Bytes of a request, at most: a document of a megabyte fits, as text."""

_LONGEST_PATH = 103
"""Bytes of a socket's path, at most: macOS's limit (Linux has 107)."""

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Answers a request on the event loop, both plain JSON values; a `DpeerError` that it raises becomes the answer."""


@contextlib.contextmanager
def socket_path(folder: Path) -> Iterator[str]:
    """The path of the socket in a rank's folder, as long as it is bound or connected to.

    Linux has a short name for an open folder, so a path that is too long for a socket works there, too.
    """
    path = folder / SOCKET
    if len(os.fsencode(path)) <= _LONGEST_PATH or sys.platform != "linux":
        yield str(path)
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


class ControlSocket:
    """Answers requests: a JSON object a line, {"ask": NAME, ...}, with one a line; `{"error": TEXT}` if it cannot.

    Only the user that runs the peer can connect. A peer never fails for the sake of its control socket.

    Args:
        folder: The rank's, which no other running peer uses: its socket, if one lies there, is a killed process's.
        handlers: By the name of the request; may change while the socket is open.
        warn: Called with a sentence if the folder can hold no socket.
    """

    def __init__(self, folder: Path, handlers: Mapping[str, Handler], warn: Callable[[str], None]) -> None:
        self._folder, self._handlers, self._warn = folder, handlers, warn
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Begin to answer; replaces what a killed process has left."""
        try:
            with socket_path(self._folder) as path:
                bound = _bound(path)
            self._server = await asyncio.start_unix_server(self._serve, sock=bound, limit=LONGEST)
        except OSError as error:
            self._warn(
                f"no control socket in {str(self._folder)!r}: {error.strerror or error}; the run goes on, and dpeer "
                "status and dpeer drain cannot ask this peer"
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        """End all connections, and remove the socket."""
        if self._server is not None:
            self._server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            with contextlib.suppress(OSError):
                (self._folder / SOCKET).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while line := await reader.readline():
                await _write(writer, await self._answer(line))
        except ValueError:
            with contextlib.suppress(OSError):
                await _write(writer, {"error": f"the request has more than {LONGEST} bytes"})
        except (OSError, asyncio.CancelledError):
            pass  # the other program has ended, or this peer ends
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict) or not isinstance(request.get("ask"), str):
            return {"error": 'a request is a JSON object in one line, such as {"ask": "status"}'}
        handler = self._handlers.get(request["ask"])
        if handler is None:
            return {"error": f"{request['ask'][:60]!r} is no request; known: {', '.join(sorted(self._handlers))}"}
        try:
            found = handler(request)
            return await found if inspect.isawaitable(found) else found
        except DpeerError as error:
            return {"error": str(error)}
        except Exception as error:  # whatever it is, the peer goes on
            return {"error": f"{type(error).__name__}: {error}"}


async def _write(writer: asyncio.StreamWriter, answer: Mapping[str, Any]) -> None:
    writer.write(json.dumps(finite(answer), allow_nan=False).encode() + b"\n")
    await writer.drain()


def _bound(path: str) -> socket.socket:
    """A socket that only its owner can reach, in place of a killed process's; no program can connect yet."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        found.bind(path)
        Path(path).chmod(0o600)
    except OSError as error:
        found.close()
        if "too long" in str(error):
            error.strerror = "its path is too long"
        raise
    return found
