"""`dpeer dashboard` in a browser without a window, at two widths, while a peer is stopped and goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runs import PACED

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="opens the page in Chromium, which is not installed here"),
]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--virtual-time-budget=3000",
)  # fmt: skip


def browse(folder: Path, url: str, width: int) -> str:
    """The document in a new Chromium after some seconds on the page."""
    profile = folder / f"profile-{width}"
    shutil.rmtree(profile, ignore_errors=True)
    words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},1200", "--dump-dom", url]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout


def page_of(document: str) -> tuple[dict[str, str], dict[str, str], str]:
    """By ends, the kinds of links; by rank, the standings of peers; and the words on those that take no part."""
    links = {ends: kind for kind, ends in re.findall(r'<g class="link (\w+)" data-link="(.+?)"', document)}
    peers = {rank: standing for standing, rank in re.findall(r'<g class="peer (\w+)" data-rank="(.+?)"', document)}
    (trouble,) = re.findall(r'<ul id="trouble".*?>(.*?)</ul>', document)
    return links, peers, re.sub(r"<.*?>", "", trouble)


ALIVE = {"0-1": "alive", "0-2": "alive", "1-2": "alive"}
DEAD = ALIVE | {"0-2": "dead", "1-2": "dead"}


def test_peers_and_links_are_drawn_and_a_stopped_peer_turns(
    task: str, schedule: Any, dpeer_process: Any, until: Callable[..., Any], tmp_path: Path
) -> None:
    dpeer_process("cluster", "--size", 3, "--dead-after", 4, "--task", task, *schedule, *PACED)
    until(lambda: (tmp_path / "dpeer-run/rank-2/metrics.jsonl").exists())
    page = dpeer_process("dashboard", "--listen", 0)
    url = until(lambda: re.search(r"the page is at (http://127\.0\.0\.1:\d+/)", page.output))[1]

    def served() -> Any:
        with urllib.request.urlopen(f"{url}peers.json", timeout=20) as answer:
            return json.load(answer)

    def standings() -> dict[int, str]:
        return {one["rank"]: one["standing"] for one in served()["peers"]}

    until(lambda: standings() == dict.fromkeys(range(3), "part"))
    for width in (1440, 390):
        assert page_of(browse(tmp_path, url, width))[:2] == (ALIVE, dict.fromkeys("012", "part"))

    (pid,) = (one["pid"] for one in _asked(tmp_path) if one["rank"] == 2)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: standings() == {0: "part", 1: "part", 2: "away"})
        until(lambda: served()["peers"][0]["links"]["2"][0] == "dead")
        links, peers, trouble = page_of(browse(tmp_path, url, 1440))
        assert (links, peers) == (DEAD, {"0": "part", "1": "part", "2": "away"})
        assert trouble == "rank-2: runs, and does not answer within 1 s"
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: standings() == dict.fromkeys(range(3), "part"))

    page.signal(signal.SIGINT)
    assert page.wait() == 0, "and the run goes on"
    assert [one["running"] for one in _asked(tmp_path)] == [True] * 3


def _asked(folder: Path) -> Any:
    from dpeer.federation.control_client import look

    return [one.as_json() for one in look([folder / "dpeer-run"])]
