"""Mixing matrices, for every graph and size."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError
from dpeer.topology import build
from dpeer.topology.graph_types import EdgeList
from dpeer.topology.mixing_matrix import check_mixing, row_sums
from dpeer.topology.weights import WEIGHT_RULES, Rule


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


@pytest.mark.parametrize("size", [2, 3, 6, 8, 13])
def test_the_directed_exponential_graph_is_uniform_whatever_is_asked(size: int) -> None:
    graph = build("exponential-directed", size, weights="metropolis")
    assert graph.weights_rule == "uniform"
    assert graph.directed
    share = 1.0 / (1.0 + np.ceil(np.log2(size)))
    assert np.allclose(graph.weights[graph.weights > 0.0], share, atol=1e-15)
    assert graph.weights[1 % size, 0] == pytest.approx(share)  # row: receiver, column: sender


def test_uniform_weights_on_an_irregular_graph_name_the_degrees() -> None:
    with pytest.raises(
        TopologyError, match=r"^grid: weights uniform: the graph is not regular.*2, 3, 4.*use weights metropolis"
    ):
        build("grid", 9, weights="uniform")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.1, -0.1], [-0.1, 1.1]], "negative"),
        ([[0.5, 0.5 + 1e-11], [0.5, 0.5]], "row 0 sums to"),
        ([[0.5, 0.5], [0.6, 0.4]], "column 0 sums to"),
        ([[0.5, float("nan")], [0.5, 0.5]], "sums to"),
        ([[0.2, 0.5, 0.3], [0.3, 0.2, 0.5], [0.5, 0.3, 0.2]], "not symmetric"),
        ([[1.0, 0.0], [0.0, 1.0]], "not connected: 2 groups"),
    ],
)
def test_a_matrix_that_does_not_average_is_refused(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        check_mixing(csr_array(np.array(matrix)), symmetric=True)


def test_a_topology_cannot_be_changed_by_accident() -> None:
    graph = build("ring", 4)
    graph.weights[0, 0] = 7.0  # a copy
    assert graph.weights[0, 0] != 7.0
    with pytest.raises(ValueError, match="read-only"):
        graph.mixing.sparse.data[0] = 7.0
    assert hash(graph) == hash(build("ring", 4))
    assert graph != build("ring", 4, weights="uniform")


@pytest.mark.parametrize("name", ["grid", "random-matching"])
@pytest.mark.parametrize(
    ("weight", "message"), [(float("nan"), "mixing matrix"), (-0.1, "-0.1 is negative"), (0.6, "is negative")]
)
def test_no_matrix_leaves_build_unchecked(
    monkeypatch: pytest.MonkeyPatch, name: str, weight: float, message: str
) -> None:
    def wrong(graph: EdgeList) -> NDArray[np.float64]:
        return np.full(len(graph.sender), weight * (2.0 if name == "random-matching" else 1.0))

    monkeypatch.setitem(WEIGHT_RULES, "metropolis", Rule(wrong, None))
    with pytest.raises(TopologyError, match=message.replace("-0.1", "-0.[12]")):
        build(name, 4).at(0, 0)
