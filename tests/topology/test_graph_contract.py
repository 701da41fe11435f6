"""The contract of every graph, fixed or time-varying, with every weights rule, against dense numpy matrices."""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology import TIME_VARYING, TOPOLOGIES, WEIGHTS, Topology, analyse, build, spectral_gap, split_names

Dense = NDArray[np.float64]


@st.composite
def files(draw: st.DrawFn) -> tuple[str, int]:
    """The text of a connected graph's file, and its size."""
    size = draw(st.integers(2, 25))
    joined = {(draw(st.integers(0, rank - 1)), rank) for rank in range(1, size)}  # a tree
    ranks = st.integers(0, size - 1)
    joined |= {(i, j) for i, j in draw(st.sets(st.tuples(ranks, ranks), max_size=30)) if i < j}
    edges = draw(st.permutations(sorted(joined)))
    between = draw(st.sampled_from([" ", ",", "\t", ", "]))
    ends = st.sampled_from(["\n", "\r\n", " # known\n"])
    lines = "".join(f"{i}{between}{j}{draw(ends)}" for i, j in edges)
    return f"# {size} peers\n\n{lines}", size


@st.composite
def named(draw: st.DrawFn) -> tuple[str, int, dict[str, Any]]:
    """The arguments of `build` for anything it may draw itself."""
    name = draw(st.sampled_from([*TOPOLOGIES]))
    # Mostly few peers, where what is special about a size shows; the dense computations take their time.
    size = draw(st.integers(2, 20) | st.integers(2, 200))
    if name == "hypercube":
        size = min(1 << (size - 1).bit_length(), 128)
    options: dict[str, Any] = {
        "weights": draw(
            st.sampled_from([rule for rule in WEIGHTS if name not in TIME_VARYING or rule != "best-constant"])
        ),
        "graph_seed": draw(st.integers(0, 999)),
    }
    if (reads := TOPOLOGIES[name].reads) and draw(st.booleans()):
        name = f"{name}:{','.join(draw(values(size)[one]) for one in reads)}"
    return name, size, options


def values(size: int) -> dict[str, st.SearchStrategy[str]]:
    """What may stand behind a graph's name, by parameter."""
    rows = st.sampled_from([r for r in range(1, size + 1) if size % r == 0])
    return {
        "grid_shape": rows.map(lambda r: f"{r}x{size // r}"),
        "degree": st.integers(1, 8).map(str),
        "rewire": st.sampled_from(["0", "0.1", "0.5", "1"]),
        "edge_probability": st.sampled_from(["0.5", "1.0"]),
        "fresh_neighbors": st.integers(1, 6).map(str),
    }


def built(asked: tuple[str, int, dict[str, Any]] | tuple[str, int]) -> Topology:
    """The graph, if it exists."""
    if len(asked) == 2:
        text, size = asked
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.txt"
            path.write_bytes(text.encode())
            return build(f"file:{path}", size)
    name, peers, options = asked
    try:
        return build(name, peers, **options)
    except TopologyError:
        assume(False)
        raise


topologies = st.one_of(named(), named(), named(), files()).map(built)

# One of each kind is always tried: a graph that keeps no average, one of unequal degrees, one with a period, and one
# whose smallest eigenvalue is larger in size than the second (two camps of three).
DIRECTED_DRAWS = build("fresh-directed:2", 9)
IRREGULAR = build("star", 5)
PERIODIC = build("one-peer-exponential", 12)
BIPARTITE = build("random-regular:3", 6)


def tried_always(test: Any) -> Any:
    """A property of a graph, which is tried on one of each kind, too."""
    for graph in (DIRECTED_DRAWS, IRREGULAR, PERIODIC, BIPARTITE):
        test = example(graph)(test)
    return test


def dense(graph: Topology, number: int) -> Dense:
    return graph.mixing_at(number).sparse.toarray()


def norms(graph: Topology) -> Any:
    """||(I - J) W_(t-1) ... W_0 (I - J)|| for t = 1, 2, ..."""
    away = np.eye(graph.size) - 1.0 / graph.size
    product = away
    for number in range(100_000):
        product = away @ dense(graph, number) @ product
        yield float(np.linalg.norm(product, 2))


@settings(deadline=None, max_examples=120)
@given(topologies)
@tried_always
def test_matrices_are_stochastic_and_connect_everyone(graph: Topology) -> None:
    joined = np.zeros((graph.size, graph.size))
    for number in range(graph.period):
        weights = dense(graph, number)
        assert weights.shape == (graph.size, graph.size)
        assert weights.min() >= 0.0
        assert np.abs(weights.sum(axis=1) - 1.0).max() <= 1e-12
        if graph.doubly_stochastic:
            assert np.abs(weights.sum(axis=0) - 1.0).max() <= 1e-12
        if not graph.directed:
            assert np.array_equal(weights, weights.T)
        joined += weights
    assert nx.is_strongly_connected(nx.from_numpy_array(joined, create_using=nx.DiGraph))
    assert graph.doubly_stochastic or graph.name == "fresh-directed"


@settings(deadline=None, max_examples=80)
@given(topologies)
@tried_always
def test_the_gap_and_lambda_are_those_of_the_dense_matrices(graph: Topology) -> None:
    found = analyse(graph)
    every = norms(graph)
    norm = [next(every) for _ in range(graph.period)][-1]
    assert found.second_singular_value == pytest.approx(norm, abs=1e-9)
    assert found.spectral_gap == pytest.approx(1.0 - norm, rel=1e-6, abs=1e-12)
    assert spectral_gap(graph) == found.spectral_gap
    sent = [np.count_nonzero(dense(graph, t) - np.diag(np.diag(dense(graph, t))), axis=0) for t in range(graph.period)]
    assert (found.degree_min, found.degree_max) == (np.min(sent), np.max(sent))
    assert found.bytes_per_round_factor == pytest.approx(np.mean(sent))
    assert (found.period, found.doubly_stochastic, found.size) == (graph.period, graph.doubly_stochastic, graph.size)


@settings(deadline=None, max_examples=40)
@given(topologies)
@tried_always
def test_rounds_are_the_first_that_shrink_disagreement_a_thousandfold_or_by_half(graph: Topology) -> None:
    found = analyse(graph)
    for rounds, least in ((found.rounds, 1e-3), (found.rounds_to_half, 0.5)):
        if not graph.changing:
            away = dense(graph, 0) - 1.0 / graph.size
            powers = [float(np.linalg.norm(np.linalg.matrix_power(away, t), 2)) for t in (rounds, rounds - 1) if t]
            assert powers[0] <= least * (1.0 + 1e-6)
            assert all(power > least * (1.0 - 1e-6) for power in powers[1:])
        else:
            # Every one before is looked at: where the average is not kept, the norm need not fall from round to round.
            left = [norm for _, norm in zip(range(rounds), norms(graph), strict=False)]
            assert left[-1] <= least * (1.0 + 1e-8)
            assert all(norm > least for norm in left[:-1])


@settings(deadline=None, max_examples=60)
@given(topologies, st.integers(0, 200))
def test_neighborhoods_are_those_of_the_matrix_and_agree_on_both_ends(graph: Topology, number: int) -> None:
    weights, ranks = dense(graph, number), range(graph.size)
    around = [graph.at(number, rank) for rank in ranks]
    edges_both_ways = {(i, j) for i in ranks for j in around[i].out_neighbors}
    assert edges_both_ways == {(j, i) for i in ranks for j in around[i].in_neighbors}
    assert edges_both_ways == {(int(j), int(i)) for i, j in zip(*weights.nonzero(), strict=True) if i != j}
    for rank in ranks:
        assert dict(around[rank].row) == {j: w for j, w in enumerate(weights[rank].tolist()) if w > 0.0 or j == rank}
        assert math.fsum(around[rank].row.values()) == pytest.approx(1.0, abs=1e-12)
        for side in (around[rank].in_neighbors, around[rank].out_neighbors):
            assert list(side) == sorted(set(side) - {rank})


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(topologies, st.integers(1, 70), st.randoms())
def test_connections_are_those_of_all_the_rounds(graph: Topology, rounds: int, random: Any) -> None:
    met: list[set[int]] = [set() for _ in range(graph.size)]
    for number in range(rounds):
        for rank in range(graph.size):
            around = graph.at(number, rank)
            met[rank] |= {*around.in_neighbors, *around.out_neighbors}
    for rank in random.sample(range(graph.size), min(5, graph.size)):
        assert graph.connections(rank, rounds) == tuple(sorted(met[rank]))


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(named(), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_every_peer_has_the_same_graph_in_whatever_order_it_asks(
    asked: tuple[str, int, dict[str, Any]], numbers: list[int]
) -> None:
    one, other = built(asked), built(asked)
    assert one == other
    assert hash(one) == hash(other)
    assert one.digest == other.digest
    first = {number: dense(one, number) for number in numbers}
    for number in sorted(numbers, reverse=True):
        assert np.array_equal(dense(other, number), first[number])


@settings(deadline=None, max_examples=60)
@given(topologies, st.integers(0, 20))
def test_edges_and_parameters_are_canonical_json(graph: Topology, number: int) -> None:
    edges = graph.edges_at(number)
    assert edges == sorted(edges)
    assert graph.directed or all(i < j for i, j in edges)
    assert len({(i, j) for i, j in edges}) == len(edges)
    edges_both_ways = {(i, j) for i, j in edges} | (set() if graph.directed else {(j, i) for i, j in edges})
    assert edges_both_ways == {(int(j), int(i)) for i, j in zip(*dense(graph, number).nonzero(), strict=True) if i != j}
    assert json.loads(json.dumps(edges)) == edges
    assert json.loads(json.dumps(graph.parameters)) == graph.parameters


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_graph_has_its_name_and_takes_its_parameters_behind_it(name: str) -> None:
    kind = TOPOLOGIES[name]
    for asked in (name, kind.example):
        size = 12 if asked == "torus:3x4" else 8
        graph = build(asked, size)
        assert (graph.name, graph.label, graph.size) == (name, asked, size)
        assert {*kind.reads} <= {*graph.parameters}
    assert kind.form.partition(":")[:2] == (name, ":" if kind.reads else "")


def test_a_number_behind_a_comma_belongs_to_the_name_before_it() -> None:
    text = "ring, small-world:4,0.1,grid:2x4, small-world:4, .5,file:a/b.txt"
    assert split_names(text) == ["ring", "small-world:4,0.1", "grid:2x4", "small-world:4, .5", "file:a/b.txt"]
