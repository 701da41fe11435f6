"""Which rank this host has: a number that somebody says, or what a scheduler has given it."""

from __future__ import annotations

import os
import re
import socket

from dpeer.exceptions import ConfigurationError

ENVIRONMENT = "env"
"""Said in place of a number: the rank is that of Slurm, Open MPI or a pod's name."""


def own_rank(text: str) -> int:
    """The rank that `--rank` says.

    Args:
        text: A number from 0, or `ENVIRONMENT`.

    Raises:
        ConfigurationError: It is neither, or the environment says no rank.
    """
    return _from_environment() if text == ENVIRONMENT else _number(text, "--rank")


def _number(text: str, source: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigurationError(f"{source} {text!r}: expected a number from 0, or `--rank env`")
    return int(text)


def _from_environment() -> int:
    for name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            return _number(os.environ[name], f"{name} =")
    ordinal = re.search(r"-(\d+)$", socket.gethostname())
    if ordinal:
        return int(ordinal[1])
    raise ConfigurationError(
        "--rank env: neither SLURM_PROCID nor OMPI_COMM_WORLD_RANK is set, and the host name does not end in -NUMBER"
    )
