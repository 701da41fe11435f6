"""Real `dpeer` processes: started, watched, and never left behind."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Protocol

import pytest

from dpeer.federation import launcher
from tests.runs import words_of

DEADLINE = 240.0
"""Seconds that no machine is too busy for; nothing takes so long that goes well."""
COMMAND = ("-m", "dpeer")


FORKED = """
import os, signal, sys
os.setsid()
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.dup2(output, 1)
os.dup2(output, 2)
os.close(output)
sys.argv = [program or "dpeer", *arguments]
sys.path.insert(0, os.path.dirname(program) if program else "")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
from multiprocessing import forkserver
forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None
if program:
    import runpy
    runpy.run_path(program, run_name="__main__")
else:
    from dpeer.cli import main
    main(arguments)
"""
"""What `python -m dpeer` or `python PROGRAM` does, in a process that has torch in memory already."""


class Running(Protocol):
    """A process that has been started."""

    pid: int

    def poll(self) -> int | None:
        """The exit code; None while it runs."""

    def wait(self, seconds: float) -> int | None:
        """Wait for so long for the exit code; None if it still runs."""


class Executed:
    """A Python program, started as a shell starts it."""

    def __init__(self, words: Sequence[str], folder: Path, log: Path) -> None:
        with log.open("wb") as file:
            self._popen = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid, self.poll = self._popen.pid, self._popen.poll

    def wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None


class Forked:
    """`dpeer ARGUMENTS`, or `python PROGRAM ARGUMENTS`, in a process forked from the server of a cluster's peers.

    It is there at once: to bring torch into memory takes longer than most tests. The peers of its own cluster come from
    the same server, and so are not of its session.
    """

    def __init__(self, program: str | None, arguments: list[str], folder: Path, log: Path) -> None:
        context = launcher.server_context(launcher.PRIVATE)
        given = {
            "program": program, "arguments": arguments, "folder": str(folder), "log": str(log),
            "environment": dict(os.environ), "__name__": "forked",
        }  # fmt: skip
        self._process = context.Process(target=exec, args=(FORKED, given))
        launcher.start(self._process)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float) -> int | None:
        self._process.join(seconds)
        return self._process.exitcode


class Process:
    """A command in a session of its own, so that it can be ended with what it has started."""

    def __init__(self, running: Running, log: Path) -> None:
        self._running, self._log = running, log
        self.pid = running.pid

    @property
    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def code(self) -> int | None:
        return self._running.poll()

    def wait(self, seconds: float = DEADLINE) -> int:
        """The exit code."""
        if (code := self._running.wait(seconds)) is None:
            raise AssertionError(f"still running after {seconds:g} s:\n{self.output}")
        return code

    def succeed(self, seconds: float = DEADLINE) -> str:
        """Wait for exit code 0; returns what was printed."""
        assert self.wait(seconds) == 0, self.output
        assert "Traceback" not in self.output
        return self.output

    def signal(self, number: signal.Signals) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def offspring(self) -> list[int]:
        """Living processes of this one's session, itself excluded (Linux)."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.pid != int(entry.name) and state not in "ZX":
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        # The session's processes are in one group of the leader's id; it can outlive the leader.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._running.wait(DEADLINE)


@pytest.fixture
def processes():
    """What the test has started; whatever still runs when it ends is killed."""
    started: list[Process] = []
    yield started
    for process in started:
        process.end()


@pytest.fixture
def until(processes):
    """Wait until a condition holds; returns what it gave."""

    def poll(condition: Callable[[], Any], seconds: float = DEADLINE) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise AssertionError("waited in vain:\n" + "\n".join(process.output for process in processes))
            time.sleep(0.02)
        return found

    return poll


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    """The test's own process trains as the commands do."""


@pytest.fixture
def dpeer_process(tmp_path, processes):
    """Start `dpeer ARGUMENTS` in tmp_path, or `python PROGRAM ARGUMENTS`; `executed` as a shell starts it."""

    def run(*arguments: object, program: str | None = None, executed: bool = False) -> Process:
        log = tmp_path / f"output-{len(processes)}.txt"
        words = words_of(arguments)
        if executed or sys.platform == "darwin":
            running: Running = Executed([*((program,) if program else COMMAND), *words], tmp_path, log)
        else:
            running = Forked(program, words, tmp_path, log)
        processes.append(Process(running, log))
        return processes[-1]

    return run


@pytest.fixture
def dpeer_command(dpeer_process):
    """Start `dpeer ARGUMENTS` in tmp_path as a shell starts it; whatever it starts is of its session."""
    return partial(dpeer_process, executed=True)


@pytest.fixture
def forked(tmp_path):
    """Which processes live that `dpeer` has forked for the test, and those that they have forked in turn (Linux)."""

    def find() -> list[int]:
        server = forkserver._forkserver._forkserver_pid
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == server and state not in "ZX" and (entry / "cwd").readlink() == tmp_path:
                    found.append(int(entry.name))
        return found

    return find


@pytest.fixture
def meanwhile(until):
    """Do something once a condition holds, while the block runs."""

    @contextlib.contextmanager
    def act(condition: Callable[[], object], action: Callable[[], object], seconds: float = DEADLINE) -> Iterator[None]:
        def wait() -> None:
            until(condition, seconds)
            action()

        waiting = threading.Thread(target=wait)
        waiting.start()
        yield
        waiting.join()

    return act


@pytest.fixture
def interrupt():
    """What Ctrl-C does to this process: `dpeer` has its handlers in the main thread while it runs."""
    return partial(os.kill, os.getpid(), signal.SIGINT)


@pytest.fixture
def slow_after():
    """Options that make every round from this one on take six seconds, until the test lets the peers `hurry`.

    So long that what a test does in the middle of a run is done there on a busy machine too.
    """

    def options(rounds: int) -> tuple[str, ...]:
        return ("--task-option", f"fast={60 * rounds}", "--task-option", "pause=0.1")

    return options


@pytest.fixture
def hurry(tmp_path):
    """What `slow_after` has made slow is fast from now on."""
    return (tmp_path / "hurry").touch


@pytest.fixture
def rounds_done(tmp_path):
    """How many lines a rank's metrics.jsonl has."""

    def count(out: str, rank: int = 0) -> int:
        path = tmp_path / out / f"rank-{rank}" / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    return count


@pytest.fixture
def free_ports():
    """The first of some consecutive ports that are free.

    Below the range from which systems take ports for outgoing connections, lest one of those gets there first; and
    of the part that this process of pytest has to itself, lest another one binds them before the test does.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    part = range(20000, 32000)[worker % 8 * 1500 :][:1400]  # the ports from its last one on are its own, too

    def find(count: int) -> int:
        for _ in range(200):
            base = random.choice(part)
            with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
                for port in range(base, base + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return base
        raise AssertionError("no free ports")

    return find
