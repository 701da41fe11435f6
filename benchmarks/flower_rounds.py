"""Flower as a contestant of `wide_area.py`: a SuperLink, a SuperNode for each peer, and the app of `flower_app.py`.

They are the programs that Flower's documentation deploys, in their default isolation, without TLS: a process for each
message, which its SuperNode asks for every 3 seconds. The last host of a case is the server's. The programs come from
any environment, since flwr pins libraries that dpeer needs in other versions:

    python -m venv flower && flower/bin/pip install -r benchmarks/flower-requirements.txt
    python benchmarks/wide_area.py --flower flower/bin/python
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from fleet import Case, Figures, Introduce
from link_emulator import free_ports

_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_GRACE = 10.0
"""Seconds that the programs have to end."""

_APP = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "rounds"
version = "1.0.0"
description = "Rounds of a body."
license = "Apache-2.0"
dependencies = ["flwr", "numpy"]

[tool.flwr.app]
publisher = "benchmarks"

[tool.flwr.app.components]
serverapp = "flower_app:app"
clientapp = "flower_app:client"

[tool.flwr.app.config]
size = {size}
rounds = {rounds}
parameters = {parameters}
train = {train}
out = "{out}"
"""

_HOME = """
[superlink]
default = "benchmark"

[superlink.benchmark]
address = "{address}"
insecure = true
"""


def installed(python: str | Path) -> str | None:
    """The version of flwr that this interpreter has; None without one."""
    code = "import importlib.metadata as m; print(m.version('flwr'))"
    try:
        ended = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return ended.stdout.strip() or None


def flower(rank: int, case: Case, introduce: Introduce) -> Figures:
    """A SuperNode, or as the last rank the SuperLink and the run.

    Options: `python`, the interpreter that has flwr; `folder`, which all ranks share; `sleeps`, seconds of training.

    Raises:
        RuntimeError: One of the programs ended.
    """
    server = case.size - 1
    ended = Path(case.options["folder"]) / "ended.json"
    (port,) = free_ports(1, case.lines.host(rank))
    ports = introduce(port)
    with tempfile.TemporaryDirectory(prefix="dpeer-bench-") as name, _programs(case, Path(name)) as start:
        if rank == server:
            address = f"{case.lines.host(server)}:{port}"
            host, _, _ = address.partition(":")
            link = start("flower-superlink", "--insecure", "--host", host, "--port", str(port),
                         "--disable-runtime-dependency-installation")  # fmt: skip
            _listens(host, port, link)
            app = _app(case, Path(name), address, ended)
            if start("flwr", "run", str(app), "benchmark").wait() != 0:
                raise RuntimeError(f"flwr run failed: {_log(Path(name))}")
            running = [link]
        else:
            host, reached = case.lines.reach(rank, server, ports[server])
            running = [start("flower-supernode", "--insecure", "--superlink", f"{host}:{reached}", "--port", str(port))]
        while not ended.exists() or not (text := ended.read_text()):
            if any(program.poll() is not None for program in running):
                raise RuntimeError(f"a Flower program ended: {_log(Path(name))}")
            time.sleep(0.2)
    times = json.loads(text)
    seconds = tuple(after - before for before, after in pairwise(times))
    seconds = seconds[case.warm_up - 1 : len(seconds) - case.cool_down]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (used.ru_utime + used.ru_stime) * len(seconds) / len(times)
    return Figures(sum(seconds), spent, 4 * case.parameters * len(seconds), seconds)


def _app(case: Case, folder: Path, address: str, ended: Path) -> Path:
    """The app, as a folder, and the address that `flwr` finds in its own."""
    app = folder / "app"
    app.mkdir()
    shutil.copy(Path(__file__).with_name("flower_app.py"), app)
    (app / "pyproject.toml").write_text(_APP.format(
        size=case.size - 1, rounds=case.all_rounds, parameters=case.parameters,
        train=float(case.options.get("sleeps", 0.0)), out=ended,
    ))  # fmt: skip
    (folder / "config.toml").write_text(_HOME.format(address=address))
    return app


class _Programs:
    """Starts programs of the environment that has flwr, with a folder of their own."""

    def __init__(self, case: Case, folder: Path) -> None:
        programs = str(Path(case.options["python"]).absolute().parent)
        self._environment = os.environ | {
            "FLWR_HOME": str(folder), "PATH": programs + os.pathsep + os.environ["PATH"], "NO_PROXY": "*",
            "no_proxy": "*", "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self._programs, self._log = programs, folder / "log"

    def __call__(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command: Sequence[str] = [str(Path(self._programs) / name), *arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)


@contextmanager
def _programs(case: Case, folder: Path) -> Iterator[_Programs]:
    """What starts programs; ends them afterwards, and those that they have started."""
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    try:
        yield _Programs(case, folder)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + _GRACE
            while (children := _children()) and time.monotonic() < until:
                for child in children:
                    os.kill(child, number)
                time.sleep(0.5)
                _reap()


def _children() -> list[int]:
    """Processes that this one has started, and those of them that it has adopted."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(child) for child in found.split()]


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _listens(host: str, port: int, link: subprocess.Popen[bytes]) -> None:
    """Wait until the SuperLink can be dialled."""
    while link.poll() is None:
        try:
            socket.create_connection((host, port)).close()
        except OSError:
            time.sleep(0.2)
        else:
            return


def _log(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")[-2000:]
