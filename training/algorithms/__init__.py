"""Registry of algorithms by name, open to classes from outside."""

from __future__ import annotations

from collections.abc import Mapping

from dpeer.exceptions import UnknownName
from dpeer.plugins import source_hash
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.dfedavgm import DFedAvgM, DFedSAM, FedAvg, FedSAM, Local
from dpeer.training.algorithms.dfedmdc import DFedMDC, DFedSMDC, FedRep
from dpeer.training.algorithms.dis_pfl import DisPFL
from dpeer.training.algorithms.ditto import Ditto
from dpeer.training.algorithms.fafed import FAFED
from dpeer.training.algorithms.fedadamw import FedAdamW
from dpeer.training.algorithms.fedavg_ls import FedAvgLS
from dpeer.training.algorithms.fedlada import FedLADA
from dpeer.training.algorithms.fedopt import FedOpt
from dpeer.training.algorithms.fedper import FedBABU, FedPer, LocalAdamW
from dpeer.training.algorithms.fedrod import FedRoD
from dpeer.training.algorithms.options import make_options, option, shared_options
from dpeer.training.algorithms.plugins import check_algorithm, load_algorithm
from dpeer.training.algorithms.scaffold import Scaffold

_ALL: tuple[type[Algorithm], ...] = (
    Local,
    DFedAvgM,
    DFedSAM,
    DFedMDC,
    DFedSMDC,
    DisPFL,
    FedAvg,
    FedSAM,
    FedPer,
    FedRep,
    FedBABU,
    Ditto,
    FedRoD,
    LocalAdamW,
    FedAdamW,
    Scaffold,
    FedAvgLS,
    FedOpt,
    FAFED,
    FedLADA,
)

ALGORITHMS: Mapping[str, type[Algorithm]] = {algorithm.name: algorithm for algorithm in _ALL}
"""Every algorithm by its name; each peer has an instance of its own."""


def find_algorithm(algorithm: str | type[Algorithm]) -> type[Algorithm]:
    """Find an algorithm.

    Args:
        algorithm: The name of a built-in one, ``path/to/file.py:CLASS``, ``package.module:CLASS``, or a class.

    Raises:
        UnknownName: No built-in one has that name; the error names the nearest.
        AlgorithmError: A class cannot be imported or used as an algorithm.
    """
    if not isinstance(algorithm, str):
        return check_algorithm(algorithm, getattr(algorithm, "__name__", repr(algorithm)))
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    if ":" in algorithm or algorithm.endswith(".py"):
        return load_algorithm(algorithm)
    raise UnknownName("algorithm", algorithm, ALGORITHMS)


__all__ = [
    "ALGORITHMS", "Algorithm", "find_algorithm", "make_options", "option",
    "shared_options", "source_hash",
]  # fmt: skip
