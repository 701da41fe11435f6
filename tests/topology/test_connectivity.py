"""Connectivity over a run: the diameter in rounds against networkx, and vertex connectivity against all subsets."""

import json
from itertools import combinations

import networkx as nx
import pytest
from click.testing import CliRunner

from dpeer.cli.topology import topology
from dpeer.topology import Isolated, Participation, build, temporal_diameter
from dpeer.topology.connectivity import LIMIT, survivable_losses


@pytest.mark.parametrize(
    ("name", "size", "rounds"),
    [("ring", 8, 4), ("ring", 2, 1), ("full", 5, 1), ("star", 6, 2), ("hypercube", 8, 3), ("ring", 9, 4)],
)
def test_of_a_graph_that_stays_it_is_the_diameter(name, size, rounds):
    graph = build(name, size)
    assert temporal_diameter(graph, 100) == rounds == max(nx.diameter(nx.Graph(graph.edges)), 1)


def test_edges_lead_one_way():
    graph = build("exponential-directed", 16)
    assert temporal_diameter(graph, 100) == nx.diameter(nx.DiGraph(graph.edges)) == 4


def test_of_a_graph_that_changes_it_is_counted_in_rounds():
    assert temporal_diameter(build("one-peer-exponential", 8), 100) == 3
    whole = build("ring", 8)
    assert temporal_diameter(Participation(whole, 0.5, 1), 100) > temporal_diameter(whole, 100)


def test_it_is_no_more_than_the_run_has_rounds():
    assert temporal_diameter(build("ring", 16), 3) == 3
    assert temporal_diameter(Isolated(4), 7) == 7


def whole(graph, lost, rounds=20):
    """Whether those that are left can all reach each other over the edges of the run."""
    left = nx.DiGraph()
    left.add_nodes_from(set(range(graph.size)) - set(lost))
    for number in range(rounds):
        for rank in left.nodes:
            heard = graph.at(number, rank).in_neighbors
            left.add_edges_from((sender, rank) for sender in heard if sender in left)
    return nx.is_strongly_connected(left)


@pytest.mark.parametrize(
    "name", ["ring", "star", "full", "grid", "torus", "hypercube", "exponential-directed", "one-peer-exponential"]
)
def test_so_many_may_be_lost_and_one_more_may_not(name):
    graph = build(name, 8)
    most = survivable_losses(graph, 20)
    for count in range(most + 1):
        assert all(whole(graph, lost) for lost in combinations(range(8), count))
    if most < 6:  # of two every one is whole
        assert not all(whole(graph, lost) for lost in combinations(range(8), most + 1))


@pytest.mark.parametrize(("name", "most"), [("ring", 1), ("star", 0), ("full", 6), ("hypercube", 2)])
def test_known_graphs(name, most):
    assert survivable_losses(build(name, 8), 20) == most


def test_a_graph_that_changes_is_joined_by_the_edges_of_all_its_rounds():
    graph = build("random-matching", 8)
    assert survivable_losses(graph, 20) > survivable_losses(graph, 4)


def test_of_many_peers_nothing_is_said():
    assert survivable_losses(build("ring", LIMIT + 1), 20) is None


def test_the_commands_say_it():
    found = CliRunner().invoke(topology, ["spectral-gap", "--topology", "ring,star", "--size", "8"])
    assert "0 of star of 8; 1 of ring of 8" in " ".join(found.output.split())
    found = CliRunner().invoke(topology, ["spectral-gap", "--topology", "ring", "--size", "8", "--json"])
    assert json.loads(found.output)["survives"] == 1
    given = ["advise", "--size", "6", "--body-bytes", "1MB", "--bandwidth", "1Mbit"]
    assert "may lose: so many peers" in CliRunner().invoke(topology, given).output
    ranking = json.loads(CliRunner().invoke(topology, [*given, "--json"]).output)["ranking"]
    assert {one["topology"]: one["survives"] for one in ranking}["star"] == 0
