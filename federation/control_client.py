"""Running peers of this host: the lock of a rank's folder, requests to control sockets, and what a run folder has."""

from __future__ import annotations

import fcntl
import json
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError, DpeerError, FolderInUse, OutputError, not_written
from dpeer.peer import checkpoint, control
from dpeer.results.files import METRICS, SUMMARY, make_folder
from dpeer.results.json_fields import whole
from dpeer.results.run_folders import rank_folders, read_object

LOCK = ".lock"
"""In a rank's folder: held by its peer while that runs."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a rank's folder for as long as its peer runs.

    Raises:
        FolderInUse: another running peer holds it.
        OutputError: The folder or its lock cannot be made, or the file system has no locks.
    """
    try:
        make_folder(folder)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise not_written(repr(str(folder)), error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(
                f"{str(folder)!r} is in use by a running peer: stop it, or name another folder"
            ) from error
        except OSError as error:
            raise OutputError(f"{str(folder)!r}: {no_locks(error)}") from error
        yield


def no_locks(error: OSError) -> str:
    """What to do about a file system without locks, as its error says why."""
    return (
        f"its file system has no locks ({error.strerror}), by which one peer at a time runs in a folder: name an --out "
        "on a disk of this host, or mount the share with locks (NFS: version 4, or lockd)"
    )


TIMEOUT = 5.0
"""Seconds within which a peer answers, whatever it trains."""

_LISTED, _AT_ONCE = 8, 32

_WITHOUT_SOCKET = "starts, or ends, or has no control socket (its log.jsonl says which)"
"""What a peer does that holds its folder and has no control socket."""

RANK = re.compile(r"rank-(0|[1-9][0-9]*)")
"""The name of a rank's folder."""


class NotRunning(ConfigurationError):  # noqa: N818 - reads as what happened
    """No peer runs in a rank's folder."""


class NoAnswer(DpeerError):  # noqa: N818 - reads as what happened
    """A peer runs and has not answered."""


def ask(folder: Path, request: Mapping[str, Any], timeout: float = TIMEOUT) -> dict[str, Any]:
    """Send a request to the peer that runs in a rank's folder, and return its answer.

    Args:
        folder: The rank's folder, or a run folder with one rank.
        request: {"ask": NAME, ...}, plain JSON values.
        timeout: Seconds to wait for the answer.

    Raises:
        NotRunning: No peer runs there.
        NoAnswer: It has not answered in time.
        ConfigurationError: The folder has no rank, or several; or the peer refuses the request, and says why.
    """
    rank = one_rank(folder)
    line = json.dumps(request).encode() + b"\n"
    try:
        with _connected(rank, timeout) as there:
            there.sendall(line)
            found = _read_line(there, time.monotonic() + timeout)
    except (FileNotFoundError, ConnectionError) as error:
        if not left(rank):
            raise NotRunning(f"the peer in {str(rank)!r} {_WITHOUT_SOCKET}: try again") from error
        raise NotRunning(f"no peer runs in {str(rank)!r}") from error
    except TimeoutError as error:
        raise NoAnswer(
            f"the peer in {str(rank)!r} has not answered within {timeout:g} s: see whether its process is stopped, or "
            "its host overloaded"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{str(rank)!r}: its peer cannot be asked: {error.strerror or error}") from error
    try:
        answer = json.loads(found)
    except ValueError as error:
        raise NotRunning(f"no peer runs in {str(rank)!r} any more: it ended before it answered") from error
    if "error" in answer:
        raise ConfigurationError(f"the peer in {str(rank)!r} refuses: {answer['error']}")
    return dict(answer)


@dataclass(frozen=True)
class Place:
    """A rank's folder, and the peer that runs there or has run there.

    Attributes:
        folder: The rank's.
        answer: The running peer's snapshot (`dpeer.peer.snapshot.Snapshot` as JSON); None where none answers.
        state: Why none does, and how the last run ended; empty for a running peer.
        completed: Rounds that are on disk; None if no round is.
        rounds: How many rounds the run has; None if it left no summary.
        saved_seconds: Age of the last checkpoint; None without one.
    """

    folder: Path
    answer: Mapping[str, Any] | None
    state: str = ""
    completed: int | None = None
    rounds: int | None = None
    saved_seconds: float | None = None

    @property
    def name(self) -> str:
        """The name of the rank's folder, such as "rank-3"."""
        return self.folder.name

    def as_json(self) -> dict[str, Any]:
        """Plain values: the snapshot, or the folder's state."""
        here = {"folder": str(self.folder), "running": self.answer is not None}
        if self.answer is not None:
            return here | dict(self.answer)
        return here | {
            "state": self.state, "completed": self.completed, "rounds": self.rounds,
            "checkpoint_seconds": self.saved_seconds,
        }  # fmt: skip


def look(runs: Iterable[Path], timeout: float = TIMEOUT) -> list[Place]:
    """The peers of run folders or of ranks' folders, in this order, those of a run by rank."""
    found = [folder for run in runs for folder in ranks_of(run)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:  # one that hangs holds up no other
        return list(threads.map(partial(_place, timeout=timeout), found))


def _place(folder: Path, timeout: float) -> Place:
    try:
        return Place(folder, ask(folder, {"ask": "status"}, timeout))
    except NoAnswer:
        state = f"runs, and does not answer within {timeout:g} s"
    except NotRunning:
        state = "does not run" if left(folder) else _WITHOUT_SOCKET
    except ConfigurationError as error:
        state = str(error)
    summary, completed = read_object(folder / SUMMARY), checkpoint.completed(folder)
    ended = summary.get("status")
    if state == "does not run" and isinstance(ended, str):
        state += f": {ended}"
    elif state == "does not run" and completed:
        state += ": killed, or failed; --resume goes on"
    saved = checkpoint.written_at(folder)
    return Place(
        folder, None, state, completed or None, whole(summary.get("rounds")),
        None if saved is None else max(0.0, time.time() - saved),
    )  # fmt: skip


def left(folder: Path) -> bool:
    """Whether no process holds a rank's folder any more, so that another peer can start there."""
    try:
        lock = (folder / LOCK).open("rb")
    except OSError:  # no peer has ever run there
        return True
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks, where no peer can start
            return True
    return True


def ranks_of(folder: Path) -> list[Path]:
    """A rank's folder itself, or those of all ranks in a run folder, by rank; any other folder is refused."""
    if not folder.is_dir():
        raise ConfigurationError(f"no folder {str(folder)!r} exists; name the --out of a run, or rank-R in it")
    if found := list(rank_folders(folder).values()):
        return found
    files = (METRICS, control.SOCKET, LOCK)
    if RANK.fullmatch(folder.resolve().name) or any((folder / name).exists() for name in files):
        return [folder]
    raise ConfigurationError(f"{str(folder)!r} holds no run: name the --out of a run, or rank-R in it")


def one_rank(folder: Path) -> Path:
    """The only rank's folder in a run folder, or the folder itself; several ranks are refused."""
    found = ranks_of(folder)
    if len(found) > 1:
        names = ", ".join(one.name for one in found[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
        raise ConfigurationError(f"{str(folder)!r} holds {len(found)} ranks: name one of {names}")
    return found[0]


def _connected(folder: Path, timeout: float) -> socket.socket:
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        there.settimeout(timeout)
        with control.socket_path(folder) as path:
            there.connect(path)
    except BaseException:
        there.close()
        raise
    return there


def _read_line(there: socket.socket, until: float) -> bytes:
    """A line of at most `control.LONGEST` bytes; a shorter part of one if the peer has ended."""
    found = bytearray()
    while not found.endswith(b"\n") and len(found) <= control.LONGEST:
        there.settimeout(max(until - time.monotonic(), 0.001))
        part = there.recv(65536)
        if not part:
            break
        found += part
    return bytes(found)
