"""Connectivity over a run: the diameter in rounds against networkx, and vertex connectivity against all subsets."""

from itertools import combinations

import networkx as nx
import pytest

from dpeer.topology import Isolated, Participation, ServerSampling, build, temporal_diameter
from dpeer.topology.spectrum import LIMIT, survivable_losses


@pytest.mark.parametrize(
    ("name", "size", "rounds"),
    [
        ("ring", 8, 4),
        ("ring", 2, 1),
        ("full", 5, 1),
        ("star", 6, 2),
        ("hypercube", 8, 3),
        ("ring", 9, 4),
        ("exponential-directed", 16, 4),
    ],
)
def test_the_diameter_of_a_fixed_graph_is_that_of_networkx(name, size, rounds):
    graph = build(name, size)
    kind = nx.DiGraph if graph.directed else nx.Graph
    assert temporal_diameter(graph, 100) == rounds == max(nx.diameter(kind(graph.edges)), 1)


def test_the_diameter_of_a_time_varying_graph_is_counted_in_rounds():
    assert temporal_diameter(build("one-peer-exponential", 8), 100) == 3
    ring = build("ring", 8)
    assert temporal_diameter(Participation(ring, 0.5, 1), 100) > temporal_diameter(ring, 100)
    assert 4 <= temporal_diameter(ServerSampling(build("full", 10, weights="uniform"), 0.3, 4), 60) < 60


def test_the_diameter_is_no_more_than_the_rounds_of_the_run():
    assert temporal_diameter(build("ring", 16), 3) == 3
    assert temporal_diameter(Isolated(4), 7) == 7


def connected(graph, lost, rounds=20):
    """Whether the peers that are left can all reach each other over the edges of the run."""
    left = nx.DiGraph()
    left.add_nodes_from(set(range(graph.size)) - set(lost))
    for number in range(rounds):
        for rank in left.nodes:
            heard = graph.at(number, rank).in_neighbors
            left.add_edges_from((sender, rank) for sender in heard if sender in left)
    return nx.is_strongly_connected(left)


@pytest.mark.parametrize(
    ("name", "most"),
    [("ring", 1), ("star", 0), ("full", 6), ("hypercube", 2), ("grid", None), ("exponential-directed", None)],
)
def test_as_many_may_be_lost_and_one_more_may_not(name, most):
    graph = build(name, 8)
    found = survivable_losses(graph, 20)
    assert most is None or found == most
    fixed = 1
    for count in range(found + 1):
        assert all(connected(graph, lost, fixed) for lost in combinations(range(8), count))
    if found < 6:  # two are always connected
        assert not all(connected(graph, lost, fixed) for lost in combinations(range(8), found + 1))


def test_a_time_varying_graph_is_joined_by_the_edges_of_all_its_rounds():
    graph = build("random-matching", 8)
    found = survivable_losses(graph, 20)
    assert found > survivable_losses(graph, 4)
    assert all(connected(graph, lost) for lost in combinations(range(8), found))


def test_the_losses_of_many_peers_are_unknown():
    assert survivable_losses(build("ring", LIMIT + 1), 20) is None
