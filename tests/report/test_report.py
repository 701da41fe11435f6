"""`dpeer report`: the page and its pictures; the numbers of its panels, and the sentences where none can be drawn."""

import base64
import io
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from PIL import Image

from dpeer.federation.settings import aside
from dpeer.report.page import make_panels
from dpeer.report.style import Panel, Report
from dpeer.results.effect import Effect
from dpeer.results.groups import choose, group_runs
from dpeer.results.run_folders import find_runs

Command = Callable[..., Any]
MIX = "after mixing (mean)"


def panels(*folders: Path, labels: tuple[str, ...] = ()) -> dict[str, Panel]:
    """The panels of a report of some folders."""
    grouped = group_runs(find_runs(folders), labels, aside())
    return make_panels(Report(grouped, choose(grouped.groups)))


def rows(panel: Panel) -> list[dict[str, str]]:
    """A table's rows by heading."""
    names = [name for name, _ in panel.columns]
    return [dict(zip(names, map(str, row), strict=True)) for row in panel.rows]


def results(*folders: Path) -> list[dict[str, str]]:
    return rows(panels(*folders)["results"])


def drawn(found: dict[str, Panel]) -> list[str]:
    return [name for name, panel in found.items() if panel.figure is not None]


@pytest.mark.slow
def test_a_run_has_a_page_with_every_section_and_its_pictures(dpeer: Command, make_run: Any, read_page: Any) -> None:
    def fitted(rank: int, line: dict[str, Any]) -> dict[str, Any]:
        return {"training_accuracy": 0.95, "generalization_gap": 0.95 - line["accuracy"]}

    path = "/data/" + 40 * "long-" + "visits.csv"
    worth = asdict(Effect(measure="accuracy", rows=9, gain=0.1, low=0.0, high=0.2, verdict="improved"))
    make_run("<b>x&y", lines=fitted, distances=[3.5, 0.01], task_options={"path": path},
             more={"worth": [worth] * 3})  # fmt: skip
    before = dict(mpl.rcParams)
    Path("dpeer-report").mkdir()
    Path("dpeer-report/index.html").write_text('<meta name="generator" content="dpeer report 0">')
    ended = dpeer("report", "<b>x&y", "--title", "</title><i>", "--label", '"><i>')
    assert (ended.code, ended.err) == (0, "")
    assert dict(mpl.rcParams) == before
    page = read_page()
    pictures = {
        "accuracy-by-round": "Accuracy by round", "accuracy-by-peer": "Accuracy of every peer at the end",
        "time-and-bytes": "Time and bytes of a round", "disagreement-by-round": "Disagreement by round",
        "graph": "Graph",
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
    assert "3 of 3 peers improved over local only." in page.text.partition("Results at the end")[0]
    # Names are text, nothing is loaded from elsewhere, and all fits the screen.
    assert not {"script", "i", "link", "iframe"} & page.tags
    assert page.tables[0][1][1] == '"><i>'
    assert "<b>x&y" in page.text
    assert "<b>x" not in page.source
    for outside in ("http", "@import", "url("):
        assert outside not in page.source.replace("http-equiv", "")
    for rule, part in ((r"figure img", "max-width: 100%; height: auto"), (r"\.settings span", "max-width: 100%")):
        (found,) = re.findall(rf"\n{rule} \{{(.*)\}}", page.source)
        assert part in found
        assert not {"min-width", "nowrap"} & set(re.findall(r"[\w-]+", found))


@pytest.mark.slow
def test_graphs_of_every_kind_are_drawn(dpeer: Command, make_run: Any, read_page: Any) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "fresh:2": {}, "one-peer-exponential": {}, "full": {"weights": "uniform"},
        "random-regular": {},
    }  # fmt: skip
    for topology, options in kinds.items():
        make_run(topology, (0.5,) * 8, topology=topology, **options)
    assert dpeer("report", *kinds).code == 0
    assert all(f"{topology} of 8 peers" in read_page().pictures["graph"][1] for topology in kinds)


def test_the_numbers_are_those_of_the_files(make_run: Any) -> None:
    found = panels(make_run("a", (0.25, 0.5, 1.0), topology="file:gone.json"))
    (line,) = rows(found["results"])
    expected = {
        MIX: f"{fmean([0.25, 0.5, 1.0]):.4f}", "before mixing (mean)": "0.2917", "worst peer's accuracy":
        "0.2500 (rank 0)", "sent in all": "12.0 MB", "wall time": "12.5 s", "consensus distance": "1.5", "seeds": "1",
        "peers": "3",
    }  # fmt: skip
    assert expected.items() <= line.items()
    assert "No graph to draw" in found["graph"].caption


@pytest.mark.parametrize(("epsilon", "text"), [(8.721, "8.721"), (None, "unbounded")])
def test_epsilon_is_the_largest_of_all_peers(make_run: Any, epsilon: float | None, text: str) -> None:
    """From the summary, or of a run that goes on from the last lines."""

    def privacy(rank: int, line: Any = None) -> dict[str, Any]:
        return {"privacy": {"epsilon": epsilon if rank == 1 else 1e-3}}

    for ended in (True, False):
        (line,) = results(make_run(f"run-{ended}", ended=ended, own=privacy, lines=privacy))
        assert line["epsilon"] == text


def test_the_same_seed_twice_is_two_lines(make_run: Any, tmp_path: Path) -> None:
    make_run("old/a")
    make_run("new/a", (0.9, 0.9, 0.9))
    folders = tmp_path / "old", tmp_path / "new"
    labelled = rows(panels(*folders, labels=("one", "two"))["results"])
    assert [line["run"].rpartition(">")[2] for line in labelled] == ["one", "two"]
    make_run("new/b", seed=1)
    make_run("old/b", seed=1)
    assert [line["seeds"] for line in results(*folders)] == ["2", "2"]


def test_of_many_runs_pictures_show_the_best_and_the_table_all(make_run: Any, tmp_path: Path) -> None:
    for algorithm in ("local", "dfedavgm"):
        for partition in ("iid", "pathological:2"):
            for seed in range(2):
                make_run(f"s/{algorithm}-{partition}-{seed}", algorithm=algorithm, partition=partition, seed=seed)
    page = panels(tmp_path / "s")
    names = [line["run"].rpartition(">")[2] for line in rows(page["results"])]
    assert names == ["dfedavgm, iid", "dfedavgm, pathological:2", "local, iid", "local, pathological:2"]
    assert all(f"{name} (2 seeds): " in page["accuracy-by-round"].alt for name in names)
    for number in range(11):
        make_run(f"t/r{number}", (0.05 * number, 0.5), body_lr=0.01 * (number + 1))
    page = panels(tmp_path / "t")
    (axes,) = page["accuracy-by-round"].figure.axes
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    ends = [line.get_xydata().max(axis=0) for line in axes.lines]
    assert all(x <= right and y <= top for x, y in ends), "nothing is cut off"
    assert sum("swatch" in line["run"] for line in rows(page["results"])) == 8
    assert "The 8 of 11 groups with the best accuracy; the table has all." in page["accuracy-by-round"].caption
    assert "body_lr 0.01:" not in page["accuracy-by-round"].alt
    assert "body_lr 0.11:" in page["accuracy-by-round"].alt
    assert len(page["results"].rows) == 11


def test_a_running_run_shows_the_rounds_that_all_peers_have_completed(make_run: Any) -> None:
    folder = make_run("a", rounds=4, ended=False, lines=lambda rank, line: {"metrics": {"dice": 0.1 * rank}})
    path = folder / "rank-1" / "metrics.jsonl"
    path.write_text("\n".join([*path.read_text().splitlines()[:2], '{"round": 2, "accu', "[]", '{"round": "x"}']))
    page = panels(folder)
    (run,) = rows(page["runs"])
    assert run["state"] == "unfinished"
    assert run["notes"] == (
        "unfinished: 2 rounds completed by every peer that left files; 3 damaged lines left out (rank 1)"
    )
    assert rows(page["results"])[0][MIX] == f"{fmean([0.5, 0.75 * 2 / 4, 0.9]):.4f}"
    assert rows(page["metrics"]) == [{"no.": "1", "dice": "0.1000"}]
    # Two peers are ahead: a mean over them alone is not drawn.
    assert f"{fmean([0.5, 0.75, 0.9]) * 2 / 4:.3f} in round 2." in page["accuracy-by-round"].alt
    begun = make_run("b", (None, None), ended=False, rounds=1, lines=lambda rank, line: {"test_loss": None})
    assert "No round of these runs was evaluated" in panels(begun)["accuracy-by-round"].caption


def test_a_peer_that_was_lost_is_left_out(make_run: Any) -> None:
    folder = make_run("a", status="failed", more={"accuracy": [0.5, 0.75, None], "completed_rounds": [2, 2, None]})
    shutil.rmtree(folder / "rank-2")
    page = panels(folder)
    assert rows(page["results"])[0][MIX] == f"{fmean([0.5, 0.75]):.4f}"
    assert "A white peer has none." in page["graph"].caption


def test_bodies_that_differ_by_rounding_agree(make_run: Any) -> None:
    full = make_run("a", topology="full", distance=2.5e-16, distances=[2.5e-16] * 2)
    ring = make_run("b", topology="ring", distance=1.5, distances=[1.5] * 2)
    page = panels(full)
    assert rows(page["results"])[0]["consensus distance"] == "0"
    assert "disagreement-by-round" not in page
    page = panels(full, ring)
    assert "Where bodies differ only by rounding the line is at 0." in page["disagreement-by-round"].caption
    assert [line["consensus distance"] for line in rows(page["results"])] == ["0", "1.5"]
    assert "disagreement-by-round" in drawn(page)


@pytest.mark.slow
def test_a_peer_beside_a_federation_is_not_compared_with_its_mean(
    dpeer: Command, make_run: Any, read_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: file.write(b"PNG"))
    make_run("mine", partition="iid", only=1)
    make_run("theirs", algorithm="local", partition="iid")
    assert dpeer("report", "theirs", "mine").code == 0
    page = read_page()
    top = page.text.partition("Results at the end")[0]
    assert "2 runs." in top
    assert "No. 2, dfedmdc: only rank 1, one of 3 peers, left files here" in top
    assert "No. 1" not in top
    assert "A mean over some peers cannot be compared with one over others: compare these runs rank by rank." in top
    assert "dfedmdc (1 of 3 peers): 0.375 in round 1" in page.pictures["accuracy-by-round"][1]
    assert "accuracy-by-peer" in page.pictures
    make_run("others", algorithm="ditto", partition="iid")
    assert dpeer("report", "theirs", "others").code == 0
    assert "cannot be compared" not in read_page().text
    make_run("alone", only=1)
    assert dpeer("report", "alone").code == 0
    caution = "Only rank 1, one of 3 peers, left files here: all figures are its own, not the whole federation's."
    assert caution in read_page().text.partition("Results at the end")[0]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("a", "--out", "a"), "--out 'a' holds something that is no report"),
        (("a", "--out", "note.txt"), "--out 'note.txt' is a file"),
        (("x",), "'x' holds no run"),
        (("gone",), "'gone' is no folder"),
        ((), "Missing argument 'DIR...'"),
        (("a", "a", "--label", "x"), "--label: 1 for 2 folders; give one for each, or none"),
        (("a",), "dpeer report needs matplotlib and Jinja2: pip install 'dpeer[plot]'"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    dpeer: Command, make_run: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], part: str
) -> None:
    make_run("a")
    Path("x/y").mkdir(parents=True)
    Path("x/summary.json").write_text("[1]")
    Path("x/y/summary.json").write_text('{"other": 1}')
    Path("note.txt").write_text("x")
    if "Jinja2" in part:
        monkeypatch.setitem(sys.modules, "jinja2", None)
    before = sorted(Path().rglob("*"))
    ended = dpeer("report", *words)
    assert ended.code == 2
    assert part in ended.err
    assert sorted(Path().rglob("*")) == before
