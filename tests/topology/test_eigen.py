"""The extreme eigenvalues of sparse matrices, by iteration, against dense ones and closed forms."""

from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from dpeer.topology import analyse, build, eigen, spectral_gap
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


@pytest.fixture
def _iterated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small matrices are left to ARPACK."""
    monkeypatch.setattr(eigen, "DENSE", 20)


@pytest.mark.slow
@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_the_second_smallest_of_a_laplacian_is_that_of_the_dense_matrix(name: str, weighted: bool) -> None:
    matrix, expected = laplacian(name, weighted)
    assert eigen.smallest(matrix, laplacian=True) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize("name", ["random-matching", "fresh", "fresh-directed"])
def test_time_varying_graphs_beyond_the_dense_have_the_gap_of_their_products(name: str) -> None:
    size = 202
    graph = build(name, size)
    found = analyse(graph)
    away = np.eye(size) - 1.0 / size
    product, norms = away, []
    for number in range(max(found.period, found.rounds)):
        product = away @ graph.mixing_at(number).sparse @ product
        norms.append(float(np.linalg.norm(product, 2)))
    assert found.second_singular_value == pytest.approx(norms[found.period - 1], rel=1e-6)
    assert found.spectral_gap == pytest.approx(1.0 - norms[found.period - 1], rel=1e-7)
    assert found.rounds == next(t for t, norm in enumerate(norms, 1) if norm <= 1e-3)


@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize("name", ["grid", "torus", "star", "random-regular", "small-world", "erdos-renyi"])
@pytest.mark.parametrize("weights", ["metropolis", "max-degree", "best-constant"])
def test_fixed_graphs_beyond_the_dense_have_the_gap_of_their_matrix(name: str, weights: str) -> None:
    graph = build(name, 220, weights=weights)
    values = np.linalg.eigvalsh(graph.weights)
    assert analyse(graph).spectral_gap == pytest.approx(min(1.0 - values[-2], 1.0 + values[0]), rel=1e-6)


@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize("name", ["grid", "star", "random-regular", "fresh"])
def test_declared_weights_beyond_the_dense_have_the_gap_of_their_product(name: str) -> None:
    numbers = np.random.default_rng(0).uniform(1, 50, 220)
    graph = build(name, len(numbers), weights=spelled(tuple(numbers)))
    mean, root, product = numbers / numbers.sum(), np.sqrt(numbers), np.eye(len(numbers))
    for number in range(graph.period):
        product = graph.weights_at(number) @ product
    left = np.linalg.norm(root[:, None] * (product - mean) / root, 2)
    assert spectral_gap(graph) == pytest.approx(1.0 - left, rel=1e-6)
