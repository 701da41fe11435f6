"""Ctrl-C before a run has begun and after it has ended: never a traceback."""

import signal
import subprocess
import sys

import pytest

IMPORTING = """
import os, signal
from dpeer.cli.terminal import ended_at_once
with ended_at_once():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        print("went on")
    except BaseException as error:  # as an import of a library may
        print("was raised")
"""

ANSWERING = """
import sys
from dpeer.cli import main
def interrupted_again(*arguments, **given):
    raise KeyboardInterrupt  # as click's own answer to the first one may
sys.modules["dpeer.cli.main"].group.main = interrupted_again
sys.argv = ["dpeer", "--version"]
main()
"""

LEAVING = """
import atexit, os, signal
@atexit.register
def late():
    os.kill(os.getpid(), signal.SIGINT)
    print("went on")
from dpeer.cli import main
import sys
sys.argv = ["dpeer", "--version"]
main()
"""


@pytest.mark.parametrize(
    ("program", "code", "err"),
    [
        pytest.param(IMPORTING, 130, "\ndpeer: interrupted\n", id="while libraries are imported"),
        pytest.param(ANSWERING, 130, "dpeer: interrupted\n", id="while another one is answered"),
        pytest.param(LEAVING, -signal.SIGINT, "", id="while the process ends"),
    ],
)
def test_ctrl_c_ends_the_process_at_once(program: str, code: int, err: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (code, err)
    assert "went on" not in ended.stdout
    assert "was raised" not in ended.stdout
