"""The rank of `dpeer start`: a number, or `env` for that of Slurm, Open MPI or a pod."""

from __future__ import annotations

import os
import re
import socket

from dpeer.exceptions import ConfigurationError

ENVIRONMENT = "env"
"""Said in place of a number: the rank is that of Slurm, Open MPI or a pod's name."""

_VARIABLES = ("SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""The first that is set counts: each task of a Slurm array is a job of its own, in which SLURM_PROCID begins at 0."""


def own_rank(text: str) -> int:
    """The rank that `--rank` says.

    Args:
        text: A number from 0, or `ENVIRONMENT`.

    Raises:
        ConfigurationError: It is neither, or the environment says no rank.
    """
    if text != ENVIRONMENT:
        return _number(text, "--rank")
    if (name := _variable()) is not None:
        return _number(os.environ[name], f"{name} =")
    ordinal = re.search(r"-(\d+)$", socket.gethostname())
    if ordinal:
        return int(ordinal[1])
    raise ConfigurationError(
        "--rank env: neither SLURM_PROCID nor OMPI_COMM_WORLD_RANK is set, and the host name does not end in -NUMBER"
    )


def source() -> str:
    """What `--rank env` takes the rank from: an environment variable, or the host name."""
    return _variable() or f"the host name {socket.gethostname()!r}"


def _variable() -> str | None:
    return next((name for name in _VARIABLES if name in os.environ), None)


def _number(text: str, source: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigurationError(f"{source} {text!r}: expected a number from 0, or `--rank env`")
    return int(text)
