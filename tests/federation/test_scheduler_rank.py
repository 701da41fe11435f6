"""The rank that a scheduler gives."""

import socket

import pytest

from dpeer.federation.scheduler_rank import own_rank, source


@pytest.mark.parametrize(
    ("variables", "rank", "of"),
    [
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "0"}, 3, "SLURM_ARRAY_TASK_ID"),
        ({"SLURM_PROCID": "2", "OMPI_COMM_WORLD_RANK": "0"}, 2, "SLURM_PROCID"),
        ({"OMPI_COMM_WORLD_RANK": "4"}, 4, "OMPI_COMM_WORLD_RANK"),
        ({}, 5, "the host name 'trainer-5'"),
    ],
)
def test_the_first_variable_that_is_set_counts_or_the_number_of_a_pod(
    variables: dict[str, str], rank: int, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: "trainer-5")
    assert (own_rank("env"), source()) == (rank, of)
