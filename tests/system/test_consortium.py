"""The laboratory of a night: its lines, its page, and a night of few rounds with real processes."""

import asyncio
import html.parser
import json
import sys
from pathlib import Path

import pytest

from tests.peer.intermediaries import carry

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "consortium"


@pytest.fixture
def laboratory(monkeypatch):
    """Its modules import each other by their plain names."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = {*sys.modules}
    yield
    for name in {"night", "site_lines", "shaper", "timeline", "tasks"} & {*sys.modules} - before:
        del sys.modules[name]


@pytest.mark.usefixtures("laboratory")
async def test_a_line_delays_and_limits_both_ways_and_loses_nothing():
    import shaper

    loop, sent = asyncio.get_running_loop(), bytes(range(256)) * 1000
    async with asyncio.timeout(60), await asyncio.start_server(carry, "127.0.0.1", 0) as echo:
        to = ("127.0.0.1", echo.sockets[0].getsockname()[1])
        async with await shaper.open_line(("127.0.0.1", 0), to, 0.05, 4e6) as line:
            reader, writer = await asyncio.open_connection("127.0.0.1", line.sockets[0].getsockname()[1])
            began = loop.time()
            writer.write(b"!")
            assert await reader.readexactly(1) == b"!"
            assert loop.time() - began >= 0.1
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            assert loop.time() - began >= 0.1 + 8 * len(sent) / 4e6
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()


class Links(html.parser.HTMLParser):
    """What a page loads."""

    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        self.open.append(tag)


NIGHT = {
    "title": "A <night>", "lines": "loopback", "summary": "1 of 2", "seconds": 10.0, "relay": [],
    "sites": [
        {
            "name": f"site {rank}", "rows": 5, "status": "done", "completed": 3, "mixed": 1, "federated": 0.5,
            "local": None, "verdict": "-", "restarts": 0, "log": [{"at": 1.0, "text": "paused <b>"}],
            "rounds": [
                {"round": n, "at": 2.0 + n, "active": True, "heard": [1 - rank] * n, "missed": [1 - rank] * (1 - n),
                 "accuracy": 0.5}
                for n in range(2)
            ]
            + [{"round": 2, "at": None, "active": True, "heard": [1 - rank], "missed": [], "accuracy": 0.5}],
        }
        for rank in range(2)
    ],
    "happenings": [
        {"at": 1.0, "site": 0, "kind": "cut", "text": "cut & dry", "until": 3.0},
        {"at": 2.0, "site": 1, "kind": "killed", "text": "killed", "until": None},
        {"at": 0.0, "site": None, "kind": "relay", "text": "listens", "until": None},
    ],
}  # fmt: skip


@pytest.mark.usefixtures("laboratory")
def test_the_page_of_a_night_loads_nothing_and_has_every_round_and_accident(tmp_path):
    import timeline

    timeline.write(tmp_path, NIGHT)
    assert json.loads((tmp_path / "timeline.json").read_text()) == NIGHT
    text = (tmp_path / "timeline.html").read_text()
    links = Links()
    links.feed(text)
    assert links.found == []
    assert "http" not in text
    assert text.count('r="4.5"') == 4
    assert 'class="bar"' in text
    assert 'class="mark"' in text
    assert "cut &amp; dry" in text
    assert "paused &lt;b&gt;" in text
    assert "<night>" not in text


@pytest.mark.long
def test_a_night_of_few_rounds(run_program, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_program(
        FOLDER / "night.py", "--quick", "--no-namespaces", "--out", tmp_path / "night", "--rounds", "8",
        "--cut-in", "1", "--closed-in", "2", "--lost-in", "4", "--night", "5", "--cut", "7", "--set", "alone='never'",
    )  # fmt: skip
    night = json.loads((tmp_path / "night" / "timeline.json").read_text())
    assert {one["kind"] for one in night["happenings"]} >= {"cut", "healed", "closed", "opened", "disk lost", "killed"}
    assert {site["status"] for site in night["sites"]} <= {"done", "left-behind"}
    assert sum(site["status"] == "done" for site in night["sites"]) >= 6, "all but those that were killed"
