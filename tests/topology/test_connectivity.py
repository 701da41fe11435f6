"""In how many rounds news reaches everybody: the diameter, also of directed and of changing graphs."""

import networkx as nx
import pytest

from dpeer.topology import Isolated, Participation, build, temporal_diameter


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
