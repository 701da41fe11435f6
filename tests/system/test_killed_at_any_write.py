"""Killed, or out of disk, where it opens, renames or removes a file: the run goes on after it."""

import json
import signal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3
ROUNDS = 5
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)

ENDING = '''
"""The small task; the process is killed, or its disk full, when it has changed so many names in the ranks' folders."""

import errno
import itertools
import os
import signal
import sys

import small

WRITES = os.O_WRONLY | os.O_RDWR


def task(rank, size, seed, how="killed", after=None, **options):
    if after is not None and rank == 0:
        numbers = itertools.count()

        def hook(event, arguments):
            opens = event == "open" and isinstance(arguments[0], (str, os.PathLike)) and (arguments[2] or 0) & WRITES
            if not (opens or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")):
                return
            path = str(arguments[0])
            if "rank-" not in path or path.endswith("log.jsonl") or next(numbers) < after:
                return
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif opens or event == "os.mkdir":
                raise OSError(errno.ENOSPC, "No space left on device", path)

        sys.addaudithook(hook)
    return small.task(rank, size, seed, **options)
'''


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()] if path.exists() else []


QUICK = [
    (74, True, "full", 1),
    (202, False, "killed", 1),
    (202, True, "killed", 3),
    (298, False, "full", 3),
    (298, True, "killed", 1),
]


@pytest.mark.parametrize(
    "case", only(QUICK, [*QUICK, *product(range(10, 400, 48), [False, True], ["killed", "full"], [1])])
)
def test_after_any_write_it_goes_on_with_the_same_bits_and_sends_what_it_has_charged(
    case, task, schedule, dpeer_process, simulate, results, tmp_path
):
    after, private, how, every = case
    (tmp_path / "ending.py").write_text(ENDING)
    options = ("--size", SIZE, "--task", "ending.py:task", *schedule, "--rounds", ROUNDS, "--seed", 3, "--alone",
               "never", "--checkpoint-every", every, *(PRIVATE if private else ()))  # fmt: skip
    run = dpeer_process("simulate", *options, "--task-option", f"how={how}", "--task-option", f"after={after}",
                        "--out", "run")  # fmt: skip
    code = run.wait()
    assert "Traceback" not in run.output
    assert code in ((-signal.SIGKILL, 0) if how == "killed" else (75, 0))
    ranks = [tmp_path / "run" / f"rank-{rank}" for rank in range(SIZE)]
    charged = [lines(one / "privacy" / "ledger.jsonl")[1:] for one in ranks]
    if code != 0:
        simulate(*options, "--out", "run", "--resume")
    for one, before in zip(ranks, charged, strict=True):
        log = (one / "log.jsonl").read_text()
        assert "second, different body" not in log
        assert [line["missed"] for line in lines(one / "metrics.jsonl")] == [[]] * ROUNDS
        if private:
            ledger = lines(one / "privacy" / "ledger.jsonl")[1:]
            assert ledger[: len(before)] == before
            assert [line["round"] for line in ledger] == list(range(ROUNDS)), "no round twice, and none is silent"
    if not private:
        simulate(*options, "--out", "whole")
        assert results("run", SIZE) == results("whole", SIZE)
