"""Child process of `chaos`: a session of its own, its output in a file, and `dpeer` with the given arguments."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Sequence


def run(arguments: Sequence[str], output: str) -> None:
    """Run the command `dpeer` with these arguments in a session of its own, and append what it prints to a file."""
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    sys.argv = ["dpeer", *arguments]
    runpy.run_module("dpeer", run_name="__main__")
