"""The algorithms, by the name that ``--algorithm`` takes."""

from __future__ import annotations

from collections.abc import Mapping

from dpeer.exceptions import UnknownName
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.dfedavgm import DFedAvgM
from dpeer.training.algorithms.dfedmdc import DFedMDC
from dpeer.training.algorithms.dfedsmdc import DFedSMDC
from dpeer.training.algorithms.local import Local

ALGORITHMS: Mapping[str, Algorithm] = {
    algorithm.name: algorithm for algorithm in (Local(), DFedAvgM(), DFedMDC(), DFedSMDC())
}
"""Every algorithm by its name; one instance serves all peers, for an algorithm holds no state."""


def find_algorithm(name: str) -> Algorithm:
    """The algorithm of this name.

    Raises:
        UnknownName: There is none; the error names the nearest.
    """
    if name not in ALGORITHMS:
        raise UnknownName("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


__all__ = ["ALGORITHMS", "Algorithm", "find_algorithm"]
