"""`dpeer topology`."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpeer.cli.topology import topology
from dpeer.exceptions import ConfigurationError, TopologyError, UnknownName
from dpeer.topology import TIME_VARYING, TOPOLOGIES, build


def run(*arguments: str) -> Result:
    return CliRunner().invoke(topology, arguments, env={"COLUMNS": "80"})


def parsed(*arguments: str) -> Any:
    result = run(*arguments)
    assert result.exception is None, result.output

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(result.output, parse_constant=refuse)


def test_show_json() -> None:
    shown = parsed("show", "--topology", "grid", "--size", "6", "--json")
    assert list(shown) == ["topology", "size", "weights_rule", "edges", "weights"]
    expected = build("grid", 6)
    assert shown == {
        "topology": "grid",
        "size": 6,
        "weights_rule": "metropolis",
        "edges": expected.edges,
        "weights": expected.weights.tolist(),
    }


def test_options_reach_the_graph() -> None:
    assert parsed("show", "--topology", "grid", "--grid-shape", "4X2", "--json")["edges"] == (
        build("grid", 8, grid_shape=(4, 2)).edges
    )
    drawn = parsed("show", "--topology", "random-regular", "--degree", "3", "--graph-seed", "9", "--json")
    assert drawn["edges"] == build("random-regular", 8, degree=3, graph_seed=9).edges
    assert parsed("show", "--weights", "uniform", "--json")["weights_rule"] == "uniform"
    assert parsed("show", "--json")["edges"] == build("ring", 8).edges


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("size", ["8", "12", "100"])
def test_show_fits_80_columns(name: str, size: str) -> None:
    size = {"hypercube": {"12": "16", "100": "128"}}.get(name, {}).get(size, size)
    result = run("show", "--topology", name, "--size", size)
    assert result.exception is None
    assert name in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "…" not in result.output


def test_show_prints_the_matrix_and_the_direction_of_edges() -> None:
    output = run("show", "--topology", "exponential-directed", "--size", "4").output
    assert "8 edges (sender->receiver): 0->1 0->2 1->2 1->3 2->0 2->3 3->0 3->1" in output
    assert output.count(".333") == 12


def test_show_says_how_many_edges_it_leaves_out() -> None:
    output = run("show", "--topology", "full", "--size", "30").output
    assert "435 edges" in output
    assert "335 more" in output


def test_spectral_gap_gives_one_object_for_one() -> None:
    found = parsed("spectral-gap", "--topology", "exponential-directed", "--size", "16", "--json")
    assert found["spectral_gap"] == pytest.approx(0.4)
    assert found["paper_formula"]["value"] == pytest.approx(0.4)
    assert found["rounds_to_1e-3"] == 14


def test_spectral_gap_gives_a_list_for_several() -> None:
    found = parsed("spectral-gap", "--topology", "ring, full", "--size", "8,16", "--json")
    assert [(entry["topology"], entry["size"]) for entry in found] == [
        ("ring", 8),
        ("ring", 16),
        ("full", 8),
        ("full", 16),
    ]
    assert len(parsed("spectral-gap", "--size", "8,16", "--json")) == 2


def test_the_table_is_sorted_by_rounds_that_is_by_gap_and_fits_80_columns() -> None:
    # 144 is a square, but no power of two.
    names = [name for name in TOPOLOGIES if name != "hypercube"]
    output = run("spectral-gap", "--topology", ",".join(names), "--size", "16,144").output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    rows = [line.split() for line in output.splitlines() if line.split()[:1] and line.split()[0] in names]
    rows = [row for row in rows if len(row) == 8]
    assert len(rows) == 2 * len(names)
    rounds = [int(row[3]) for row in rows]
    assert rounds == sorted(rounds)
    # Gaps of periods, which differ in length, cannot be compared.
    gaps = [float(row[2]) for row in rows if row[0] not in TIME_VARYING]
    assert gaps == sorted(gaps, reverse=True)


def test_the_widest_table_fits_80_columns() -> None:
    output = run("spectral-gap", "--topology", "exponential-directed,star,ring", "--size", "16,1000").output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert "524925" in output
    assert "1-999" in output


def test_the_table_shows_the_difference_from_the_papers() -> None:
    output = run("spectral-gap", "--topology", "ring,star,exponential-directed", "--size", "16").output
    table = {line.split()[0]: line.split() for line in output.splitlines() if " 16 " in line}
    assert table["ring"][-2:] == ["0.2056", "-0.1549"]
    assert table["star"][-2:] == ["-", "-"]
    assert table["exponential-directed"][-2:] == ["0.4000", "0"]
    assert "4 times (4/3) sin^2(pi/m)" in output


def test_notes_are_shown_where_they_belong() -> None:
    assert "4 times" not in run("spectral-gap", "--topology", "full").output
    assert "exponential-directed's gap" in run("spectral-gap", "--topology", "exponential").output


@pytest.mark.parametrize("command", ["show", "spectral-gap"])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--topology", "rnig"], UnknownName, "did you mean 'ring'"),
        (["--weights", "unifrom"], UnknownName, "did you mean 'uniform'"),
        (["--size", "1"], TopologyError, "at least 2"),
        (["--size", "eight"], ConfigurationError, "--size 'eight'"),
        (["--size", ""], ConfigurationError, "--size ''"),
        (
            ["--topology", "grid", "--grid-shape", "2by4"],
            ConfigurationError,
            "'2by4': write ROWSxCOLUMNS, for example 2x4",
        ),
        (["--topology", "grid", "--grid-shape", "-2x-4"], ConfigurationError, "'-2x-4'"),
        (["--topology", "grid", "--grid-shape", "2x4x1"], ConfigurationError, "'2x4x1'"),
        (["--topology", "grid", "--grid-shape", "3x3"], TopologyError, "3x3 does not hold 8 peers"),
        (["--topology", "grid", "--size", "7"], TopologyError, "size 7 is prime"),
        (["--topology", "star", "--weights", "uniform"], TopologyError, "use weights metropolis"),
        (["--topology", "random-regular", "--degree", "9"], TopologyError, "degree 9 with size 8"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    command: str, arguments: list[str], error: type[ConfigurationError], message: str
) -> None:
    result = run(command, *arguments)
    assert isinstance(result.exception, error)
    assert result.exception.exit_code == 2
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.output == ""


def test_one_that_does_not_exist_is_not_skipped() -> None:
    result = run("spectral-gap", "--topology", "ring,grid", "--size", "8,13", "--json")
    assert isinstance(result.exception, TopologyError)
    assert "grid: size 13 is prime" in str(result.exception)
    assert result.output == ""


def test_show_takes_one_size() -> None:
    assert isinstance(run("show", "--size", "8,16").exception, ConfigurationError)


@pytest.mark.parametrize(
    "arguments",
    [
        ("spectral-gap", "--topology", "ring,one-peer-exponential", "--size", "16,100000"),
        ("show", "--topology", "full", "--size", "12"),
    ],
)
def test_a_narrow_terminal_cuts_no_numbers(arguments: tuple[str, ...]) -> None:
    output = CliRunner().invoke(topology, arguments, env={"COLUMNS": "50"}).output
    assert "…" not in output
    assert "5.2e+09" in output or output.count(".083") == 144


def test_an_empty_name_is_not_the_default() -> None:
    assert isinstance(run("show", "--topology", "").exception, UnknownName)


def test_more_than_a_million_peers_is_said_at_once() -> None:
    assert "at most 1,000,000 peers" in str(run("spectral-gap", "--size", "1000000000").exception)
    with pytest.raises(TopologyError, match=r"about 13,815,.* edges, and at most 5,000,000 are drawn"):
        build("erdos-renyi", 1_000_000)


def test_the_gaps_come_with_the_losses_that_a_graph_survives() -> None:
    printed = CliRunner().invoke(topology, ["spectral-gap", "--topology", "ring,star", "--size", "8"]).output
    assert "0 of star of 8; 1 of ring of 8" in " ".join(printed.split())
