"""The dashboard: what it shows of peers that run, hang, have ended or are elsewhere, and whom its server answers."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import AddressError, ConfigurationError
from dpeer.federation.control_client import Place
from dpeer.federation.serve_address import read_serve
from dpeer.peer.snapshot import Awaited, NeighborSnapshot
from dpeer.report.dashboard.view import KEPT, History, history, look_at, view
from tests.federation.statuses import WELL, entry


def written(folder: Path, *entries: dict[str, Any], mode: str = "w") -> History:
    """The last rounds in a rank's folder with these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "metrics.jsonl").open(mode) as file:
        file.writelines(f"{json.dumps(one)}\n" for one in entries)
    return history(folder)


def test_rounds_are_read_as_they_are_written_and_the_last_are_kept(tmp_path: Path) -> None:
    found = written(tmp_path, *(entry(number) for number in range(KEPT + 5)))
    assert found.columns["round"] == list(range(6, KEPT + 6)), "counted from 1"
    assert (found.last("accuracy"), found.last("round_seconds"), found.last("missed")) == (0.5, 1.75, 1)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(entry(KEPT + 5, accuracy=0.75)) + '\n{"round": ')
    found = history(tmp_path)
    assert (found.columns["round"][-1], found.last("accuracy")) == (KEPT + 6, 0.75), "half a line is none yet"


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    written(tmp_path, *(entry(number) for number in range(5)))
    found = written(tmp_path, entry(0, accuracy=0.25))
    assert (found.columns["round"], found.last("accuracy")) == ([1], 0.25)
    (tmp_path / "new").write_text(json.dumps(entry(7)) + "\n")
    (tmp_path / "new").replace(tmp_path / "metrics.jsonl")
    found = history(tmp_path)
    assert found.columns["round"] == [8]
    (tmp_path / "metrics.jsonl").unlink()
    found = history(tmp_path)
    assert found.columns == {}


def test_damaged_lines_are_left_out_and_damaged_values_unknown(tmp_path: Path) -> None:
    found = written(tmp_path, {"round": -1}, {"accuracy": 1.0}, {"round": 3, "train_seconds": "long", "missed": 7})
    assert found.columns == {
        "round": [4], "accuracy": [None], "test_loss": [None], "disagreement": [None], "round_seconds": [None],
        "missed": [0],
    }  # fmt: skip


def test_with_privacy_no_figure_of_the_data_is_there(tmp_path: Path) -> None:
    found = written(tmp_path, entry(0), entry(1, privacy={"epsilon": 1.0}, disagreement=0.5))
    assert found.columns == {"round": [1, 2], "disagreement": [None, 0.5], "round_seconds": [1.75] * 2,
                               "missed": [1, 1]}  # fmt: skip
    assert found.last("accuracy") is None


def shown(*places: Place) -> dict[str, Any]:
    return json.loads(json.dumps(view(places)))


def by_rank(found: dict[str, Any], name: str) -> dict[int, Any]:
    return {one["rank"]: one[name] for one in found["peers"]}


def cells(found: dict[str, Any], column: str) -> list[str]:
    return next(one["cells"] for one in found["columns"] if one["name"] == column)


def test_peers_stand_as_they_run_hang_and_have_ended_and_members_elsewhere_are_there_too() -> None:
    well = replace(WELL, members={0: 9, 1: 8, 2: 9, 3: None, 4: 2})
    found = shown(
        Place(Path("run/rank-2"), asdict(well)),
        Place(Path("run/rank-1"), None, "runs, and does not answer within 5 s", 8, 20),
        Place(Path("run/rank-4"), None, "does not run: done", 20, 20),
        Place(Path("run/rank-5"), asdict(replace(WELL, rank=5, mixed_round=2))),
    )
    assert by_rank(found, "standing") == {
        0: "unasked", 1: "away", 2: "part", 3: "unasked", 4: "ended", 5: "idle"
    }  # fmt: skip
    assert found["news"] == "1 of 4 take part"
    assert found["tiles"][:2] == [
        ["peers of this host that take part", "1 of 4", "1 idle, 1 away, 1 ended, 2 on other hosts"],
        ["round", "10", "of 20"],
    ]  # fmt: skip
    assert dict(map(tuple, ((why, tuple(names)) for why, names in found["trouble"]))) == {
        "runs, and does not answer within 5 s": ("rank-1",),
        "it has mixed in none of the last 6 rounds (since round 3)": ("rank-5",),
    }
    assert cells(found, "rounds") == ["9/20", "8/20", "9/20", "-", "20/20", "9/20"]
    assert cells(found, "state")[0] == "not asked; alive to ranks 2, 5"
    assert by_rank(found, "links")[2] == {"0": ["alive", ""], "1": ["suspect", 'a "quoted"\nreason'],
                                          "3": ["unseen", ""]}  # fmt: skip
    assert by_rank(found, "waits")[2] == {"1": "in round 9"}


def test_figures_are_tiles_cells_and_curves(tmp_path: Path) -> None:
    written(tmp_path / "rank-2", entry(7), entry(8, accuracy=0.625))
    found = shown(Place(tmp_path / "rank-2", asdict(WELL)))
    assert ["accuracy", "0.625", ""] in found["tiles"]
    assert ["epsilon", "1.25", "at delta 1e-05"] in found["tiles"]
    assert (cells(found, "accuracy"), cells(found, "disk left")) == (["0.625"], ["5.0 MB"])
    assert found["peers"][0]["history"]["accuracy"] == [0.5, 0.625]


def test_a_reason_that_may_name_an_address_or_a_setting_is_not_shown() -> None:
    why = "its name 'site-1.example' cannot be resolved"
    snapshot = replace(
        WELL, withheld=(1,), waits_for=(Awaited(0, "in round 9"), Awaited(1, why)),
        neighbors=(
            NeighborSnapshot(1, "unseen", None, None, why), NeighborSnapshot(3, "dead", 2, 9.0, "silent for 9 s"),
        ),
    )  # fmt: skip
    found = shown(Place(Path("rank-2"), asdict(snapshot)))
    assert "site-1" not in json.dumps(found)
    assert found["peers"][0]["links"] == {"1": ["unseen", "see the peer's log"], "3": ["dead", "silent for 9 s"]}


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a dashboard that shows one peer."""
    server = pytest.importorskip("dpeer.report.dashboard.server")
    with server.Dashboard(read_serve("0"), lambda: shown(Place(Path("rank-2"), asdict(WELL))), "a run") as page:
        yield page.address.port


def get(port: int, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_page_files_and_peers_are_served_and_nothing_else(port: int) -> None:
    code, text, headers = get(port, "/")
    assert (code, text.count("<script")) == (200, 2)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "inline" not in headers["Content-Security-Policy"]
    found = json.loads(get(port, "/peers.json")[1])
    assert (found["title"], found["news"]) == ("a run", "1 of 1 take part")
    for path in ("/page.css", "/page.js", "/vendor/uPlot.iife.min.js", "/vendor/LICENSE"):
        assert get(port, path)[0] == 200, path
    for path in ("/view.py", "/../server.py", "/..%2fserver.py", "/metrics", "/vendor/"):
        assert get(port, path)[0] == 404, path


@pytest.mark.parametrize(
    ("host", "code"),
    [("localhost", 200), ("127.0.0.1:80", 200), ("[::1]:80", 200), ("evil.example", 400), ("", 400)],
)
def test_a_web_page_of_another_name_cannot_read_it_through_a_browser(port: int, host: str, code: int) -> None:
    assert get(port, "/peers.json", Host=host)[0] == code


def test_what_cannot_be_looked_at_is_stated(tmp_path: Path) -> None:
    server = pytest.importorskip("dpeer.report.dashboard.server")
    with server.Dashboard(read_serve("0"), lambda: look_at([tmp_path / "gone"]), "a run") as page:
        code, text, _ = get(page.address.port, "/peers.json")
        assert (code, "no folder" in json.loads(text)["error"]) == (503, True)
        with pytest.raises(AddressError, match=r"^--listen 127\.0\.0\.1:"):
            server.Dashboard(page.address, dict, "")
    with pytest.raises(ConfigurationError, match="no folder"):
        look_at([tmp_path / "gone"])
