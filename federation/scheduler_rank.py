"""The rank of `dpeer start`: a number, or `env` for that of Slurm, Open MPI or a pod."""

from __future__ import annotations

import os
import re
import socket

from dpeer.exceptions import ConfigurationError

ENVIRONMENT = "env"
"""Said in place of a number: the rank is that of Slurm, Open MPI or a pod's name."""


_VARIABLES = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def own_rank(text: str) -> int:
    """The rank that `--rank` says.

    Args:
        text: A number from 0, or `ENVIRONMENT`.

    Raises:
        ConfigurationError: It is neither, or the environment says no rank.
    """
    return _from_environment() if text == ENVIRONMENT else _number(text, "--rank")


def source() -> str:
    """What `--rank env` takes the rank from: an environment variable, or the host name."""
    names = ("SLURM_ARRAY_TASK_ID", *_VARIABLES)
    return next((name for name in names if name in os.environ), f"the host name {socket.gethostname()!r}")


def _number(text: str, source: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigurationError(f"{source} {text!r}: expected a number from 0, or `--rank env`")
    return int(text)


def _from_environment() -> int:
    if "SLURM_ARRAY_TASK_ID" in os.environ:
        return _of_array()
    for name in _VARIABLES:
        if name in os.environ:
            return _number(os.environ[name], f"{name} =")
    ordinal = re.search(r"-(\d+)$", socket.gethostname())
    if ordinal:
        return int(ordinal[1])
    raise ConfigurationError(
        "--rank env: neither SLURM_PROCID nor OMPI_COMM_WORLD_RANK is set, and the host name does not end in -NUMBER"
    )


def _of_array() -> int:
    """The place of a Slurm array's task: each task is a job of its own, in which SLURM_PROCID begins at 0."""
    task = _number(os.environ["SLURM_ARRAY_TASK_ID"], "SLURM_ARRAY_TASK_ID =")
    process, processes = os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_NTASKS", "1")
    if process != "0" or processes != "1":
        raise ConfigurationError(
            f"--rank env: both SLURM_ARRAY_TASK_ID = {task} and SLURM_PROCID = {process} of {processes} could be the "
            "rank: write --rank $SLURM_PROCID or --rank $SLURM_ARRAY_TASK_ID"
        )
    last = _of_environment("MAX", task)
    if (count := _of_environment("COUNT", last + 1)) != last + 1:
        raise ConfigurationError(
            f"--rank env: SLURM_ARRAY_TASK_MAX = {last} of {count} numbers: submit the array with --array=0-{count - 1}"
        )
    return task


def _of_environment(name: str, default: int) -> int:
    key = f"SLURM_ARRAY_TASK_{name}"
    return _number(os.environ.get(key, str(default)), f"{key} =")
