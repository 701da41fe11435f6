"""The extreme eigenvalues of sparse matrices, by iteration, against dense ones and closed forms."""

import math
from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from dpeer.topology import analyse, build, eigen


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


@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize("name", ["line", "grid", "star", "regular", "small world", "bipartite"])
def test_the_smallest_of_a_matrix_that_is_not_a_laplacian_is_that_of_the_dense_one(name: str) -> None:
    # The other end of the mixing matrix: I + W, dominated by its diagonal, without an eigenvalue 0.
    graph, most = GRAPHS[name], max(degree for _, degree in GRAPHS[name].degree)
    matrix = csr_array(2.0 * csr_array(np.eye(len(graph))) - laplacian(name)[0] * (0.95 / most))
    expected = np.linalg.eigvalsh(matrix.toarray())[0]
    assert eigen.smallest(matrix) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("size", [3, 700, 2049])
def test_small_and_large_sizes_agree_with_the_closed_form(size: int) -> None:
    matrix = csr_array(nx.laplacian_matrix(nx.cycle_graph(size)).astype(float))
    assert eigen.smallest(matrix, laplacian=True) == pytest.approx(4.0 * math.sin(math.pi / size) ** 2, rel=1e-6)


@pytest.mark.usefixtures("_iterated")
@pytest.mark.parametrize(("size", "scale"), [(150, 1.0), (500, 1.0), (300, 1e-2)])
def test_the_norm_of_a_product_is_that_of_the_dense_one(size: int, scale: float) -> None:
    random = np.random.default_rng(size)
    drawn = [np.where(random.random((size, size)) < 0.05, random.random((size, size)), 0.0) for _ in range(2)]
    matrices = [csr_array(matrix * scale) for matrix in drawn]
    away = np.eye(size) - 1.0 / size
    dense = away @ matrices[1].toarray() @ matrices[0].toarray() @ away
    assert eigen.norm_of_product(matrices) == pytest.approx(float(np.linalg.norm(dense, 2)), rel=1e-6)


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
