"""`dpeer topology` of graphs that change with the round, are drawn at random or come from a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpeer.cli.topology import topology
from dpeer.exceptions import ConfigurationError, TopologyError
from dpeer.topology import TIME_VARYING, TimeVaryingTopology, analyse, build


def run(*arguments: str) -> Result:
    return CliRunner().invoke(topology, arguments, env={"COLUMNS": "80"})


def parsed(*arguments: str) -> Any:
    result = run(*arguments)
    assert result.exception is None, result.output

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(result.output, parse_constant=refuse)


@pytest.mark.parametrize("name", sorted(TIME_VARYING))
def test_show_of_a_changing_graph_keeps_the_promised_keys_and_gives_every_round(name: str) -> None:
    shown = parsed("show", "--topology", name, "--size", "6", "--json")
    assert list(shown) == ["topology", "size", "weights_rule", "edges", "weights", "period", "rounds"]
    graph = build(name, 6)
    assert isinstance(graph, TimeVaryingTopology)
    assert shown["period"] == graph.period == len(shown["rounds"])
    product, edges = np.eye(6), set()
    for number, entry in enumerate(shown["rounds"]):
        assert entry["round"] == number
        assert entry["edges"] == graph.edges_at(number)
        assert entry["weights"] == graph.weights_at(number).tolist()
        product = graph.weights_at(number) @ product
        edges |= {tuple(edge) for edge in entry["edges"]}
    assert shown["edges"] == sorted(map(list, edges))
    assert np.allclose(shown["weights"], product, atol=1e-12)


def test_a_long_solution_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpeer.cli.topology.options._SLOW", 4)
    arguments = ("spectral-gap", "--topology", "grid", "--weights", "fastest", "--json", "--size")
    assert run(*arguments, "4").stderr == ""
    result = run(*arguments, "6")
    assert result.stderr == "solving for the fastest weights of 6 peers, which may take minutes\n"
    assert json.loads(result.stdout)["size"] == 6


def test_fresh_neighbors_stands_for_its_topology() -> None:
    arguments = ("--size", "10", "--json")
    asked = parsed("spectral-gap", "--fresh-neighbors", "3", *arguments)
    expected = analyse(build("fresh-neighbors", 10, fresh_neighbors=3)).as_dict()
    assert asked.pop("survives") >= 2, "so many partners or more has everybody in every round"
    assert asked == json.loads(json.dumps(expected))
    directed = parsed("spectral-gap", "--fresh-neighbors", "directed:3", *arguments)
    assert (directed["topology"], directed["doubly_stochastic"]) == ("fresh-directed", False)
    both = parsed("spectral-gap", "--topology", "ring", "--fresh-neighbors", "3", *arguments)
    assert [entry["topology"] for entry in both] == ["ring", "fresh-neighbors"]


def test_new_options_reach_the_graph() -> None:
    world = parsed(
        "show", "--topology", "small-world", "--rewire", "0.5", "--degree", "2", "--graph-seed", "3", "--json"
    )
    assert world["edges"] == build("small-world", 8, rewire=0.5, degree=2, graph_seed=3).edges
    drawn = parsed("show", "--topology", "erdos-renyi", "--edge-probability", "0.7", "--json")
    assert drawn["edges"] == build("erdos-renyi", 8, edge_probability=0.7).edges


def test_a_file_brings_its_size(tmp_path: Path) -> None:
    path = tmp_path / "site.txt"
    path.write_text("0 1\n1 2\n", encoding="utf-8")
    shown = parsed("show", "--topology", f"file:{path}", "--json")
    assert (shown["topology"], shown["size"], shown["edges"]) == ("file:site.txt", 3, [[0, 1], [1, 2]])
    assert parsed("spectral-gap", "--topology", f"file:{path}", "--json")["size"] == 3
    result = run("show", "--topology", f"file:{path}", "--size", "4")
    assert isinstance(result.exception, TopologyError)
    assert "site.txt" in str(result.exception)


def test_more_peers_than_can_be_shown_are_refused_with_what_to_do() -> None:
    result = run("show", "--topology", "ring", "--size", "2001")
    assert isinstance(result.exception, ConfigurationError)
    assert "up to 2000 peers" in str(result.exception)
    assert "spectral-gap" in str(result.exception)
    assert parsed("spectral-gap", "--size", "100000", "--json")["size"] == 100000
