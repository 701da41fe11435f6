"""The parent of `dpeer cluster`: forks peers off a server that has torch, lets them begin, relays their reports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dpeer.federation import cluster_child
from dpeer.federation.keys import keyrings
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS
from dpeer.federation.view import View
from dpeer.results.files import DISAGREEMENT
from dpeer.training import BUILTIN_TASKS
from dpeer.training.models import MODELS

_LONGEST_FOLDER = 60
"""The longest folder in bytes for sockets: macOS allows 103 in all, and multiprocessing adds up to 32."""


def start(process: BaseProcess) -> None:
    """Start a process, `without_main`."""
    with without_main():
        process.start()


@contextmanager
def without_main() -> Iterator[None]:
    """Processes started within it do not import the caller's script: without a main guard they would run it again."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


def server_context(libraries: Collection[str] = ()) -> ForkServerContext | SpawnContext:
    """Fork from a server that has torch and these libraries in memory; spawn where forking is unsafe (macOS)."""
    if sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    # dpeer's comes last: it hides what has been imported from the garbage collector.
    server.set_forkserver_preload([*libraries, "dpeer.federation.preload"])
    # (It would be started by the fork server's start, and unblock the signals.)
    resource_tracker.ensure_running()
    # What is started inherits that stop signals are not for it, from its first instruction on; for this process
    # they are only late.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        with _short_folder():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return server


def socket_folder() -> str:
    """A folder for temporary files whose name is short enough for sockets in it, whatever TMPDIR is."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(Path(usual).absolute())) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp's


@contextmanager
def _short_folder() -> Iterator[None]:
    """Multiprocessing makes its socket in such a folder."""
    before, tempfile.tempdir = tempfile.tempdir, socket_folder()
    try:
        yield
    finally:
        tempfile.tempdir = before


PRIVATE = ("dp_accounting.pld", "torch.fx.experimental.symbolic_shapes")
"""What each peer with privacy at sample level imports besides, which takes it half a second."""

_LONGEST = 2**30
"""The most bytes of a line that a peer writes: its last error's traceback, say."""


@dataclass
class Member:
    """One peer's process, and what it has reported."""

    rank: int
    process: BaseProcess
    end: socket.socket
    """Of the pair whose other end it has: it reads what is written here."""
    lines: asyncio.StreamReader
    """What it writes."""
    writer: asyncio.StreamWriter
    """Closes the socket."""
    status: str = "starting"
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    traceback: str = ""
    exit_code: int | None = None


class Launcher:
    """A federation of processes on this machine."""

    loop_factory = None
    status = None

    def __init__(self, settings: Settings, view: View, *, resume: bool, encrypt: bool = False) -> None:
        self.first_failure: Member | None = None
        self._settings, self._view, self._resume = settings, view, resume
        self._keyrings = keyrings(settings.size) if encrypt else [None] * settings.size
        self._members: list[Member] = []
        self._stopping = False
        self._listening: set[int] = set()
        self._connected: set[int] = set()

    async def run(self) -> list[Member]:
        """Start every peer and wait until the last one has ended."""
        builtin = BUILTIN_TASKS.get(self._settings.task)
        model = MODELS.get(self._settings.model or (builtin.model if builtin else ""))
        libraries = [model.module] if model and model.library else []
        if self._settings.task == "digits":
            libraries.append("sklearn.datasets")  # the digits are in it
        if self._settings.lora is not None:
            libraries.append("peft")
        if self._settings.privacy == "sample":
            libraries += PRIVATE
        context = server_context(libraries)
        where = socket_folder()
        with tempfile.TemporaryDirectory(prefix="dpeer-", dir=where, ignore_cleanup_errors=True) as folder:
            places = {rank: f"ipc://{folder}/{rank}" for rank in range(self._settings.size)}
            try:
                for rank in places:
                    if self._stopping:
                        break
                    self._members.append(await self._start(context, rank, places))
                if self._stopping:
                    self._ask_all()  # those that were being started when it was asked for
                await asyncio.gather(*map(self.relay, self._members))
                return self._members
            finally:
                self.kill()
                for member in self._members:  # until then it holds its folder
                    await asyncio.to_thread(member.process.join)

    def stop(self) -> None:
        """Stop all peers after their current minibatch."""
        self._stopping = True
        self._ask_all()

    def kill(self) -> None:
        """End all peers at once; what they have completed is on disk."""
        for member in self._members:
            if member.exit_code is None:
                member.process.kill()

    @property
    def connected(self) -> bool:
        """Whether every peer has met its neighbors, so that rounds have begun."""
        return self._connected >= {*range(self._settings.size)}

    async def _start(self, context: ForkServerContext | SpawnContext, rank: int, places: dict[int, str]) -> Member:
        own = self._settings.of_rank(rank)
        own = own.model_copy(update={"threads": own.threads or 1, "out": self._settings.out, "rank": {}})
        ours, theirs = socket.socketpair()
        # The fork server's environment and folder are those of the first run of this process.
        arguments = (
            own.model_dump(exclude_unset=True), rank, self._resume, theirs, dict(os.environ),
            str(Path.cwd()), self._keyrings[rank], places,
        )  # fmt: skip
        process = context.Process(target=cluster_child.main, args=arguments, name=f"dpeer-rank-{rank}")
        # The first start waits for the fork server to import torch: not on the event loop, which hears Ctrl-C.
        await asyncio.to_thread(start, process)
        theirs.close()
        lines, writer = await asyncio.open_unix_connection(sock=ours, limit=_LONGEST)
        return Member(rank, process, ours, lines, writer)

    async def relay(self, member: Member) -> None:
        """Show what a peer reports, until it ends."""
        while line := await _next_line(member.lines):
            message = json.loads(line)
            match message["kind"]:
                case "listening":
                    member.status = "running"
                    self._listening.add(member.rank)
                    if self._listening == {*range(self._settings.size)}:
                        self._begin_all()
                case "notes":
                    member.notes = message["notes"]
                case "connected":
                    self._connected.add(member.rank)
                    if self.connected:
                        if not self._resume:  # an earlier simulation's, which no process of these would replace
                            (self._settings.out / DISAGREEMENT).unlink(missing_ok=True)
                        self._view.notes(self._members[0].notes)
                case "end":
                    member.status = message["status"]
                case "error":
                    member.error, member.traceback = message["message"], message["traceback"]
                case _:
                    self._view.take(member.rank, message)
        await asyncio.to_thread(member.process.join)
        member.writer.close()
        self._conclude(member)

    def _conclude(self, member: Member) -> None:
        code = member.process.exitcode or 0
        if code < 0:
            member.error = f"was killed by {signal.Signals(-code).name}"
            code = 1
        member.exit_code = code
        if code:
            member.status = "failed"
            self.first_failure = self.first_failure or member
            # Before all are connected no peer can go on without it; later the others can, and report the loss.
            if not self.connected and not self._stopping:
                self.stop()
        self._view.status(member.rank, member.status)

    def _begin_all(self) -> None:
        for member in self._members:
            with contextlib.suppress(OSError):  # it has ended; what it wrote is still read
                member.end.send(b"\n")

    def _ask_all(self) -> None:
        for member in self._members:
            with contextlib.suppress(OSError):
                member.end.shutdown(socket.SHUT_WR)


async def _next_line(lines: asyncio.StreamReader) -> bytes:
    """The next whole line; empty at the end, which a killed peer may have cut."""
    try:
        line = await lines.readline()
    except ConnectionError:
        return b""
    return line if line.endswith(b"\n") else b""
