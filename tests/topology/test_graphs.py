"""The fixed graphs: their edges, against lists and networkx."""

import networkx as nx
import pytest

from dpeer.topology import build


@pytest.mark.parametrize(
    ("name", "size", "edges"),
    [
        ("ring", 2, [[0, 1]]),
        ("ring", 3, [[0, 1], [0, 2], [1, 2]]),
        ("ring", 4, [[0, 1], [0, 3], [1, 2], [2, 3]]),
        ("star", 4, [[0, 1], [0, 2], [0, 3]]),
        ("full", 4, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
        ("exponential-directed", 2, [[0, 1], [1, 0]]),
        ("exponential-directed", 4, [[0, 1], [0, 2], [1, 2], [1, 3], [2, 0], [2, 3], [3, 0], [3, 1]]),
    ],
)
def test_small_graphs_have_these_edges(name: str, size: int, edges: list[list[int]]) -> None:
    assert build(name, size).edges == edges


@pytest.mark.parametrize(
    ("name", "size", "offsets"),
    [
        ("exponential-directed", 8, {1, 2, 4}),
        ("exponential", 8, {1, 2, 4, 6, 7}),
        ("exponential-directed", 10, {1, 2, 4, 8}),
        ("exponential", 10, {1, 2, 4, 8, 6, 9}),
    ],
)
def test_exponential_graphs_reach_the_powers_of_two(name: str, size: int, offsets: set[int]) -> None:
    graph = build(name, size)
    assert {(i - j) % size for i in range(size) for j in graph.at(0, i).in_neighbors} == offsets


def test_a_directed_peer_sends_forward_and_hears_from_behind() -> None:
    graph = build("exponential-directed", 8)
    around = graph.at(0, 0)
    assert (around.out_neighbors, around.in_neighbors) == ((1, 2, 4), (4, 6, 7))
    assert around.others == graph.connections(0, 1) == (1, 2, 4, 6, 7)


@pytest.mark.parametrize("name", ["grid", "torus"])
@pytest.mark.parametrize(("size", "shape"), [(4, [2, 2]), (8, [2, 4]), (12, [3, 4]), (36, [6, 6]), (10, [2, 5])])
def test_lattices_are_nearly_square_by_default(name: str, size: int, shape: list[int]) -> None:
    assert build(name, size).parameters == {"grid_shape": shape}
    assert build(f"{name}:{shape[0]}x{shape[1]}", size) == build(name, size)
    assert shape[0] == shape[1] or build(f"{name}:{shape[1]}x{shape[0]}", size) != build(name, size)


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 7), (1, 5), (5, 1)])
@pytest.mark.parametrize("name", ["grid", "torus"])
def test_lattices_are_those_of_networkx(name: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    lattice = nx.grid_2d_graph(rows, columns, periodic=name == "torus")
    ranked = [sorted(row * columns + column for row, column in edge) for edge in lattice.edges]
    assert build(f"{name}:{rows}x{columns}", rows * columns).edges == sorted(ranked)


@pytest.mark.parametrize("size", [4, 32])
def test_hypercubes_are_those_of_networkx(size: int) -> None:
    digits = nx.hypercube_graph(size.bit_length() - 1)
    ranked = [sorted(sum(bit << k for k, bit in enumerate(node)) for node in edge) for edge in digits.edges]
    assert build("hypercube", size).edges == sorted(ranked)
