"""What a comparison consists of: files, flags, mistakes in them, folders, and what is tried where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.experiment import load
from dpeer.experiments.tuning import Trial, at_edge, best, parse_axis, trials
from dpeer.experiments.variants import parse_variant

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
vary = { participation = [0.5, 1.0] }
seeds = [3, 5]
target = 1
[small]
size = 3
task_options = { b = 2 }
[small.compare]
seeds = 7
"""


def test_flags_win_over_small_and_that_over_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    full = load(path, {}, {}, small=False)
    assert (full.base["size"], full.base["task_options"], full.seeds) == (4, {"a": 1, "b": 1}, [3, 5])
    small = load(path, {"rho": 0.3, "task_options": {"c": 3}}, {"topology": ["grid"], "seeds": "0-2"}, small=True)
    assert small.base["task_options"] == {"a": 1, "b": 2, "c": 3}
    assert (small.base["size"], small.base["rho"], small.seeds) == (3, 0.3, [0, 1, 2])
    assert load(path, {}, {}, small=True).seeds == [7]
    assert [one.label for one in small.conditions] == ["grid, participation 0.5", "grid, participation 1.0"]
    assert len(full.conditions) == 4


def test_the_rounds_are_those_of_the_presets_unless_a_file_or_a_flag_says_others(tmp_path: Path) -> None:
    rows = {"algorithms": ["local", "dfedmdc"]}
    assert load(None, {}, rows, small=False).base["rounds"] == 20
    assert load(None, {"preset": "paper-cifar"}, rows, small=False).base["rounds"] == 500
    assert load(None, {"preset": "paper-cifar", "rounds": 3}, rows, small=False).base["rounds"] == 3
    assert load(None, {"preset": "paper-dispfl"}, rows, small=False).base["rounds"] == 20, "it says nothing of rounds"
    own = {"algorithms": ["local", "dfedmdc:preset=dp2-fedsam"]}
    assert load(None, {}, own, small=False).base["rounds"] == 200
    with pytest.raises(ConfigurationError, match=r"--rounds .*paper-cifar 500, dp2-fedsam 200"):
        load(None, {"preset": "paper-cifar"}, own, small=False)
    text = "{0}[compare]\nalgorithms=['local']\nconditions=[{{preset='paper-cifar'}}, {{preset='paper-dispfl'}}]\n"
    assert load(write(tmp_path, text.format("")), {}, {}, small=False).base["rounds"] == 500
    assert load(write(tmp_path, text.format("rounds = 4\n")), {}, {}, small=False).base["rounds"] == 4


TARGETS = """
[compare]
algorithms = ["local", "dfedmdc"]
conditions = [{ partition = "iid", target = 0.8 }, { partition = "pathological:2", target = 1 }, { partition = "own" }]
target = 0.3
[small]
rounds = 4
"""


def test_a_table_may_have_a_target_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, TARGETS)
    found = load(path, {}, {}, small=False)
    assert [found.target_of(one) for one in found.conditions] == [0.8, 1.0, 0.3]
    assert all("target" not in one.label for one in found.conditions), "the runs are the same without it"
    flag = load(path, {}, {"target": 0.5}, small=False)
    assert [flag.target_of(one) for one in flag.conditions] == [0.5] * 3
    with pytest.raises(ConfigurationError, match=r"--target 0\.3: .* there are 4"):
        load(path, {}, {}, small=True)
    with pytest.raises(ConfigurationError, match=r"--target 0\.8: .* there are 4"):
        load(write(tmp_path, TARGETS.replace("target = 0.3\n", "")), {}, {}, small=True)


def test_a_value_in_a_row_may_have_a_colon() -> None:
    (row,) = load(None, {}, {"algorithms": ["fedsam:sparsify=top-k:0.4:rho=0.5"]}, small=False).variants
    assert dict(row.changes) == {"sparsify": "top-k:0.4", "rho": 0.5}
    assert parse_variant("fedsam:sparsify=top-k:0.4").changes == {"sparsify": "top-k:0.4"}


def test_fresh_neighbors_take_the_place_of_a_topology(tmp_path: Path) -> None:
    found = load(None, {"fresh_neighbors": "2"}, {"algorithms": ["local", "dfedmdc"]}, small=False)
    (condition,) = found.conditions
    assert condition.label == "fresh-neighbors 2"
    cell = make_cell(found.base, found.variants[1], condition, 0, tmp_path)
    assert (cell.settings.topology, cell.settings.fresh_neighbors) == ("fresh-neighbors", "2")
    own = make_cell({}, parse_variant("dfedmdc:fresh_neighbors=2"), RING, 0, tmp_path)
    assert own.settings.topology == "fresh-neighbors"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"algorithms": ["lokal"]}, "did you mean 'local'"),
        ({"algorithms": ["local", "local"]}, "'local' is named twice"),
        ({"algorithms": ["dfedmdc:size=4"]}, "must be the same for all rows"),
        ({"algorithms": ["dfedmdc:evaluate_on=validation"]}, "measures on test data"),
        ({"algorithms": ["dfedsam:rho=1:rho=2"]}, "given twice"),
        ({"seeds": "4-0"}, "--seeds '4-0'"),
        ({"seeds": "0-999999999999"}, "--seeds"),
        ({"target": 1.5}, "--target = 1.5"),
        ({"target": 0.5}, "5 evaluated rounds"),
        ({"reference": "dfedmdc"}, "unknown row 'dfedmdc'"),
        ({"grid": ["rho=0.1,0.2"]}, "'rho' means nothing to any row"),
        ({"grid": ["body-lr=0.1,0.2"], "tune_seeds": "0"}, "--tune-seeds: seed 0"),
        ({"grid": ["body-lr=0.1", "body-lr=0.2"]}, "'body-lr' is named twice"),
        ({"algorithms": ["dfedmdc"], "grid": ["topology=ring,full"]}, "what the tables differ in"),
        ({"topology": ["ring", "ring"]}, "asked for twice"),
        ({"partition": ["dirichlt:0.3"]}, "dirichlet:0.3"),
        ({"validation": 1.0}, "--validation = 1.0"),
    ],
)
def test_mistakes_in_flags_are_named(plan: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(None, {"rounds": 4}, {"algorithms": ["local"], **plan}, small=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "not valid TOML"),
        ("sise = 4\n[compare]\nalgorithms=['local']", "did you mean 'size'"),
        ("[compare]\nalgoritms=['local']", "unknown key 'algoritms' in [compare]"),
        ("compare = 3", "expected a table, [compare]"),
        ("[compare]\nalgorithms=['local']\n[small]\ncompare = 2", "expected a table, [small.compare]"),
        ("keep = 'best'\n[compare]\nalgorithms=['local']", "never of the best one"),
        ("validation = 0.1\n[compare]\nalgorithms=['local']", "[compare]"),
        ("seed = 1\n[compare]\nalgorithms=['local']", "--seeds"),
        ("[compare]\nalgorithms=['local']\nvary={rounds=[5]}", "same for all runs"),
        ("[compare]\nalgorithms=['local']\nvary={degree=[]}", "compare.vary.degree"),
        ("[compare]\nalgorithms=['local']\nconditions=[{size=4},{size=4}]", "asked for twice"),
        ("[compare]\nalgorithms=['local']\nvary={momentum=[0.1]}", "--momentum"),
        ("[compare]\nalgorithms=['local']\nconditions=[{target=1.5}]", "target = 1.5: expected an accuracy"),
        ("[compare]\nalgorithms=['local']\nconditions=[{target=true}]", "target = True: expected an accuracy"),
    ],
)
def test_mistakes_in_files_are_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text), {"momentum": 0.5}, {}, small=False)
    assert message in str(caught.value)


def made(out: Path, row: str = "dfedmdc", condition: Condition = RING, **base: Any) -> Cell:
    return make_cell(base, parse_variant(row), condition, 0, out)


def begun(cell: Cell) -> Cell:
    cell.claim()
    (cell.folder / "rank-0" / "checkpoint" / "round-00000000").mkdir(parents=True)
    return cell


def test_a_folder_is_the_cells_with_the_same_settings_only(tmp_path: Path) -> None:
    begun(made(tmp_path, body_lr=0.2))
    made(tmp_path, body_lr=0.2, size=8).check()  # a default in so many words
    with pytest.raises(OutputError, match=r"body_lr = 0\.2, here it is 0\.05: give another --out"):
        made(tmp_path).check()
    with pytest.raises(OutputError, match="rounds"):
        made(tmp_path, body_lr=0.2, rounds=3).check()


def test_a_default_that_is_said_is_another_cell_where_the_algorithm_has_its_own(tmp_path: Path) -> None:
    begun(made(tmp_path, "fedrep"))  # head_epochs: its own 10, the settings' default 1
    with pytest.raises(OutputError, match="head_epochs = 10, here it is 1"):
        made(tmp_path, "fedrep", head_epochs=1).check()
    begun(made(tmp_path, "dfedavgm", preset="paper-cifar", body_lr=0.05))
    made(tmp_path, "dfedavgm", preset="paper-cifar", body_lr=0.05).check()
    with pytest.raises(OutputError, match=r"body_lr = 0\.05, here it is 0\.1"):
        made(tmp_path, "dfedavgm", preset="paper-cifar").check()


def test_a_file_of_faults_that_cannot_be_used_shows_before_anything_is_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        made(tmp_path, faults=tmp_path / "none.toml")
    (tmp_path / "late.toml").write_text('[[fault]]\nwhat = "restart"\npick = 1\nround = 1000\n')
    with pytest.raises(ConfigurationError, match="round = 1000 in"):
        made(tmp_path, faults=tmp_path / "late.toml")


def test_a_file_of_faults_with_other_content_is_another_cell(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\nwhat = "restart"\npick = 1\nround = 1\n')
    begun(made(tmp_path, faults=faults)).check()
    faults.write_text('# the same\n[[fault]]\nwhat = "restart"\npick = 1\nround = 1\n')
    made(tmp_path, faults=faults).check()
    faults.write_text('[[fault]]\nwhat = "restart"\npick = 2\nround = 1\n')
    with pytest.raises(OutputError, match="content of faults"):
        made(tmp_path, faults=faults).check()


def test_a_cell_of_a_version_with_another_default_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    """Such a cell.json says nothing of grad_clip, which was off where nobody said otherwise."""
    cell = begun(made(tmp_path))
    asked = json.loads((cell.folder / "cell.json").read_text())
    assert asked.pop("grad_clip") == 1.0
    (cell.folder / "cell.json").write_text(json.dumps(asked))
    made(tmp_path, grad_clip=0).check()
    with pytest.raises(OutputError, match=r"grad_clip = None, here it is 1\.0"):
        made(tmp_path).check()


def test_what_never_got_a_round_done_and_runs_of_others(tmp_path: Path) -> None:
    made(tmp_path, body_lr=0.2).claim()
    made(tmp_path).check()
    cell = begun(made(tmp_path))
    (cell.folder / "cell.json").unlink()
    with pytest.raises(OutputError, match="no comparison made"):
        cell.check()


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


def test_each_row_tries_what_means_something_to_it(tmp_path: Path) -> None:
    grid = [parse_axis("body-lr+head-lr=0.1,0.2"), parse_axis("rho=0.01,0.02,0.03")]

    def tried(row: str) -> list[Any]:
        found = trials({"rounds": 7}, parse_variant(row), grid, RING, [100, 101], 0.3, tmp_path)
        assert len({cell.folder for trial in found for cell in trial.cells}) == 2 * len(found)
        for cell in (cell for trial in found for cell in trial.cells):
            s = cell.settings
            assert (s.validation, s.evaluate_on, s.evaluate_every) == (0.3, "validation", 7)
            assert cell.folder.parent == tmp_path / "tune"
        return [trial.values for trial in found]

    assert tried("local") == [{"body_lr": 0.1}, {"body_lr": 0.2}]
    assert tried("dfedmdc:body_lr=0.5") == [{"head_lr": 0.1}, {"head_lr": 0.2}]
    assert len(tried("dfedsmdc")) == 6
    assert tried("dfedsam:body_lr=0.5:rho=0.1") == []


def test_the_best_on_validation_data_is_chosen_and_never_what_diverged(
    write_cell: Callable[..., Path], tmp_path: Path
) -> None:
    def trial(value: float, accuracy: float | None, loss: float | None = 0.1) -> Trial:
        folder = write_cell(f"tune-{value}", [[accuracy], [accuracy]])
        for path in folder.glob("rank-*/summary.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "test_loss_mixed": loss}))
        settings = made(tmp_path, size=2).settings.model_copy(update={"out": folder})
        return Trial({"body_lr": value}, [Cell(parse_variant("dfedmdc"), RING, 0, settings)])

    low, high, same, gone = trial(0.1, 0.5), trial(0.2, 0.7), trial(0.3, 0.7), trial(0.4, 0.99, None)
    chosen = best([low, high, same, gone])
    assert (chosen.values, chosen.score()) == ({"body_lr": 0.2}, 0.7)
    with pytest.raises(ConfigurationError, match="'dfedmdc' diverged with every value"):
        best([gone])
    grid = [parse_axis("body-lr=0.1,0.2,0.3")]
    assert at_edge({"body_lr": 0.3}, grid) == at_edge({"body_lr": 0.1}, grid) == ["body_lr"]
    assert at_edge({"body_lr": 0.2}, grid) == []
    assert at_edge({"sam": "both"}, [parse_axis("sam=body,both")]) == []
