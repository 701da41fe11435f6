"""A peer's log: what its lines say, and that it is in nobody's way."""

import ast
import errno
import json
import re
import threading
from pathlib import Path

import pytest

from dpeer.peer import logs
from dpeer.peer.logs import PeerLog
from dpeer.topology import build
from tests.syntax_trees import parsed

ROOT = Path(__file__).parents[2]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def collecting(entries):
    def sink(entry):
        entries.append(dict(entry))
        return True

    return sink


def messages(path):
    return [line["message"] for line in lines(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_a_line_has_its_fields_in_order_and_a_sink_gets_the_same(path):
    got = []
    log = PeerLog(2, path, "info", collecting(got))
    log.warning("neighbor-dead", message="rank 3 is silent\nfor long", round=7, neighbor=3, share=float("nan"))
    log.close()
    (line,) = lines(path)
    assert list(line) == ["time", "level", "event", "message", "rank", "round", "neighbor", "share"]
    assert {key: line[key] for key in line if key != "time"} == {
        "level": "warning", "event": "neighbor-dead", "message": "rank 3 is silent\nfor long", "rank": 2, "round": 7,
        "neighbor": 3, "share": None,
    }  # fmt: skip
    assert line["time"] == got[0]["time"] == pytest.approx(logs.time.time(), abs=600)
    assert got[0]["neighbor"] == 3
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(("level", "logged"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_not_logged(path, level, logged):
    log = PeerLog(0, path, level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("an-event", message=name)
    log.close()
    assert messages(path) == ["debug", "info", "warning", "error"][-logged:]


def test_lines_that_a_sink_drops_are_counted_and_still_in_the_file(path):
    got = []

    def full(entry):
        got.append(entry)
        return False

    log = PeerLog(0, path, "info", full)
    for number in range(3):
        log.info("an-event", message=str(number))
    assert log.dropped == 3
    log.to_file_only()
    log.error("run-failed", message="printed by others")
    log.close()
    assert len(got) == 3
    assert messages(path) == ["0", "1", "2", "printed by others"]


def moved(path):
    path.rename(path.with_name("log.jsonl-20260101"))


def moved_and_created(path):
    moved(path)
    path.touch()


def truncated(path):
    with path.open("r+b") as file:
        file.truncate(0)


@pytest.mark.parametrize("rotate", [moved, moved_and_created, truncated])
def test_a_file_that_another_program_rotates_is_begun_anew(path, rotate):
    log = PeerLog(0, path, "info")
    log.info("an-event", message="before")
    logs.FILES.waiting.join()
    rotate(path)
    log.info("an-event", message="after")
    log.info("an-event", message="later")
    log.close()
    assert messages(path) == ["after", "later"]
    assert rotate is truncated or messages(path.with_name("log.jsonl-20260101")) == ["before"]
    assert log.dropped == 0


def test_without_its_folder_lines_are_dropped_until_it_is_there_again(path):
    folder = path.parent / "run"
    folder.mkdir()
    log = PeerLog(0, folder / "log.jsonl", "info")
    log.info("an-event", message="before")
    logs.FILES.waiting.join()
    there = folder.rename(path.parent / "moved")
    log.info("an-event", message="lost")
    logs.FILES.waiting.join()
    folder.mkdir()
    log.info("an-event", message="after")
    log.close()
    assert messages(there / "log.jsonl") == ["before"]
    assert messages(folder / "log.jsonl") == ["after"]
    assert log.dropped == 1


def test_a_disk_that_cannot_keep_up_is_not_waited_for(path, monkeypatch):
    monkeypatch.setattr(logs, "FILES", logs._Files(6))
    log = PeerLog(4, path, "info")
    go_on, waits = threading.Event(), threading.Event()

    class Slow:
        def handle(self, record):
            waits.set()
            go_on.wait(60)

    logs.FILES.put(Slow(), "")
    assert waits.wait(60)
    for number in range(8):
        log.info("an-event", message=str(number))
    assert log.dropped == 2
    go_on.set()
    logs.FILES.waiting.join()
    log.info("an-event", message="later")
    log.close()
    assert messages(path) == [*"012345", "later"]


class Full:
    """A stream to a disk that may be full."""

    def __init__(self, file):
        self.file, self.full = file, False

    def write(self, text):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(text)

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_full_disk_raises_nothing(path, capfd, monkeypatch):
    log = PeerLog(0, path, "info")
    file = log._file
    file.stream = full = Full(file.stream)
    log.info("an-event", message="before")
    logs.FILES.waiting.join()
    full.full = True
    for number in range(3):
        log.info("an-event", message=f"lost {number}")
    logs.FILES.waiting.join()
    assert log.dropped == 3
    full.full = False
    log.info("an-event", message="after")
    log.close()
    assert messages(path) == ["before", "after"]
    assert log.dropped == 3
    assert capfd.readouterr() == ("", "")


def events():
    """Every event that the product logs: the first argument of calls such as `log.info("connected", message=...)`."""
    found = set()
    for package in ("peer", "federation", "simulation"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(parsed(path.read_text())):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr="debug" | "info" | "warning" | "error", value=of),
                        args=[ast.Constant(value=str(event))],
                    ) if ast.unparse(of).split(".")[-1] in ("log", "_log"):
                        assert any(word.arg == "message" for word in node.keywords), (path, event)
                        found.add(event)
                    case ast.Call(
                        func=ast.Attribute(attr="_log" | "log" | "log_free") | ast.Name(id="LogEvent"),
                        args=[ast.Constant() | ast.IfExp(), ast.Constant(value=str(event)), _, *_],
                    ):  # what the core says
                        found.add(event)
    return found


def test_the_page_lists_every_event_and_no_other():
    page = (ROOT / "docs" / "files.md").read_text()
    section = page.partition("\n| `event` | meaning |")[2].partition("\n\n")[0]
    first_cells = [line.split(" | ")[0] for line in section.splitlines()]
    assert {name for cell in first_cells for name in re.findall(r"`([a-z-]+)`", cell)} == events()
    assert len(events()) > 12


async def test_the_summary_counts_the_lines_that_the_log_dropped(federation, tmp_path):
    ours = federation("inprocess", build("ring", 2), rounds=2, out=tmp_path)
    ours.full.add(1)
    await ours.run()
    dropped = [json.loads((tmp_path / f"rank-{rank}" / "summary.json").read_text())["log_dropped"] for rank in (0, 1)]
    assert dropped == [0, len(ours.logs[1])]
    assert dropped[1] > 2
