"""Sums of rows, and the weights rules: the best constant against a search of our own."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from dpeer.topology import TIME_VARYING, TOPOLOGIES, build, spectral_gap
from dpeer.topology.mixing_matrix import row_sums


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_rows_are_summed_exactly(seed: int, density: float) -> None:
    random = np.random.default_rng(seed)
    dense = (
        random.uniform(size=(7, 90))
        * 10.0 ** random.integers(-12, 3, size=(7, 90))
        * (random.random((7, 90)) < density)
    )
    assert row_sums(csr_array(dense)) == pytest.approx([math.fsum(row) for row in dense], rel=3e-16, abs=0.0)


def test_metropolis_weights() -> None:
    # A line of 3: ends have one neighbor, the middle two.
    assert np.allclose(build("grid", 3).weights, np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3, atol=1e-15)


@pytest.mark.parametrize("name", ["ring", "torus", "exponential", "full", "random-regular"])
def test_uniform_weights_are_the_metropolis_ones_on_regular_graphs(name: str) -> None:
    uniform, metropolis = build(name, 12, weights="uniform"), build(name, 12)
    assert (uniform.weights_rule, metropolis.weights_rule) == ("uniform", "metropolis")
    assert np.allclose(uniform.weights, metropolis.weights, atol=1e-15)


def test_a_topology_cannot_be_changed_by_accident() -> None:
    graph = build("ring", 4)
    graph.weights[0, 0] = 7.0  # a copy
    assert graph.weights[0, 0] != 7.0
    with pytest.raises(ValueError):  # noqa: PT011 - numpy's
        graph.mixing_at(0).sparse.data[0] = 7.0
    assert hash(graph) == hash(build("ring", 4))


@pytest.mark.parametrize("name", sorted({*TOPOLOGIES} - {*TIME_VARYING, "exponential-directed"}))
@pytest.mark.parametrize("size", [16, 256])
def test_no_constant_is_better_than_the_best(name: str, size: int) -> None:
    graph = nx.Graph(build(name, size).edges)
    laplacian = nx.laplacian_matrix(graph, nodelist=range(size)).toarray().astype(float)
    most, values = laplacian.max(), np.linalg.eigvalsh(laplacian)[1:]

    def loss(constant: float) -> float:
        return float(np.abs(1.0 - constant * values).max()) - 1.0

    searched = minimize_scalar(loss, bounds=(0.0, 1.0 / most), method="bounded", options={"xatol": 1e-12})
    gap = spectral_gap(build(name, size, weights="best-constant"))
    assert gap == pytest.approx(-min(searched.fun, loss(1.0 / most)), rel=1e-6, abs=1e-8)
    assert gap >= spectral_gap(build(name, size, weights="max-degree")) - 1e-12
