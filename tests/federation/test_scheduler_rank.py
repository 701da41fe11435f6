"""The rank that a scheduler gives."""

import pytest

from dpeer.federation.scheduler_rank import own_rank, source


def slurm(monkeypatch: pytest.MonkeyPatch, **values: int | str) -> None:
    for name in ("PROCID", "NTASKS", "ARRAY_TASK_ID", "ARRAY_TASK_MAX", "ARRAY_TASK_COUNT"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))


def test_the_numbers_of_an_arrays_tasks_are_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number in range(4):
        slurm(monkeypatch, PROCID=0, NTASKS=1, ARRAY_TASK_ID=number, ARRAY_TASK_MAX=3, ARRAY_TASK_COUNT=4)
        found.append(own_rank("env"))
    assert found == [0, 1, 2, 3]
    assert source() == "SLURM_ARRAY_TASK_ID"
