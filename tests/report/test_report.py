"""`dpeer report`: the page, its pictures, its numbers, and what is said where there can be none."""

import base64
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from dpeer.report.classes import class_mix
from dpeer.report.facets import Report
from dpeer.report.style import log_ticks
from dpeer.results.curves import ACCURACY
from dpeer.results.groups import group_runs
from dpeer.results.reading import find_runs

Command = Callable[..., Any]
MIX, KEPT = "after mixing (mean)", "accuracy: kept (mean)"
TRAINED = "before mixing (mean)"
WORST = "worst peer's accuracy"

SECTIONS = [
    "Results at the end", "Settings", "Accuracy by round", "Accuracy by rank", "Disagreement at the end",
    "Megabytes sent", "Accuracy by megabytes sent", "Graph", "Class mix per peer", "Runs and files",
]  # fmt: skip


@pytest.mark.slow
def test_a_run_gives_a_page_with_every_section_and_its_pictures(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", classes=[3, 0, 7])
    before = dict(mpl.rcParams)
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (0, "")
    assert dict(mpl.rcParams) == before
    page = read_page()
    assert page.headings == SECTIONS
    names = list(page.pictures)
    assert names == [
        "accuracy-by-round", "accuracy-by-rank", "disagreement", "bytes-by-round", "accuracy-by-bytes", "graph",
        "class-mix",
    ]  # fmt: skip
    assert ended.out.splitlines() == [
        "dpeer-report/index.html: 1 run; open it in a browser",
        *(f"dpeer-report/{name}.png" for name in names),
    ]
    for name, (source, alt) in page.pictures.items():
        kind, _, content = source.partition(",")
        assert kind == "data:image/png;base64"
        png = base64.b64decode(content, validate=True)
        assert png == Path("dpeer-report", f"{name}.png").read_bytes()
        with Image.open(io.BytesIO(png)) as image:
            image.load()
            assert image.width >= 1000
            assert len(image.convert("RGB").getcolors(1 << 22) or []) > 20
        assert len(alt) > 20


@pytest.mark.usefixtures("undrawn")
def test_the_page_needs_nothing_beside_it(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a")
    dpeer("report", "a")
    page = read_page()
    assert not {"script", "link", "iframe"} & page.tags
    assert "http" not in page.source.replace("http-equiv", "")
    assert "@import" not in page.source
    assert "url(" not in page.source


@pytest.mark.usefixtures("undrawn")
def test_pictures_are_never_wider_than_the_screen(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a")
    dpeer("report", "a")
    (rule,) = re.findall(r"\nfigure img \{(.*)\}", read_page().source)
    assert "max-width: 100%; height: auto" in rule
    assert "min-width" not in rule


@pytest.mark.usefixtures("undrawn")
def test_the_numbers_are_those_of_the_files(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a", (0.25, 0.5, 1.0))
    dpeer("report", "a")
    (line,) = read_page().results()
    lines = [
        [json.loads(text) for text in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        for rank in range(3)
    ]
    assert line[MIX] == f"{fmean(own[-1]['accuracy'] for own in lines):.4f}" == "0.5833"
    assert line[TRAINED] == f"{fmean(own[-1]['accuracy_trained'] for own in lines):.4f}" == "0.2917"
    assert line[WORST] == "0.2500 (rank 0)"
    assert line["sent in all"] == f"{sum(entry['bytes_sent'] for own in lines for entry in own) / 1e6:.1f} MB"
    assert line["wall time"] == "12.5 s"
    assert line["consensus distance"] == "1.5"
    assert (line["seeds"], line["peers"]) == ("1", "3")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("summary", [True, False])
@pytest.mark.parametrize(
    ("spent", "message"),
    [
        ({"epsilon": 8.721}, "8.721"),
        ({"epsilon": 24.38, "epsilon_aggregate": 24.38, "epsilon_neighbor": 195.41},
         "24.38 against an outsider and 195.4 against a neighbor"),
        ({"epsilon": None, "released_without_noise": True}, "unbounded"),
    ],
)  # fmt: skip
def test_epsilon_says_against_whom(
    dpeer: Command, make_run: Any, read_page: Any, spent: dict[str, Any], message: str, summary: bool
) -> None:
    """From the summary, or of a run that goes on from the last lines."""
    folder = make_run("run", summary=summary)
    for rank in range(2):
        name = "summary.json" if summary else "metrics.jsonl"
        path = folder / f"rank-{rank}" / name
        entries = [json.loads(line) for line in (path.read_text().splitlines() if not summary else [path.read_text()])]
        for entry in entries:
            entry["privacy"] = {"delta": 1e-5, "releases": 1, **spent} if rank else {"epsilon": 1e-3}
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
        if not summary:
            (folder / f"rank-{rank}" / "summary.json").unlink()
    assert dpeer("report", "run").code == 0
    (line,) = read_page().results()
    assert line["epsilon"] == message


@pytest.mark.usefixtures("undrawn")
def test_runs_that_differ_in_their_seed_are_one_line(dpeer: Command, make_run: Any, read_page: Any) -> None:
    found = [(0.25, 0.5, 1.0), (0.5, 0.5, 0.75), (0.125, 0.75, 0.75)]
    for seed, accuracy in enumerate(found):
        make_run(f"sweep/cell-{seed}", accuracy, seed=seed, distance=float(seed))
    make_run("sweep/other", algorithm="local", distance=None)
    assert dpeer("report", "sweep").code == 0
    page = read_page()
    first, other = page.results()
    means = [fmean(accuracy) for accuracy in found]
    assert first["seeds"] == "3"
    assert first[MIX] == f"{fmean(means):.4f} ± {stdev(means):.4f}"
    assert first[WORST] == "0.1250 (rank 0, seed 2)"
    assert first["consensus distance"] == "1"
    assert (first["run"], other["run"]) == ("dfedmdc", "local")
    assert other["consensus distance"] == "-"
    assert "4 runs in 2 groups" in page.text
    assert page.tables[1] == [["no.", "algorithm"], ["1", "dfedmdc"], ["2", "local"]]
    assert "dfedmdc (3 seeds)" in page.pictures["accuracy-by-round"][1]


@pytest.mark.usefixtures("undrawn")
def test_how_a_run_was_computed_makes_no_line_of_its_own(dpeer: Command, make_run: Any, read_page: Any) -> None:
    """Two seeds with other `--workers` were two lines once."""
    for seed, values in enumerate(({"workers": 1}, {"workers": 2}, {"threads": 3, "log_level": "debug", "wait": 9.0})):
        make_run(f"run{seed}", seed=seed, **values)
    make_run("other", seed=0, weights="uniform")
    dpeer("report", "run0", "run1", "run2", "other")
    assert [line["seeds"] for line in read_page().results()] == ["3", "1"]


@pytest.mark.usefixtures("undrawn")
def test_the_same_seed_twice_is_two_lines(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("old/a")
    make_run("new/a", (0.9, 0.9, 0.9))
    dpeer("report", "old", "new", "--label", "old", "--label", "new")
    assert [line["run"] for line in read_page().results()] == ["old", "new"]
    make_run("new/b", seed=1)
    make_run("old/b", seed=1)
    dpeer("report", "old", "new")
    assert [line["seeds"] for line in read_page().results()] == ["2", "2"]


@pytest.mark.slow
def test_names_are_text(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("<b>x&y", task="<script>alert(1)</script>")
    make_run("two", task="_$x$_")
    ended = dpeer("report", "<b>x&y", "two", "--title", "</title><i>", "--label", '"><i>', "--label", "_two")
    assert (ended.code, ended.err) == (0, "")
    page = read_page()
    assert not {"b", "script", "i"} & (page.tags - {"b"})
    assert "<b>x&y" in page.text
    assert "<b>x" not in page.source
    assert [line["run"] for line in page.results()] == ['"><i>', "_two"]


@pytest.mark.slow
def test_many_runs_are_panels_of_few_lines(dpeer: Command, make_run: Any, read_page: Any) -> None:
    for number, algorithm in enumerate(("local", "dfedavgm", "dfedmdc", "fedrep", "ditto")):
        for partition in ("iid", "pathological:2"):
            make_run(f"s/{algorithm}-{partition}", (0.1 * number, 0.5), algorithm=algorithm, partition=partition)
    assert dpeer("report", "s").code == 0
    page = read_page()
    assert len(page.results()) == 10
    assert page.results()[0]["run"] == "dfedavgm, iid"
    assert "ditto" in page.pictures["accuracy-by-round"][1]


@pytest.mark.usefixtures("undrawn")
def test_more_lines_than_can_be_told_apart_are_the_best(dpeer: Command, make_run: Any, read_page: Any) -> None:
    for number in range(11):
        make_run(f"s/r{number}", (0.05 * number, 0.5), body_lr=0.01 * (number + 1))
    dpeer("report", "s")
    page = read_page()
    assert "The 8 of 11 groups with the best accuracy; the table has all." in page.text
    assert "body_lr 0.01:" not in page.pictures["accuracy-by-round"][1]
    assert "body_lr 0.11:" in page.pictures["accuracy-by-round"][1]
    assert len(page.results()) == 11


@pytest.mark.slow
def test_a_run_without_accuracies_is_judged_by_its_loss(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", (None, None, None))
    assert dpeer("report", "a").code == 0
    page = read_page()
    (line,) = page.results()
    assert line["test loss: kept (mean)"] == line[MIX] == f"{fmean([1.0, 2.0, 3.0]):.4f}"
    assert line["worst peer's test loss"] == "3.0000 (rank 2)"
    assert TRAINED not in line
    assert "Test loss by round" in page.headings


def test_nothing_evaluated_yet(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a", (None, None), summary=False)
    for rank in range(2):
        own = folder / f"rank-{rank}"
        (own / "summary.json").unlink()
        (own / "metrics.jsonl").write_text('{"round": 0, "accuracy": null, "bytes_sent": 5}\n')
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (0, "")
    page = read_page()
    assert "No round of these runs was evaluated" in page.text
    assert page.runs()[0]["state"] == "unfinished"
    assert page.results()[0]["peers"] == "2"


@pytest.mark.slow
def test_one_round_of_two_peers(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", (0.5, 1.0), rounds=1)
    assert dpeer("report", "a").code == 0
    assert "0.750 in round 1, 0.750 in round 1" in read_page().pictures["accuracy-by-round"][1]


def test_a_running_run_shows_what_there_is(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a", rounds=4, summary=False)
    for rank in range(3):
        (folder / f"rank-{rank}" / "summary.json").unlink()
    path = folder / "rank-1" / "metrics.jsonl"
    path.write_text("\n".join([*path.read_text().splitlines()[:2], '{"round": 2, "accu', "[]", '{"round": "x"}']))
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (0, "")
    page = read_page()
    (run,) = page.runs()
    assert run["state"] == "unfinished"
    assert run["notes"] == (
        "unfinished: 2 rounds completed by every peer that left files; 3 damaged lines left out (rank 1)"
    )
    assert page.results()[0][MIX] == f"{fmean([0.5, 0.75 * 2 / 4, 0.9]):.4f}"
    # Two peers are ahead: a mean over them alone is not drawn.
    ends = fmean([0.5, 0.75, 0.9]) * 2 / 4
    assert f"{ends:.3f} in round 2." in page.pictures["accuracy-by-round"][1]


@pytest.mark.slow
def test_a_peer_that_was_lost(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a", status="failed")
    for path in (folder / "rank-2").iterdir():
        path.unlink()
    summary = json.loads((folder / "summary.json").read_text())
    summary["accuracy"][2] = None
    summary["completed_rounds"][2] = None
    (folder / "summary.json").write_text(json.dumps(summary))
    dpeer("report", "a")
    page = read_page()
    assert page.runs()[0]["notes"].endswith("1 of 3 peers left no files here (rank 2)")
    assert page.results()[0][MIX] == f"{fmean([0.5, 0.75]):.4f}"
    assert "A white peer has none." in page.text


@pytest.mark.slow
def test_disagreement_by_round_where_it_was_recorded(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a")
    (folder / "disagreement.jsonl").write_text(
        '{"round": 0, "consensus_distance": 3.5}\n{"round": 1, "consensus_distance": 0.01}\nbroken\n'
    )
    dpeer("report", "a")
    assert "disagreement-by-round" in read_page().pictures
    (folder / "disagreement.jsonl").unlink()
    dpeer("report", "a")
    assert "disagreement-by-round" not in read_page().pictures
    assert not Path("dpeer-report/disagreement-by-round.png").exists()


@pytest.mark.slow
def test_the_generalization_gap_where_it_was_measured(dpeer: Command, make_run: Any, read_page: Any) -> None:
    folder = make_run("a")
    make_run("b", algorithm="fedavg")
    for rank in range(3):
        path = folder / f"rank-{rank}" / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        more = [line | {"training_accuracy": 0.95, "generalization_gap": 0.95 - line["accuracy"]} for line in lines]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in more))
    assert dpeer("report", "a", "b").code == 0
    names = ("training accuracy after mixing", "generalization gap")
    found = {tuple(line[name] for name in names) for line in read_page().results()}
    assert found == {("-", "-"), ("0.9500", "+0.2333")}
    assert "generalization-gap-by-round" in read_page().pictures
    assert dpeer("report", "b").code == 0
    assert names[1] not in read_page().results()[0]
    assert "generalization-gap-by-round" not in read_page().pictures
    assert not Path("dpeer-report/generalization-gap-by-round.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"topology": "fresh-neighbors", "fresh_neighbors": "2"},
        {"topology": "one-peer-exponential"},
        {"topology": "full", "weights": "fastest"},
        {"topology": "random-regular"},
    ],
)
def test_graphs_are_drawn(dpeer: Command, make_run: Any, read_page: Any, settings: dict[str, Any]) -> None:
    make_run("a", (0.5,) * 8, **settings)
    assert dpeer("report", "a").code == 0
    assert f"{settings['topology']} of 8 peers" in read_page().pictures["graph"][1]


@pytest.mark.usefixtures("undrawn")
def test_a_graph_that_is_not_known_is_left_out(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", topology="file:gone.json")
    assert dpeer("report", "a").code == 0
    page = read_page()
    assert "graph" not in page.pictures
    assert "No graph to draw" in page.text


@pytest.mark.slow
@pytest.mark.parametrize("classes", [1, 17, 62])
def test_any_number_of_classes(dpeer: Command, make_run: Any, read_page: Any, classes: int) -> None:
    make_run("a", classes=[4] * classes)
    assert dpeer("report", "a").code == 0
    assert f"3 peers with {4 * classes} to {4 * classes} samples" in read_page().pictures["class-mix"][1]


@pytest.mark.usefixtures("undrawn")
def test_without_class_counts_a_sentence_stands_there(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a")
    dpeer("report", "a")
    assert "do not say how many samples of each class" in read_page().text


@pytest.mark.usefixtures("undrawn")
def test_baselines_and_nested_folders_are_found_once(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("x/deep/a")
    make_run("x/deep/a/baseline-local", algorithm="local")
    make_run("x/deep/a/checkpoint/no")
    make_run("x/tune/trial")
    dpeer("report", "x", "x/deep")
    assert [run["folder"] for run in read_page().runs()] == ["x/deep/a", "x/deep/a/baseline-local"]


@pytest.mark.usefixtures("undrawn")
def test_a_report_is_replaced_and_nothing_else_is(dpeer: Command, make_run: Any) -> None:
    make_run("a")
    assert dpeer("report", "a", "--out", "here/r").code == 0
    assert dpeer("report", "a", "--out", "here/r").code == 0
    ended = dpeer("report", "a", "--out", "a")
    assert (ended.code, ended.err) == (2, "dpeer: --out 'a' holds something that is no report: name another folder\n")
    Path("file").write_text("x")
    assert dpeer("report", "a", "--out", "file").err == "dpeer: --out 'file' is a file: name a folder\n"


def test_folders_without_runs(dpeer: Command, make_run: Any) -> None:
    Path("x/y").mkdir(parents=True)
    Path("x/summary.json").write_text("[1]")
    Path("x/y/summary.json").write_text('{"other": 1}')
    ended = dpeer("report", "x")
    assert (ended.code, ended.err) == (
        2,
        "dpeer: 'x' holds no run: expected x/summary.json, or folders that hold one\n",
    )
    assert dpeer("report", "gone").code == 2
    assert not Path("dpeer-report").exists()
    assert dpeer("report").code == 2


def test_labels_for_some_folders_only(dpeer: Command, make_run: Any) -> None:
    make_run("a")
    make_run("b")
    ended = dpeer("report", "a", "b", "--label", "x")
    assert (ended.code, ended.err) == (2, "dpeer: --label: 1 for 2 folders; give one for each, or none\n")


def test_a_missing_library_is_named(dpeer: Command, make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("a")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (
        2,
        "dpeer: dpeer report needs matplotlib and Jinja2: pip install 'dpeer[plot]'\n",
    )


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_real_run(dpeer: Command, read_page: Any) -> None:
    options = ("--size", 3, "--rounds", 2, "--body-epochs", 1, "--algorithm", "dfedmdc", "--out", "real")
    assert dpeer("simulate", *options).code == 0
    ended = dpeer("report", "real")
    assert (ended.code, ended.err) == (0, "")
    (line,) = read_page().results()
    summary = json.loads(Path("real/summary.json").read_text())
    assert line[MIX] == f"{summary['accuracy_mixed_mean']:.4f}"
    assert line[KEPT] == f"{summary['accuracy_mean']:.4f}"
    assert line[TRAINED] == f"{summary['accuracy_trained_mean']:.4f}"
    assert line[WORST].startswith(f"{min(summary['accuracy']):.4f} (rank ")
    assert line["consensus distance"] == f"{summary['consensus_distance']:.4g}"
    assert read_page().runs()[0]["notes"] == ""


def test_a_tasks_own_metrics_have_a_table(dpeer: Command, make_run: Any, read_page: Any, undrawn: None) -> None:
    for name, seed, dice in (("a", 0, (0.2, 0.4, None)), ("b", 1, (0.5, 0.5, 0.5)), ("c", 0, (0.1, 0.1, 0.1))):
        folder = make_run(name, seed=seed, **({"algorithm": "dfedavgm"} if name == "c" else {}))
        for rank, value in enumerate(dice):
            path = folder / f"rank-{rank}" / "summary.json"
            own = json.loads(path.read_text())
            own |= {"metrics": {"accuracy": 0.5, "dice": value}, "measured": {"accuracy": 0.9, "auroc": 0.75}}
            path.write_text(json.dumps(own))
    assert dpeer("report", "a", "b", "c").code == 0
    page = read_page()
    assert "More metrics at the end" in page.headings
    heading, *rows = page.tables[1]
    assert heading == ["no.", "AUROC", "dice"]
    assert rows == [
        ["1", "0.7500 ± 0.0000", f"{fmean([0.3, 0.5]):.4f} ± {stdev([0.3, 0.5]):.4f}"], ["2", "0.7500", "0.1000"],
    ]  # fmt: skip


def test_of_a_run_that_goes_on_the_last_evaluated_round_counts(
    dpeer: Command, make_run: Any, read_page: Any, undrawn: None
) -> None:
    folder = make_run("a", summary=False)
    for rank in range(3):
        (folder / f"rank-{rank}" / "summary.json").unlink()
        path = folder / f"rank-{rank}" / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line, metrics in zip(lines, ({"dice": 0.1}, {"dice": 0.2 * (rank + 1)}), strict=False):
            line["metrics"] = metrics
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert dpeer("report", "a").code == 0
    assert ["1", "0.4000"] in read_page().tables[1]


def alone(folder: Path, rank: int = 1) -> Path:
    """What the host of one peer has: its own files."""
    for path in folder.iterdir():
        if path.name != f"rank-{rank}":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


@pytest.mark.usefixtures("undrawn")
def test_of_one_peer_alone_the_page_says_so_first_and_draws_no_picture_of_many(
    dpeer: Command, make_run: Any, read_page: Any
) -> None:
    alone(make_run("a"))
    assert dpeer("report", "a").code == 0
    page = read_page()
    message = "Only rank 1, one of 3 peers, left files here: all figures are its own, not the whole federation's."
    assert message in page.text.partition("Results at the end")[0]
    (line,) = page.results()
    assert (line["peers"], line[MIX], line[WORST]) == ("1 of 3", "0.7500", "0.7500 (rank 1)")
    assert list(page.pictures) == ["accuracy-by-round", "graph"]
    assert "A peer sends 2.0 MB in each round, 4.0 MB in 2 rounds." in page.text
    assert "percentile" not in page.text
    assert "no consensus distance: it takes the files of all peers." in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_peer_beside_a_federation_is_not_compared_with_its_mean(
    dpeer: Command, make_run: Any, read_page: Any
) -> None:
    alone(make_run("mine", partition="iid"))
    make_run("theirs", algorithm="local", partition="iid")
    assert dpeer("report", "theirs", "mine").code == 0
    page = read_page()
    top = page.text.partition("Results at the end")[0]
    assert "No. 2, dfedmdc: only rank 1, one of 3 peers, left files here" in top
    assert "No. 1" not in top
    assert "A mean over some peers cannot be compared with one over others: compare these runs rank by rank." in top
    assert [line["peers"] for line in page.results()] == ["3", "1 of 3"]
    assert "dfedmdc (1 of 3 peers): 0.375 in round 1" in page.pictures["accuracy-by-round"][1]
    assert "accuracy-by-rank" in page.pictures
    make_run("others", algorithm="ditto", partition="iid")
    assert dpeer("report", "theirs", "others").code == 0
    assert "cannot be compared" not in read_page().text


@pytest.mark.usefixtures("undrawn")
def test_bodies_that_differ_by_rounding_agree(dpeer: Command, make_run: Any, read_page: Any) -> None:
    for name, topology, distance in (("a", "full", 2.5e-16), ("b", "ring", 1.5)):
        folder = make_run(name, topology=topology, distance=distance)
        lines = [{"round": number, "consensus_distance": distance} for number in range(2)]
        (folder / "disagreement.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert dpeer("report", "a").code == 0
    page = read_page()
    assert "The peers' bodies are equal at the end: their consensus distance is 0." in page.text
    assert page.results()[0]["consensus distance"] == "0"
    assert not {"disagreement", "disagreement-by-round"} & page.pictures.keys()
    assert dpeer("report", "a", "b").code == 0
    page = read_page()
    assert "Where bodies differ only by rounding the line is at 0." in page.text
    assert [line["consensus distance"] for line in page.results()] == ["0", "1.5"]
    assert {"disagreement", "disagreement-by-round"} <= page.pictures.keys()


@pytest.mark.parametrize(("low", "high"), [(0.03, 1.5), (1e-3, 1.5), (1e-5, 2.0), (2.5e-16, 1.5), (1e-8, 300.0)])
def test_a_logarithmic_axis_has_ticks_over_any_number_of_decades(low: float, high: float) -> None:
    axes = Figure().subplots()
    axes.plot([1, 2], [low, high])
    axes.set_yscale("log")
    log_ticks(axes.yaxis)
    least, most = axes.get_ylim()
    seen = [tick for tick in axes.yaxis.get_majorticklocs() if least <= tick <= most]
    assert 3 <= len(seen) <= 12


@pytest.mark.usefixtures("undrawn")
def test_classes_have_their_names_whatever_their_order_on_a_peer(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", classes=[5, 2], names=(("ill", "well"), ("well", "ill"), ("well", "dead")))
    assert dpeer("report", "a").code == 0
    page = read_page()
    assert page.pictures["class-mix"][1].endswith("of the classes ill, well, dead.")
    assert "numbered" not in page.text
    panel = class_mix(Report.of(group_runs(find_runs([Path("a")])), ACCURACY))
    assert panel.figure is not None
    widths = [
        {round(box.get_extents().y0 + 0.41): round(box.get_extents().width) for box in one.get_paths()}
        for one in panel.figure.axes[0].collections
    ]
    assert widths == [{0: 5, 1: 2}, {0: 2, 1: 5, 2: 5}, {2: 2}], "ill, well and dead, by rank"
    make_run("b", classes=[5, 2], names=(("ill", "well"), ("well",), ("well", "ill")))  # damaged: numbers will do
    assert dpeer("report", "b").code == 0
    assert read_page().pictures["class-mix"][1].endswith("3 peers with 7 to 7 samples of 2 classes.")


@pytest.mark.slow
def test_names_of_classes_are_drawn(dpeer: Command, make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    message: set[str] = set()
    text, legend = Axes.text, Figure.legend

    def texts(self: Axes, x: float, y: float, words: str, **options: Any) -> Any:
        message.add(words)
        return text(self, x, y, words, **options)

    def legends(self: Figure, **options: Any) -> Any:
        message.update(handle.get_label() for handle in options["handles"])
        return legend(self, **options)

    monkeypatch.setattr(Axes, "text", texts)
    monkeypatch.setattr(Figure, "legend", legends)
    make_run("a", classes=[5, 4], names=(("_home $x$", "readmitted after more than thirty days"),) * 3)
    assert dpeer("report", "a").code == 0
    assert {" _home $x$", "readmitted after more t…"} <= message
    assert not any(label.startswith("class ") for label in message)


@pytest.mark.usefixtures("undrawn")
def test_long_options_stay_on_the_page(dpeer: Command, make_run: Any, read_page: Any) -> None:
    make_run("a", task_options={"path": "/data/" + 40 * "long-" + "visits.csv"})
    dpeer("report", "a")
    source = read_page().source
    (rule,) = re.findall(r"\n\.settings span \{(.*)\}", source)
    assert "max-width: 100%" in rule
    assert "nowrap" not in rule
    assert re.search(r"\n\.settings \{[^}]*overflow-wrap: anywhere", source)
