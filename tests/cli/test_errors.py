"""Errors beyond a refused command line: what an earlier run keeps, damage, --debug, and the real process."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

SMALL = ("--size", 2, "--body-epochs", 1, "--task", "mine.py:task")


@pytest.fixture
def broken_task(small_task: Path) -> Path:
    """`mine.py:task` with a loss that fails, and with `mine.py:raising`."""
    raising = 'def raising(rank, size, seed):\n    raise FileNotFoundError("no scans")\n'
    small_task.write_text(
        small_task.read_text().replace('head=("fc",)', 'loss=lambda out, y: out.undefined, head=("fc",)') + raising
    )
    return small_task


def test_a_loss_that_fails_in_the_first_round_is_one_line(dpeer: Command, broken_task: Path) -> None:
    ended = dpeer("simulate", *SMALL)
    (line,) = ended.complaints
    assert (ended.code, ended.out) == (2, "")
    assert "the task's loss failed on a training batch: AttributeError" in line


def test_too_many_open_files_are_no_damage(dpeer: Command, small_task: Path) -> None:
    with small_task.open("a") as file:
        file.write("def files(rank, size, seed):\n    raise OSError(24, 'Too many open files', 'x.png')\n")
    ended = dpeer("simulate", "--size", 2, "--task", "mine.py:files")
    assert ended.complaints[-1].startswith("dpeer: too many open files: allow more with `ulimit -n 65536`")


def test_a_command_may_open_as_many_files_as_the_hard_limit_says() -> None:
    script = (
        "import resource as r, sys; from dpeer.cli.main import main; hard = r.getrlimit(r.RLIMIT_NOFILE)[1]\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (64, hard)); sys.argv = ['dpeer', '--version']\n"
        "try:\n    main()\nfinally:\n    print(r.getrlimit(r.RLIMIT_NOFILE)[0] == hard)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split()[-1] == "True"


def test_a_port_in_use_is_named(dpeer: Command, small_task: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = min(server.getsockname()[1], 65534)
        ended = dpeer("start", "--rank", 0, "--base-port", port, *SMALL)
    assert ended.code == 75
    assert f"'tcp://127.0.0.1:{port}' is in use" in ended.complaints[-1]


def test_debug_shows_the_traceback_wherever_it_stands(dpeer: Command, broken_task: Path) -> None:
    command = ("simulate", "--size", 2, "--task", "mine.py:raising")
    for arguments in (("--debug", *command), (*command, "--debug")):
        ended = dpeer(*arguments)
        assert ended.code == 2
        assert "Traceback (most recent call last)" in ended.err
        assert 'raise FileNotFoundError("no scans' in ended.err
        assert ended.err.splitlines()[-1].startswith("dpeer: rank 0: task 'mine.py:raising' failed")


def test_a_bug_is_one_line_too_and_its_code_is_one(dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("dpeer.cli.simulate.run_simulation", broken)
    ended = dpeer("simulate")
    assert ended.code == 1
    assert ended.complaints == ["dpeer: unexpected ZeroDivisionError: division by zero (--debug shows where)"]


def test_help_and_version_are_no_errors(dpeer: Command) -> None:
    for arguments in (("--help",), ("start", "--help"), ("cluster", "-h"), ("simulate", "-h"), ("topology", "-h")):
        ended = dpeer(*arguments)
        assert (ended.code, ended.err) == (0, "")
        assert "Usage: dpeer" in ended.out
    assert dpeer("--version").out.startswith("dpeer, version ")
    bare = dpeer()
    assert bare.code == 2
    assert "Commands:" in bare.err
