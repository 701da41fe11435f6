"""The best constant weights against a search of our own."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpeer.topology import Topology, build, spectral_gap
from dpeer.topology.graphs import FIXED
from dpeer.topology.random_graphs import RANDOM

UNDIRECTED = sorted({*FIXED, *RANDOM} - {"exponential-directed"})
Dense = NDArray[np.float64]


def laplacian_of(graph: Topology) -> Dense:
    return np.asarray(nx.laplacian_matrix(nx.Graph(graph.edges), nodelist=range(graph.size)).toarray(), dtype=float)


def fixed(name: str, size: int, weights: str, **options: Any) -> Topology:
    return build(name, size, weights=weights, **options)


@pytest.mark.parametrize("name", UNDIRECTED)
@pytest.mark.parametrize("size", [16, 256])
def test_no_constant_is_better_than_the_best(name: str, size: int) -> None:
    laplacian = laplacian_of(fixed(name, size, "metropolis"))
    most, values = laplacian.max(), np.linalg.eigvalsh(laplacian)[1:]

    def loss(constant: float) -> float:
        return float(np.abs(1.0 - constant * values).max()) - 1.0

    searched = minimize_scalar(loss, bounds=(0.0, 1.0 / most), method="bounded", options={"xatol": 1e-12})
    gap = spectral_gap(fixed(name, size, "best-constant"))
    assert gap == pytest.approx(-min(searched.fun, loss(1.0 / most)), rel=1e-6, abs=1e-8)
    assert gap >= spectral_gap(fixed(name, size, "max-degree")) - 1e-12
