"""Weights that are computed to mix fast: the best constant and the fastest of all, against searches of our own."""

import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpeer.exceptions import TopologyError
from dpeer.topology import Topology, build, spectral_gap
from dpeer.topology.graph_types import EdgeList
from dpeer.topology.graphs import GRAPHS
from dpeer.topology.weights import on_grid

UNDIRECTED = sorted(set(GRAPHS) - {"exponential-directed"})
Dense = NDArray[np.float64]


def gap_of(weights: Dense) -> float:
    return 1.0 - float(np.linalg.norm(weights - 1.0 / len(weights), 2))


def laplacian_of(graph: Topology) -> Dense:
    return np.asarray(nx.laplacian_matrix(nx.Graph(graph.edges), nodelist=range(graph.size)).toarray(), dtype=float)


def fixed(name: str, size: int, weights: str, **options: Any) -> Topology:
    graph = build(name, size, weights=weights, **options)
    assert isinstance(graph, Topology)
    return graph


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


def test_the_best_constant_is_that_of_the_papers_formula_clamped_to_one_over_the_degree() -> None:
    for name in ("grid", "ring", "torus"):
        graph = fixed(name, 12, "best-constant")
        values = np.linalg.eigvalsh(laplacian_of(graph))
        constant = 2.0 / (values[-1] + values[1])
        assert graph.weights[0, 1] == pytest.approx(min(constant, 1.0 / laplacian_of(graph).max()), rel=1e-9)
    star = fixed("star", 9, "best-constant")  # 2 / (9 + 1) would be more than an eighth
    assert star.weights[0, 0] == 0.0
    assert star.weights[0, 1] == pytest.approx(1.0 / 8.0)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 13])
def test_the_fastest_line_gives_half_to_each_side(size: int) -> None:
    # Boyd, Diaconis, Sun and Xiao, "Fastest mixing Markov chain on a path", 2006.
    weights = fixed("grid", size, "fastest", grid_shape=(1, size)).weights
    expected = 0.5 * (np.eye(size, k=1) + np.eye(size, k=-1))
    expected[0, 0] = expected[-1, -1] = 0.5
    assert np.abs(weights - expected).max() < 1e-4
    assert gap_of(weights) == pytest.approx(1.0 - np.cos(np.pi / size), abs=2e-6)


@pytest.mark.parametrize(
    ("name", "size", "best"),
    [
        ("full", 6, 1.0),
        ("star", 8, 1.0 / 7.0),  # an eighth less would leave the hub a weight, and help no peer
        ("hypercube", 8, 0.5),  # edge-transitive: the best constant is 2 / (2 + 2 log2 m)
        ("hypercube", 16, 0.4),
        ("ring", 8, 1.0 - (4.0 - 2.0 + 2.0 * np.cos(np.pi / 4.0)) / (4.0 + 2.0 - 2.0 * np.cos(np.pi / 4.0))),
    ],
)
def test_known_optima(name: str, size: int, best: float) -> None:
    assert spectral_gap(build(name, size, weights="fastest")) == pytest.approx(best, abs=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
@pytest.mark.parametrize("size", [8, pytest.param(16, marks=pytest.mark.long)])
def test_the_fastest_are_at_least_as_fast_as_every_other_rule_and_add_up_exactly(name: str, size: int) -> None:
    graph = fixed(name, size, "fastest")
    weights = graph.weights
    assert weights.min() >= 0.0
    assert np.array_equal(weights, weights.T)
    # Multiples of 2^-20 are added up without rounding.
    assert set(weights.sum(axis=0)) == set(weights.sum(axis=1)) == {1.0}
    for rule in ("metropolis", "max-degree", "best-constant"):
        # As much as rounding all weights down may cost, and the solver's own tolerance.
        assert spectral_gap(graph) >= spectral_gap(fixed(name, size, rule)) - (size + 1) * 2.0**-20
    assert {tuple(edge) for edge in graph.edges} <= {tuple(edge) for edge in fixed(name, size, "metropolis").edges}
    assert graph.digest == fixed(name, size, "fastest").digest


def test_simple_fractions_are_exact_and_sums_above_one_are_lowered() -> None:
    assert set(build("full", 8, weights="fastest").weights.ravel()) == {0.125}
    star = EdgeList(5, np.zeros(4, dtype=np.int64), np.arange(1, 5))
    units = on_grid(star, np.full(4, 0.25 + 0.8 * 2.0**-20)) * 2**20
    assert list(units) == [2**18] * 4  # each would be one unit more, together more than everything
    units = on_grid(star, np.array([0.25, 0.5, 0.1, 0.0])) * 2**20
    assert list(units) == [2**18, 2**19, int(0.1 * 2**20 + 0.25), 0]


def test_without_the_solver_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxopt", None)
    with pytest.raises(TopologyError) as error:
        build("grid", 6, weights="fastest")
    assert "pip install 'dpeer[fastest]'" in str(error.value)
    build("grid", 6)
    build("exponential-directed", 6, weights="fastest")  # which is uniform


def test_a_solver_that_gives_up_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from cvxopt import solvers

    monkeypatch.setattr(solvers, "sdp", lambda *_, **__: {"x": None, "status": "primal infeasible"})
    with pytest.raises(TopologyError) as error:
        build("grid", 6, weights="fastest")
    assert "'primal infeasible': use weights best-constant" in str(error.value)
