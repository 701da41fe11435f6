"""Killed at any moment, a peer has charged every step that it has taken; gone on with, it pays for what it repeats."""

import json
import signal
from pathlib import Path

import pytest

from dpeer.privacy import Charge
from dpeer.privacy.accounting import total_epsilon

pytestmark = pytest.mark.slow

COUNTED = '''
"""The small task; each noised gradient that a peer gets leaves a byte in a file, before the peer has it."""

import os

import small
from dpeer.privacy.mechanism import ClippedSum

released = ClippedSum.released


def counted(self, total, threads=1):
    file = os.open("taken", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b".")
    os.close(file)
    return released(self, total, threads)


ClippedSum.released = counted


def task(rank, size, seed):
    return small.task(rank, size, seed)
'''

ROUNDS = 9
OPTIONS = (
    "--size", 2, "--task", "counted.py:task", "--rounds", ROUNDS, "--privacy", "sample", "--batch-size", 1,
    "--noise-multiplier", 4, "--target-epsilon", 4, "--records", 10, "--checkpoint-every", 3, "--finish", "none",
)  # fmt: skip


def charges(folder: Path) -> list[Charge]:
    """Of the run, and of those before it in the folder, whose ledgers were put aside."""
    found = []
    for path in (folder / "privacy").glob("ledger*.jsonl"):
        whole = path.read_text().rpartition("\n")[0]
        found += [Charge(**line["charge"]) for line in map(json.loads, whole.splitlines()[1:])]
    return found


@pytest.mark.parametrize("head", ["joint", pytest.param("alternate", marks=pytest.mark.long)])
def test_the_ledger_is_never_behind_the_steps(head, task, dpeer_process, until, tmp_path):
    (tmp_path / "counted.py").write_text(COUNTED)

    def taken() -> int:
        return (tmp_path / "taken").stat().st_size if (tmp_path / "taken").exists() else 0

    def charged() -> int:
        return sum(charge.steps for rank in range(2) for charge in charges(tmp_path / "run" / f"rank-{rank}"))

    again: tuple[str, ...] = ()
    for more in (30, 90, 100):
        before = taken()
        run = dpeer_process("simulate", *OPTIONS, "--dp-head", head, "--out", "run", *again)
        until(lambda before=before, more=more: taken() >= before + more)
        run.signal(signal.SIGKILL)
        run.wait()
        assert taken() <= charged() <= taken() + 3 * 2 * 64, "at most what is charged together is charged in vain"
        again = ("--resume",)
    dpeer_process("simulate", *OPTIONS, "--dp-head", head, "--out", "run", *again).succeed()
    assert taken() <= charged()
    for rank in range(2):
        folder = tmp_path / "run" / f"rank-{rank}"
        spent = json.loads((folder / "summary.json").read_text())["privacy"]
        own = charges(folder)
        assert spent["steps"] + spent.get("earlier_steps", 0) == sum(charge.steps for charge in own)
        assert spent["epsilon"] == pytest.approx(total_epsilon(own, spent["delta"]), rel=1e-6)
        assert spent["epsilon"] <= 4
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [line["round"] for line in lines] == list(range(ROUNDS))
        assert [line["epsilon"] for line in lines] == sorted(line["epsilon"] for line in lines)
