"""The graphs: which edges they have, and what is said of those that do not exist."""

import networkx as nx
import pytest

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology import build

CIRCLE_OF_4 = [[0, 1], [0, 3], [1, 2], [2, 3]]


def offsets(name: str, size: int) -> set[int]:
    """Receiver minus sender, over all the messages of a round."""
    graph = build(name, size)
    return {(i - j) % size for i in range(size) for j in graph.at(0, i).in_neighbors}


@pytest.mark.parametrize(
    ("name", "size", "edges"),
    [
        ("ring", 2, [[0, 1]]),
        ("ring", 3, [[0, 1], [0, 2], [1, 2]]),
        ("ring", 4, CIRCLE_OF_4),
        ("grid", 2, [[0, 1]]),
        ("grid", 3, [[0, 1], [1, 2]]),
        ("grid", 6, [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [4, 5]]),
        ("torus", 2, [[0, 1]]),
        ("torus", 3, [[0, 1], [0, 2], [1, 2]]),
        ("torus", 4, [[0, 1], [0, 2], [1, 3], [2, 3]]),
        ("torus", 6, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [3, 5], [4, 5]]),
        ("star", 4, [[0, 1], [0, 2], [0, 3]]),
        ("full", 4, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
        ("exponential-directed", 2, [[0, 1], [1, 0]]),
        ("exponential-directed", 4, [[0, 1], [0, 2], [1, 2], [1, 3], [2, 0], [2, 3], [3, 0], [3, 1]]),
    ],
)
def test_edges(name: str, size: int, edges: list[list[int]]) -> None:
    assert build(name, size).edges == edges


def test_exponential_graphs_reach_the_powers_of_two() -> None:
    assert offsets("exponential-directed", 8) == {1, 2, 4}
    assert offsets("exponential", 8) == {1, 2, 4, 6, 7}
    assert offsets("exponential-directed", 10) == {1, 2, 4, 8}
    assert offsets("exponential", 10) == {1, 2, 4, 8, 6, 9}


def test_a_directed_peer_sends_forward_and_hears_from_behind() -> None:
    around = build("exponential-directed", 8).at(0, 0)
    assert around.out_neighbors == (1, 2, 4)
    assert around.in_neighbors == (4, 6, 7)
    assert build("exponential-directed", 8).connections(0, 1) == (1, 2, 4, 6, 7)


@pytest.mark.parametrize("name", ["grid", "torus"])
@pytest.mark.parametrize(("size", "shape"), [(4, [2, 2]), (8, [2, 4]), (12, [3, 4]), (36, [6, 6]), (10, [2, 5])])
def test_lattices_are_nearly_square_by_default(name: str, size: int, shape: list[int]) -> None:
    assert build(name, size).parameters == {"grid_shape": shape}
    assert build(name, size, grid_shape=(shape[0], shape[1])) == build(name, size)


def test_a_shape_may_be_asked_for() -> None:
    assert build("grid", 5, grid_shape=(1, 5)).edges == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert build("torus", 5, grid_shape=(5, 1)).edges == build("ring", 5).edges
    assert build("grid", 8, grid_shape=(4, 2)) != build("grid", 8)


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 7)])
@pytest.mark.parametrize("name", ["grid", "torus"])
def test_lattices_are_those_of_networkx(name: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    lattice = nx.grid_2d_graph(rows, columns, periodic=name == "torus")
    ranked = [sorted(row * columns + column for row, column in edge) for edge in lattice.edges]
    assert build(name, rows * columns, grid_shape=shape).edges == sorted(ranked)


@pytest.mark.parametrize("size", [4, 32])
def test_hypercubes_are_those_of_networkx(size: int) -> None:
    digits = nx.hypercube_graph(size.bit_length() - 1)
    ranked = [sorted(sum(bit << k for k, bit in enumerate(node)) for node in edge) for edge in digits.edges]
    assert build("hypercube", size).edges == sorted(ranked)


@pytest.mark.parametrize("size", [3, 12, 100])
def test_hypercubes_have_powers_of_two(size: int) -> None:
    below = 1 << (size.bit_length() - 1)
    with pytest.raises(
        TopologyError, match=f"hypercube: size {size} is not a power of two: choose {below} or {2 * below}"
    ):
        build("hypercube", size)


@pytest.mark.parametrize("name", ["grid", "torus"])
def test_lattices_of_prime_size_say_what_to_do(name: str) -> None:
    with pytest.raises(TopologyError, match=rf"{name}: size 7 is prime.*another size.*grid shape 1x7"):
        build(name, 7)


@pytest.mark.parametrize("shape", [(3, 3), (0, 8), (-2, -4), (8, 2)])
def test_a_shape_must_hold_everyone(shape: tuple[int, int]) -> None:
    with pytest.raises(TopologyError, match=rf"grid shape {shape[0]}x{shape[1]} .*must be 8"):
        build("grid", 8, grid_shape=shape)


def test_unknown_names_give_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown topology 'rnig': did you mean 'ring'"):
        build("rnig", 8)
    with pytest.raises(UnknownName, match="unknown weights rule 'metropolitan': did you mean 'metropolis'"):
        build("ring", 8, weights="metropolitan")
