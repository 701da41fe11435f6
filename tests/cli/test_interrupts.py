"""Ctrl-C before a run has begun and after it has ended: never a traceback."""

import signal
import subprocess
import sys

IMPORTING = """
import os, signal
from dpeer.cli.interrupts import ended_at_once
with ended_at_once():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        print("went on")
    except BaseException as error:  # as an import of a library may
        print("was raised")
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


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_while_libraries_are_imported_it_ends_the_process_at_once() -> None:
    ended = run(IMPORTING)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\ndpeer: interrupted\n")


def test_while_the_process_ends_it_says_nothing_more() -> None:
    ended = run(LEAVING)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
    assert "went on" not in ended.stdout
