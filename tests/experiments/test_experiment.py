"""What a comparison consists of: file and flags, the folders of its cells, and what is tried where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, OutputError, UnknownName
from dpeer.experiments.cells import Cell, Condition, make_cell, parse_variant
from dpeer.experiments.experiment import load
from dpeer.experiments.grid_search import Trial, at_edge, best, parse_axis, trials

RING = Condition({"topology": "ring", "partition": None})


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    return path


FILE = """
size = 4
rounds = 6
rho = 0.2
task_options = { a = 1, b = 1 }
[compare]
algorithms = ["local", "dfedsmdc:sam=both"]
topology = ["ring", "full"]
conditions = [{ participation = 0.5 }, { participation = 1.0 }]
seeds = [3, 5]
"""


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    found = load(path, {}, {})
    assert (found.base["size"], found.base["task_options"], found.seeds) == (4, {"a": 1, "b": 1}, [3, 5])
    assert len(found.conditions) == 4
    flags = {"rho": 0.3, "task_options": {"b": 2, "c": 3}}
    other = load(path, flags, {"topology": ["grid"], "seeds": "0-2"})
    assert (other.base["rho"], other.base["task_options"]) == (0.3, {"a": 1, "b": 2, "c": 3})
    assert other.seeds == [0, 1, 2]
    assert [one.label for one in other.conditions] == ["grid, participation 0.5", "grid, participation 1.0"]
    assert load(write(tmp_path, FILE.replace("[3, 5]", "7")), {}, {}).seeds == [7]
    with pytest.raises(UnknownName):
        load(write(tmp_path, FILE.replace("size = 4", "sise = 4")), {}, {})


def made(out: Path, row: str = "dfedmdc", condition: Condition = RING, **base: Any) -> Cell:
    return make_cell(base, parse_variant(row), condition, 0, out)


def begun(cell: Cell) -> Cell:
    cell.claim()
    (cell.folder / "rank-0" / "checkpoint" / "round-00000000").mkdir(parents=True)
    return cell


FAULTS = '[[fault]]\nwhat = "crash"\nranks = [{}]\nround = 1\nfor = 1\n'


def test_a_folder_is_the_cells_with_the_same_settings_only(tmp_path: Path) -> None:
    made(tmp_path, body_lr=0.3).claim()  # no round of it is done: nothing could be lost
    begun(made(tmp_path, body_lr=0.2))
    made(tmp_path, body_lr=0.2, size=8).check()  # a default in so many words
    begun(made(tmp_path, "dfedavgm", preset="paper-cifar", body_lr=0.05))
    made(tmp_path, "dfedavgm", preset="paper-cifar", body_lr=0.05).check()
    faults = tmp_path / "faults.toml"
    faults.write_text(FAULTS.format(1))
    begun(made(tmp_path, "dfedsam", faults=faults)).check()
    faults.write_text("# the same\n" + FAULTS.format(1))
    made(tmp_path, "dfedsam", faults=faults).check()
    faults.write_text(FAULTS.format(2))
    for other in (
        made(tmp_path), made(tmp_path, body_lr=0.2, rounds=3), made(tmp_path, "dfedavgm", preset="paper-cifar"),
        made(tmp_path, "dfedsam", faults=faults),
    ):  # fmt: skip
        with pytest.raises(OutputError):
            other.check()


def test_one_run_serves_all_graphs_where_they_mean_nothing(tmp_path: Path) -> None:
    full = Condition({"topology": "full", "partition": None})
    begun(made(tmp_path, "local"))
    made(tmp_path, "local", full).check()
    assert made(tmp_path, "local", full).folder == made(tmp_path, "local").folder
    server = "fedavg:topology=full"
    assert made(tmp_path, server, full).folder == made(tmp_path, server).folder
    assert made(tmp_path, "dfedmdc", full).folder != made(tmp_path).folder
    other = Condition({"topology": "ring", "partition": "iid"})
    assert made(tmp_path, "local", other).folder != made(tmp_path, "local").folder


def test_folders_are_different_where_only_strange_characters_are(tmp_path: Path) -> None:
    names = [made(tmp_path, f"dfedmdc:head={head}").folder.name for head in ("a/b", "ab", "a b", "a" * 200, "a" * 201)]
    assert len(set(names)) == 5
    assert all("/" not in name and len(name) < 200 for name in names)


def test_each_row_tries_the_settings_that_affect_it(tmp_path: Path) -> None:
    grid = [parse_axis("body-lr+head-lr=0.1,0.2"), parse_axis("rho=0.01,0.02,0.03")]

    def tried(row: str) -> list[Any]:
        found = trials({"rounds": 7}, parse_variant(row), grid, RING, 0.3, tmp_path)
        assert len({trial.cell.folder for trial in found}) == len(found)
        for trial in found:
            s = trial.cell.settings
            assert (s.seed, s.validation, s.evaluate_on, s.evaluate_every) == (100, 0.3, "validation", 7)
            assert trial.cell.folder.parent == tmp_path / "tune"
        return [trial.values for trial in found]

    assert tried("local") == [{"body_lr": 0.1}, {"body_lr": 0.2}]
    assert tried("dfedmdc:body_lr=0.5") == [{"head_lr": 0.1}, {"head_lr": 0.2}]
    assert len(tried("dfedsmdc")) == 6
    assert tried("dfedsam:body_lr=0.5:rho=0.1") == []


def test_the_best_on_validation_data_is_chosen_and_never_a_diverged_one(
    write_cell: Callable[..., Path], tmp_path: Path
) -> None:
    def trial(value: float, accuracy: float | None, loss: float | None = 0.1) -> Trial:
        folder = write_cell(f"tune-{value}", [[accuracy], [accuracy]])
        for path in folder.glob("rank-*/summary.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "test_loss_mixed": loss}))
        settings = made(tmp_path, size=2).settings.model_copy(update={"out": folder})
        return Trial({"body_lr": value}, Cell(parse_variant("dfedmdc"), RING, 0, settings), "")

    low, high, same, gone = trial(0.1, 0.5), trial(0.2, 0.7), trial(0.3, 0.7), trial(0.4, 0.99, None)
    chosen = best([low, high, same, gone])
    assert (chosen.values, chosen.score()) == ({"body_lr": 0.2}, 0.7)
    with pytest.raises(ConfigurationError) as refused:
        best([gone])
    assert "'dfedmdc' diverged with every value" in str(refused.value)
    grid = [parse_axis("body-lr=0.1,0.2,0.3")]
    assert at_edge({"body_lr": 0.3}, grid) == at_edge({"body_lr": 0.1}, grid) == ["body_lr"]
    assert at_edge({"body_lr": 0.2}, grid) == []
    assert at_edge({"sam": "both"}, [parse_axis("sam=body,both")]) == []
