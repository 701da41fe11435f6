"""Control socket of a running peer: a Unix socket that hands JSON requests of its owner to the peer's handlers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from dpeer.exceptions import DpeerError
from dpeer.results.files import finite

SOCKET = "control.sock"
"""In a rank's folder while its peer runs."""

ELSEWHERE = "control.path"
"""In a rank's folder while its peer runs, where that folder can hold no socket: a file with the socket's path."""

LONGEST = 4 * 2**20
"""Bytes of a request, at most: a document of a megabyte fits, as text."""

_AT_ONCE = 16
"""Connections at a time."""

_PATIENCE = 60.0
"""Seconds in which a request comes, and in which its answer is read."""

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Answers a request on the event loop, both plain JSON values; a `DpeerError` that it raises becomes the answer."""


def place(folder: Path) -> Path:
    """Where the socket of the peer with this folder is, if it runs."""
    try:
        return Path((folder / ELSEWHERE).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return folder / SOCKET


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
        # Not the loop's own threads: to end those the loop starts another one, for which a limit may leave no room.
        self._disk = ThreadPoolExecutor(1, "control")

    async def __aenter__(self) -> Self:
        """Begin to answer; replaces what a killed process has left."""
        try:
            bound = await asyncio.get_running_loop().run_in_executor(self._disk, self._bind)
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
                await asyncio.get_running_loop().run_in_executor(self._disk, _remove, self._folder)
        self._disk.shutdown(wait=False)

    def _bind(self) -> socket.socket:
        """A bound socket in the folder, or where that cannot hold one (a long path, some file systems), elsewhere."""
        _remove(self._folder)
        try:
            return _bound(self._folder / SOCKET)
        except OSError:
            path = Path(tempfile.mkdtemp(prefix="dpeer-")) / SOCKET
            try:
                found = _bound(path)
                (self._folder / ELSEWHERE).write_text(f"{path}\n", encoding="utf-8")
            except OSError:
                _remove_elsewhere(path)
                raise
            return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) > _AT_ONCE:
                await _write(writer, {"error": f"{_AT_ONCE} programs ask this peer already: try again"})
                return
            async with asyncio.timeout(None) as patience:
                while True:
                    patience.reschedule(asyncio.get_running_loop().time() + _PATIENCE)
                    line = await reader.readline()
                    if not line:
                        return
                    patience.reschedule(None)
                    answer = await self._answer(line)
                    patience.reschedule(asyncio.get_running_loop().time() + _PATIENCE)
                    await _write(writer, answer)
        except ValueError:
            with contextlib.suppress(OSError):
                await _write(writer, {"error": f"the request has more than {LONGEST} bytes"})
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the other program has ended, or does not read; or this peer ends
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


def _bound(path: Path) -> socket.socket:
    """A socket that only its owner can reach; until it listens no program can connect."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        found.close()
        if "too long" in str(error):
            error.strerror = "its path is too long"
        raise
    return found


def _remove(folder: Path) -> None:
    """Remove the socket of a peer that does not run any more.

    Raises:
        OSError: It cannot be removed.
    """
    if (elsewhere := place(folder)) != folder / SOCKET:
        _remove_elsewhere(elsewhere)
        (folder / ELSEWHERE).unlink(missing_ok=True)
    (folder / SOCKET).unlink(missing_ok=True)


def _remove_elsewhere(path: Path) -> None:
    """Remove a socket outside of the rank's folder, with the folder that was made for it alone."""
    if path.name != SOCKET or not path.parent.name.startswith("dpeer-"):
        return  # the file that names it was changed
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()
