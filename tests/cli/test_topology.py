"""`dpeer topology show` and `spectral-gap`."""

from pathlib import Path

import numpy as np
import pytest

from dpeer.topology import TIME_VARYING, TOPOLOGIES, build
from tests.cli.command import parsed, text, words

SHOW, GAP = ("topology", "show"), ("topology", "spectral-gap")


@pytest.mark.parametrize(
    ("arguments", "name", "size", "values"),
    [
        ((), "ring", 8, {}),
        (("--topology", "grid", "--size", 6), "grid", 6, {}),
        (("--topology", "grid:4X2"), "grid:4X2", 8, {}),
        (("--topology", "random-regular:3", "--graph-seed", 9), "random-regular:3", 8, {"graph_seed": 9}),
        (("--weights", "uniform"), "ring", 8, {"weights": "uniform"}),
        (("--topology", "small-world:2,0.5"), "small-world:2,0.5", 8, {}),
        (("--topology", "erdos-renyi:0.7"), "erdos-renyi:0.7", 8, {}),
    ],
)  # fmt: skip
def test_show_prints_the_graph_of_its_options_as_json(
    arguments: tuple[object, ...], name: str, size: int, values: dict[str, object]
) -> None:
    expected = build(name, size, **values)
    assert parsed(*SHOW, *arguments) == {
        "topology": name, "size": size, "weights_rule": expected.weights_rule, "edges": expected.edges,
        "weights": expected.weights.tolist(),
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(TIME_VARYING))
def test_show_gives_every_round_of_a_changing_graph(name: str) -> None:
    shown = parsed(*SHOW, "--topology", name, "--size", 6)
    assert list(shown) == ["topology", "size", "weights_rule", "edges", "weights", "period", "rounds"]
    graph = build(name, 6)
    assert graph.changing
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


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_show_fits_80_columns(name: str) -> None:
    for size in (8, 16, 128):
        assert name in text(*SHOW, "--topology", name, "--size", size)


def test_the_table_is_sorted_by_rounds_that_is_by_gap() -> None:
    # 144 is a square, but no power of two.
    names = [name for name in TOPOLOGIES if name != "hypercube"]
    printed = text(*GAP, "--topology", ",".join(names), "--size", "16,144")
    rows = [row for row in map(str.split, printed.splitlines()) if len(row) == 6 and row[0] in names]
    assert len(rows) == 2 * len(names)
    rounds = [int(row[4]) for row in rows]
    assert rounds == sorted(rounds)
    # Gaps of periods, which differ in length, cannot be compared.
    gaps = [float(row[3]) for row in rows if row[0] not in TIME_VARYING]
    assert gaps == sorted(gaps, reverse=True)


def test_a_federation_file_has_the_graph_and_options_win(tmp_path: Path) -> None:
    path = tmp_path / "dpeer.toml"
    path.write_text('topology = "grid:3x2"\nsize = 6\nweights = "max-degree"\n', encoding="utf-8")
    file = ("--federation", path)
    expected = build("grid:3x2", 6, weights="max-degree")
    assert parsed(*SHOW, *file)["weights"] == expected.weights.tolist()
    assert parsed(*SHOW, *file, "--weights", "metropolis", "--size", 12, "--topology", "grid:3x4")["size"] == 12
    assert [entry["topology"] for entry in parsed(*GAP, *file, "--topology", "ring,full")] == ["ring", "full"]
    path.write_text('topology = "fresh-directed:3"\nsize = 6\n', encoding="utf-8")
    assert parsed(*SHOW, *file)["topology"] == "fresh-directed:3"
    assert parsed(*SHOW, *file, "--topology", "ring")["topology"] == "ring"


def test_declared_weights_of_a_federation_file_are_shown_with_p_and_the_gap(tmp_path: Path) -> None:
    path, numbers = tmp_path / "dpeer.toml", (400, 20, 30.5, 7, 90, 3)
    tables = "".join(f"[rank.{rank}]\nweight = {one}\n" for rank, one in enumerate(numbers))
    path.write_text(f'topology = "grid"\nsize = 6\nweights = "declared"\n{tables}', encoding="utf-8")
    file, p = ("--federation", path), np.array(numbers) / sum(numbers)
    expected = build("grid", 6, weights="declared:400,20,30.5,7,90,3")
    shown = parsed(*SHOW, *file)
    assert list(shown) == [
        "topology", "size", "weights_rule", "declared", "stationary", "spectral_gap", "edges", "weights",
    ]  # fmt: skip
    assert (shown["weights_rule"], shown["declared"]) == ("declared", list(numbers))
    assert shown["stationary"] == pytest.approx(p, rel=1e-14)
    assert shown["weights"] == expected.weights.tolist()
    values = np.sort(np.abs(np.linalg.eigvals(expected.weights)))
    assert shown["spectral_gap"] == pytest.approx(1 - values[-2], abs=1e-12)
    printed = words(*SHOW, *file)
    assert "grid, 6 peers, weights declared," in printed
    assert "p = .7266 .0363 .0554 .0127 .1635 .0054, by rank: W is reversible, p_i W_ij = p_j W_ji, and not " in printed
    assert f"gap: {1 - values[-2]:.4f}" in printed
    assert "Columns do not sum" not in printed
    found = parsed(*GAP, *file, "--topology", "grid,ring")
    assert [one["stationary"] for one in found] == [shown["stationary"]] * 2
    assert (found[0]["spectral_gap"], found[0]["doubly_stochastic"]) == (shown["spectral_gap"], False)
    printed = words(*GAP, *file, "--topology", "grid,fresh:2")
    assert printed.count("Weights declared: p = .7266") == 1
    assert "The gap is that of D^1/2 W D^-1/2" in printed
    assert "the average is not kept" not in printed
    assert "period" in parsed(*SHOW, *file, "--topology", "fresh:2")
    equal = ("--weights", "declared:2,2,2", "--size", 3)
    assert "p is equal for all ranks: W is that of metropolis, and doubly stochastic." in words(*SHOW, *equal)
    assert parsed(*SHOW, *file, "--weights", "metropolis")["weights_rule"] == "metropolis"
    path.write_text(f'topology = "grid"\nsize = 6\n{tables}', encoding="utf-8")
    assert parsed(*SHOW, *file, "--weights", "declared") == shown
