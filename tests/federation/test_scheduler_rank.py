"""The rank that a scheduler gives."""

import pytest

from dpeer.federation.scheduler_rank import own_rank, source


def slurm(monkeypatch: pytest.MonkeyPatch, **values: int | str) -> None:
    for name in ("PROCID", "NTASKS", *(f"ARRAY_TASK_{key}" for key in ("ID", "MIN", "MAX", "STEP", "COUNT"))):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))


@pytest.mark.parametrize(("numbers", "step"), [(range(4), 1), (range(1, 5), 1), (range(1, 9, 2), 2)])
def test_the_tasks_of_an_array_have_the_ranks_from_0(
    monkeypatch: pytest.MonkeyPatch, numbers: range, step: int
) -> None:
    found = []
    for number in numbers:
        slurm(
            monkeypatch, PROCID=0, NTASKS=1, ARRAY_TASK_ID=number, ARRAY_TASK_MIN=numbers[0],
            ARRAY_TASK_MAX=numbers[-1], ARRAY_TASK_STEP=step, ARRAY_TASK_COUNT=4,
        )  # fmt: skip
        found.append(own_rank("env"))
    assert found == [0, 1, 2, 3]
    assert source() == "SLURM_ARRAY_TASK_ID"
