"""The extreme eigenvalues of sparse matrices, by iteration, against dense ones and closed forms."""

from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from dpeer.topology import analyse, build, eigen
from dpeer.topology.mixing_matrix import spelled


def two_cliques(size: int) -> "nx.Graph[int]":
    half = size // 2
    graph = nx.disjoint_union(nx.complete_graph(half), nx.complete_graph(size - half))
    graph.add_edge(0, half)
    return graph


GRAPHS = {
    "line": nx.path_graph(500),
    "ring": nx.cycle_graph(501),
    "even ring": nx.cycle_graph(300),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 40)),
    "tree": nx.balanced_tree(2, 8),
    "barbell": nx.barbell_graph(100, 200),
    "two cliques": two_cliques(300),
    "lollipop": nx.lollipop_graph(60, 400),
    "bipartite": nx.complete_bipartite_graph(150, 250),
    "star": nx.star_graph(400),
    "regular": nx.random_regular_graph(4, 600, seed=1),
    "hypercube": nx.convert_node_labels_to_integers(nx.hypercube_graph(9)),
    "small world": nx.connected_watts_strogatz_graph(600, 4, 0.02, seed=3),
}


@cache
def laplacian(name: str, weighted: bool = False) -> tuple[csr_array, float]:
    """The Laplacian, and its second smallest eigenvalue."""
    graph, random = GRAPHS[name].copy(), np.random.default_rng(7)
    for _, _, edge in graph.edges(data=True):
        edge["weight"] = random.uniform(0.1, 1.0) if weighted else 1.0
    matrix = csr_array(nx.laplacian_matrix(graph).astype(float))
    return matrix, float(np.linalg.eigvalsh(matrix.toarray())[1])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_the_second_smallest_of_a_laplacian_is_that_of_the_dense_matrix(
    name: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, expected = laplacian(name, weighted)
    monkeypatch.setattr(eigen, "DENSE", 20)
    assert eigen.smallest(matrix, laplacian=True) == pytest.approx(expected, rel=1e-6)


DECLARED = spelled(tuple(np.random.default_rng(0).uniform(1, 50, 220)))


@pytest.mark.parametrize("name", ["grid", "torus", "star", "random-regular", "small-world", "erdos-renyi", "fresh:2"])
@pytest.mark.parametrize("weights", ["metropolis", "max-degree", "best-constant", DECLARED])
def test_graphs_beyond_the_dense_have_the_weights_and_the_speed_of_the_dense_ones(
    name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """test_graph_contract.py and test_declared.py hold the dense ones against numpy."""
    if name == "fresh:2" and weights == "best-constant":
        name, weights = "fresh-directed", "uniform"
    graph = build(name, 220, weights=weights)
    expected = analyse(graph)
    monkeypatch.setattr(eigen, "DENSE", 20)
    found = analyse(graph)
    assert found.spectral_gap == pytest.approx(expected.spectral_gap, rel=1e-6)
    assert found.rounds == expected.rounds
    assert np.allclose(build(name, 220, weights=weights).weights, graph.weights, rtol=1e-6, atol=0)
