"""The algorithms, by the name that ``--algorithm`` takes."""

from __future__ import annotations

from collections.abc import Mapping

from dpeer.exceptions import UnknownName
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.dfedavgm import DFedAvgM
from dpeer.training.algorithms.dfedmdc import DFedMDC
from dpeer.training.algorithms.dfedsam import DFedSAM
from dpeer.training.algorithms.dfedsmdc import DFedSMDC
from dpeer.training.algorithms.dis_pfl import DisPFL
from dpeer.training.algorithms.ditto import Ditto
from dpeer.training.algorithms.fedavg import FedAvg
from dpeer.training.algorithms.fedbabu import FedBABU
from dpeer.training.algorithms.fedper import FedPer
from dpeer.training.algorithms.fedrep import FedRep
from dpeer.training.algorithms.fedrod import FedRoD
from dpeer.training.algorithms.fedsam import FedSAM
from dpeer.training.algorithms.local import Local

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
)

ALGORITHMS: Mapping[str, type[Algorithm]] = {algorithm.name: algorithm for algorithm in _ALL}
"""Every algorithm by its name; each peer has an instance of its own."""


def find_algorithm(name: str) -> type[Algorithm]:
    """The algorithm of this name.

    Raises:
        UnknownName: There is none; the error names the nearest.
    """
    if name not in ALGORITHMS:
        raise UnknownName("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


__all__ = ["ALGORITHMS", "Algorithm", "find_algorithm"]
