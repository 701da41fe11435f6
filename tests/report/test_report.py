"""`dpeer report`: the page, its pictures and numbers, and the sentences that stand where none can be."""

import base64
import io
import re
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

Command = Callable[..., Any]
MIX, KEPT = "after mixing (mean)", "accuracy: kept (mean)"
TRAINED = "before mixing (mean)"
WORST = "worst peer's accuracy"


@pytest.fixture
def page_of(dpeer: Command, read_page: Any) -> Callable[..., Any]:
    """The page of a report of some folders."""

    def report(*arguments: str) -> Any:
        ended = dpeer("report", *arguments)
        assert (ended.code, ended.err) == (0, "")
        return read_page()

    return report


@pytest.mark.slow
def test_a_run_has_a_page_with_every_section_and_its_pictures(dpeer: Command, make_run: Any, read_page: Any) -> None:
    def fitted(rank: int, line: dict[str, Any]) -> dict[str, Any]:
        return {"training_accuracy": 0.95, "generalization_gap": 0.95 - line["accuracy"]}

    make_run("a", classes=[3, 0, 7], lines=fitted, distances=[3.5, 0.01])
    before = dict(mpl.rcParams)
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (0, "")
    assert dict(mpl.rcParams) == before
    page = read_page()
    pictures = {
        "accuracy-by-round": "Accuracy by round", "generalization-gap-by-round": "Generalization gap by round",
        "accuracy-by-rank": "Accuracy by rank", "disagreement": "Disagreement at the end",
        "disagreement-by-round": "Disagreement by round", "bytes-by-round": "Megabytes sent",
        "accuracy-by-bytes": "Accuracy by megabytes sent", "graph": "Graph", "class-mix": "Class mix per peer",
    }  # fmt: skip
    assert page.headings == ["Results at the end", "Settings", *pictures.values(), "Runs and files"]
    assert list(page.pictures) == list(pictures)
    assert ended.out.splitlines() == [
        "dpeer-report/index.html: 1 run; open it in a browser", *(f"dpeer-report/{name}.png" for name in pictures),
    ]  # fmt: skip
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


@pytest.mark.slow
def test_many_runs_are_panels_of_few_lines(make_run: Any, page_of: Any) -> None:
    for number, algorithm in enumerate(("local", "dfedavgm", "dfedmdc", "fedrep", "ditto")):
        for partition in ("iid", "pathological:2"):
            make_run(f"s/{algorithm}-{partition}", (0.1 * number, 0.5), algorithm=algorithm, partition=partition)
    page = page_of("s")
    assert len(page.results()) == 10
    assert page.results()[0]["run"] == "dfedavgm, iid"
    assert "ditto" in page.pictures["accuracy-by-round"][1]


@pytest.mark.usefixtures("undrawn")
def test_the_page_needs_nothing_beside_it_and_fits_the_screen(make_run: Any, page_of: Any) -> None:
    make_run("a", task_options={"path": "/data/" + 40 * "long-" + "visits.csv"})
    page = page_of("a")
    assert not {"script", "link", "iframe"} & page.tags
    for outside in ("http", "@import", "url("):
        assert outside not in page.source.replace("http-equiv", "")
    (rule,) = re.findall(r"\nfigure img \{(.*)\}", page.source)
    assert "max-width: 100%; height: auto" in rule
    assert "min-width" not in rule
    (rule,) = re.findall(r"\n\.settings span \{(.*)\}", page.source)
    assert "max-width: 100%" in rule
    assert "nowrap" not in rule
    assert re.search(r"\n\.settings \{[^}]*overflow-wrap: anywhere", page.source)


@pytest.mark.usefixtures("undrawn")
def test_the_numbers_are_those_of_the_files(make_run: Any, page_of: Any) -> None:
    make_run("a", (0.25, 0.5, 1.0))
    page = page_of("a")
    (line,) = page.results()
    expected = {
        MIX: f"{fmean([0.25, 0.5, 1.0]):.4f}", TRAINED: "0.2917", WORST: "0.2500 (rank 0)", "sent in all": "12.0 MB",
        "wall time": "12.5 s", "consensus distance": "1.5", "seeds": "1", "peers": "3",
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected
    assert "do not say how many samples of each class" in page.text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("spent", "text"),
    [
        ({"epsilon": 8.721}, "8.721"),
        ({"epsilon": 24.38, "epsilon_aggregate": 24.38, "epsilon_neighbor": 195.41},
         "24.38 against an outsider and 195.4 against a neighbor"),
        ({"epsilon": None, "released_without_noise": True}, "unbounded"),
    ],
)  # fmt: skip
def test_epsilon_names_the_adversary(
    make_run: Any, page_of: Any, spent: dict[str, Any], text: str, ended: bool
) -> None:
    """From the summary, or of a run that goes on from the last lines."""

    def privacy(rank: int, line: Any = None) -> dict[str, Any]:
        return {"privacy": {"delta": 1e-5, "releases": 1, **spent} if rank == 1 else {"epsilon": 1e-3}}

    make_run("run", ended=ended, own=privacy, lines=privacy)
    (line,) = page_of("run").results()
    assert line["epsilon"] == text


@pytest.mark.usefixtures("undrawn")
def test_runs_that_differ_in_their_seed_or_in_how_they_were_computed_are_one_line(make_run: Any, page_of: Any) -> None:
    found = [(0.25, 0.5, 1.0), (0.5, 0.5, 0.75), (0.125, 0.75, 0.75)]
    aside = ({"workers": 1}, {"workers": 2}, {"threads": 3, "log_level": "debug", "wait": 9.0})
    for seed, accuracy in enumerate(found):
        make_run(f"sweep/cell-{seed}", accuracy, seed=seed, distance=float(seed), **aside[seed])
    make_run("sweep/other", algorithm="local", distance=None)
    page = page_of("sweep")
    first, other = page.results()
    means = [fmean(accuracy) for accuracy in found]
    expected = {
        "run": "dfedmdc", "seeds": "3", MIX: f"{fmean(means):.4f} ± {stdev(means):.4f}",
        WORST: "0.1250 (rank 0, seed 2)", "consensus distance": "1",
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (other["run"], other["consensus distance"]) == ("local", "-")
    assert "4 runs in 2 groups" in page.text
    assert page.tables[1] == [["no.", "algorithm"], ["1", "dfedmdc"], ["2", "local"]]
    assert "dfedmdc (3 seeds)" in page.pictures["accuracy-by-round"][1]


@pytest.mark.usefixtures("undrawn")
def test_the_same_seed_twice_is_two_lines(make_run: Any, page_of: Any) -> None:
    make_run("old/a")
    make_run("new/a", (0.9, 0.9, 0.9))
    page = page_of("old", "new", "--label", "old", "--label", "new")
    assert [line["run"] for line in page.results()] == ["old", "new"]
    make_run("new/b", seed=1)
    make_run("old/b", seed=1)
    assert [line["seeds"] for line in page_of("old", "new").results()] == ["2", "2"]


@pytest.mark.usefixtures("undrawn")
def test_names_are_text(make_run: Any, page_of: Any) -> None:
    make_run("<b>x&y", task="<script>alert(1)</script>")
    make_run("two", task="_$x$_")
    page = page_of("<b>x&y", "two", "--title", "</title><i>", "--label", '"><i>', "--label", "_two")
    assert not {"script", "i"} & page.tags
    assert "<b>x&y" in page.text
    assert "<b>x" not in page.source
    assert [line["run"] for line in page.results()] == ['"><i>', "_two"]


@pytest.mark.usefixtures("undrawn")
def test_of_more_lines_than_a_picture_shows_the_best_are_drawn(make_run: Any, page_of: Any) -> None:
    for number in range(11):
        make_run(f"s/r{number}", (0.05 * number, 0.5), body_lr=0.01 * (number + 1))
    page = page_of("s")
    assert "The 8 of 11 groups with the best accuracy; the table has all." in page.text
    assert "body_lr 0.01:" not in page.pictures["accuracy-by-round"][1]
    assert "body_lr 0.11:" in page.pictures["accuracy-by-round"][1]
    assert len(page.results()) == 11


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_accuracies_is_judged_by_its_loss(make_run: Any, page_of: Any) -> None:
    make_run("a", (None, None, None))
    page = page_of("a")
    (line,) = page.results()
    assert line["test loss: kept (mean)"] == line[MIX] == f"{fmean([1.0, 2.0, 3.0]):.4f}"
    assert line["worst peer's test loss"] == "3.0000 (rank 2)"
    assert TRAINED not in line
    assert "Test loss by round" in page.headings


@pytest.mark.usefixtures("undrawn")
def test_a_running_run_shows_the_rounds_that_all_peers_have_completed(make_run: Any, page_of: Any) -> None:
    folder = make_run("a", rounds=4, ended=False, lines=lambda rank, line: {"metrics": {"dice": 0.1 * rank}})
    path = folder / "rank-1" / "metrics.jsonl"
    path.write_text("\n".join([*path.read_text().splitlines()[:2], '{"round": 2, "accu', "[]", '{"round": "x"}']))
    page = page_of("a")
    (run,) = page.runs()
    assert run["state"] == "unfinished"
    assert run["notes"] == (
        "unfinished: 2 rounds completed by every peer that left files; 3 damaged lines left out (rank 1)"
    )
    assert page.results()[0][MIX] == f"{fmean([0.5, 0.75 * 2 / 4, 0.9]):.4f}"
    assert page.tables[1] == [["no.", "dice"], ["1", "0.1000"]]
    # Two peers are ahead: a mean over them alone is not drawn.
    ends = fmean([0.5, 0.75, 0.9]) * 2 / 4
    assert f"{ends:.3f} in round 2." in page.pictures["accuracy-by-round"][1]
    make_run("b", (None, None), ended=False, rounds=1, lines=lambda rank, line: {"test_loss": None})
    assert "No round of these runs was evaluated" in page_of("b").text


@pytest.mark.usefixtures("undrawn")
def test_a_peer_that_was_lost_is_left_out_and_named(make_run: Any, page_of: Any) -> None:
    more = {"accuracy": [0.5, 0.75, None], "completed_rounds": [2, 2, None]}
    folder = make_run("a", status="failed", more=more)
    for path in (folder / "rank-2").iterdir():
        path.unlink()
    page = page_of("a")
    assert page.runs()[0]["notes"].endswith("1 of 3 peers left no files here (rank 2)")
    assert page.results()[0][MIX] == f"{fmean([0.5, 0.75]):.4f}"
    assert "A white peer has none." in page.text


@pytest.mark.usefixtures("undrawn")
def test_the_generalization_gap_is_shown_where_it_was_measured_and_an_old_picture_goes(
    make_run: Any, page_of: Any
) -> None:
    make_run("a", lines=lambda rank, line: {"training_accuracy": 0.95, "generalization_gap": 0.95 - line["accuracy"]})
    make_run("b", algorithm="fedavg")
    names = ("training accuracy after mixing", "generalization gap")
    page = page_of("a", "b")
    assert {tuple(line[name] for name in names) for line in page.results()} == {("-", "-"), ("0.9500", "+0.2333")}
    assert "generalization-gap-by-round" in page.pictures
    assert Path("dpeer-report/generalization-gap-by-round.png").exists()
    page = page_of("b")
    assert names[1] not in page.results()[0]
    assert "generalization-gap-by-round" not in page.pictures
    assert not Path("dpeer-report/generalization-gap-by-round.png").exists()


@pytest.mark.usefixtures("undrawn")
def test_bodies_that_differ_by_rounding_agree(make_run: Any, page_of: Any) -> None:
    for name, topology, distance in (("a", "full", 2.5e-16), ("b", "ring", 1.5)):
        make_run(name, topology=topology, distance=distance, distances=[distance] * 2)
    page = page_of("a")
    assert "The peers' bodies are equal at the end: their consensus distance is 0." in page.text
    assert page.results()[0]["consensus distance"] == "0"
    assert not {"disagreement", "disagreement-by-round"} & page.pictures.keys()
    page = page_of("a", "b")
    assert "Where bodies differ only by rounding the line is at 0." in page.text
    assert [line["consensus distance"] for line in page.results()] == ["0", "1.5"]
    assert {"disagreement", "disagreement-by-round"} <= page.pictures.keys()


@pytest.mark.usefixtures("undrawn")
def test_baselines_and_nested_folders_are_found_once(make_run: Any, page_of: Any) -> None:
    make_run("x/deep/a")
    make_run("x/deep/a/baseline-local", algorithm="local")
    make_run("x/deep/a/checkpoint/no")
    make_run("x/tune/trial")
    assert [run["folder"] for run in page_of("x", "x/deep").runs()] == ["x/deep/a", "x/deep/a/baseline-local"]


@pytest.mark.usefixtures("undrawn")
def test_a_report_is_replaced_and_nothing_else_is(dpeer: Command, make_run: Any) -> None:
    make_run("a")
    assert dpeer("report", "a", "--out", "here/r").code == 0
    assert dpeer("report", "a", "--out", "here/r").code == 0
    before = sorted(Path("a").rglob("*"))
    assert dpeer("report", "a", "--out", "a").code == 2
    assert sorted(Path("a").rglob("*")) == before


def test_folders_without_runs_make_no_report(dpeer: Command) -> None:
    Path("x/y").mkdir(parents=True)
    Path("x/summary.json").write_text("[1]")
    Path("x/y/summary.json").write_text('{"other": 1}')
    assert [dpeer("report", *folders).code for folders in (["x"], ["gone"], [])] == [2, 2, 2]
    assert not Path("dpeer-report").exists()


def test_a_missing_library_is_named(dpeer: Command, make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("a")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = dpeer("report", "a")
    assert (ended.code, ended.err) == (
        2, "dpeer: dpeer report needs matplotlib and Jinja2: pip install 'dpeer[plot]'\n",
    )  # fmt: skip
    ended = dpeer("report", "a", "a", "--label", "x")
    assert (ended.code, ended.err) == (2, "dpeer: --label: 1 for 2 folders; give one for each, or none\n")


@pytest.mark.usefixtures("undrawn")
def test_a_tasks_own_metrics_have_a_table(make_run: Any, page_of: Any) -> None:
    for name, seed, dice in (("a", 0, (0.2, 0.4, None)), ("b", 1, (0.5, 0.5, 0.5)), ("c", 0, (0.1, 0.1, 0.1))):
        make_run(
            name, seed=seed, algorithm="dfedavgm" if name == "c" else "dfedmdc",
            own=lambda rank, dice=dice: {
                "metrics": {"accuracy": 0.5, "dice": dice[rank]}, "measured": {"accuracy": 0.9, "auroc": 0.75},
            },
        )  # fmt: skip
    page = page_of("a", "b", "c")
    assert "More metrics at the end" in page.headings
    assert page.tables[1] == [
        ["no.", "AUROC", "dice"],
        ["1", "0.7500 ± 0.0000", f"{fmean([0.3, 0.5]):.4f} ± {stdev([0.3, 0.5]):.4f}"],
        ["2", "0.7500", "0.1000"],
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_one_peer_has_a_caution_and_no_picture_of_many(make_run: Any, page_of: Any) -> None:
    make_run("a", only=1)
    page = page_of("a")
    caution = "Only rank 1, one of 3 peers, left files here: all figures are its own, not the whole federation's."
    assert caution in page.text.partition("Results at the end")[0]
    (line,) = page.results()
    assert (line["peers"], line[MIX], line[WORST]) == ("1 of 3", "0.7500", "0.7500 (rank 1)")
    assert list(page.pictures) == ["accuracy-by-round", "graph"]
    assert "A peer sends 2.0 MB in each round, 4.0 MB in 2 rounds." in page.text
    assert "percentile" not in page.text
    assert "no consensus distance: it takes the files of all peers." in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_peer_beside_a_federation_is_not_compared_with_its_mean(make_run: Any, page_of: Any) -> None:
    make_run("mine", partition="iid", only=1)
    make_run("theirs", algorithm="local", partition="iid")
    page = page_of("theirs", "mine")
    top = page.text.partition("Results at the end")[0]
    assert "No. 2, dfedmdc: only rank 1, one of 3 peers, left files here" in top
    assert "No. 1" not in top
    assert "A mean over some peers cannot be compared with one over others: compare these runs rank by rank." in top
    assert [line["peers"] for line in page.results()] == ["3", "1 of 3"]
    assert "dfedmdc (1 of 3 peers): 0.375 in round 1" in page.pictures["accuracy-by-round"][1]
    assert "accuracy-by-rank" in page.pictures
    make_run("others", algorithm="ditto", partition="iid")
    assert "cannot be compared" not in page_of("theirs", "others").text


@pytest.mark.slow
def test_names_of_classes_and_graphs_of_every_kind_are_drawn(
    make_run: Any, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: set[str] = set()
    text, legend = Axes.text, Figure.legend

    def texts(self: Axes, x: float, y: float, words: str, **options: Any) -> Any:
        shown.add(words)
        return text(self, x, y, words, **options)

    def legends(self: Figure, **options: Any) -> Any:
        shown.update(handle.get_label() for handle in options["handles"])
        return legend(self, **options)

    monkeypatch.setattr(Axes, "text", texts)
    monkeypatch.setattr(Figure, "legend", legends)
    names = (("_home $x$", "readmitted after more than thirty days"),) * 8
    kinds: dict[str, dict[str, Any]] = {
        "fresh-neighbors": {"fresh_neighbors": "2"}, "one-peer-exponential": {}, "full": {"weights": "fastest"},
        "random-regular": {},
    }  # fmt: skip
    for topology, options in kinds.items():
        make_run(topology, (0.5,) * 8, classes=[5, 4], names=names, topology=topology, **options)
    page = page_of(*kinds)
    assert {" _home $x$", "readmitted after more t…"} <= shown
    assert not any(str(label).startswith("class ") for label in shown)
    assert all(f"{topology} of 8 peers" in page.pictures["graph"][1] for topology in kinds)


@pytest.mark.usefixtures("undrawn")
def test_a_graph_that_is_not_known_is_left_out(make_run: Any, page_of: Any) -> None:
    make_run("a", topology="file:gone.json")
    page = page_of("a")
    assert "graph" not in page.pictures
    assert "No graph to draw" in page.text
