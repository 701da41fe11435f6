"""`dpeer cluster --dashboard` and `dpeer top --web`: what their page shows while peers are stopped, and go on."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.report.html_tree import Node, tree
from tests.system.conftest import PACED

pytestmark = pytest.mark.slow


def get(url: str, path: str) -> str:
    with urllib.request.urlopen(f"{url}{path}", timeout=20) as answer:
        return answer.read().decode()


def page_of(url: str) -> tuple[dict[str, str], dict[str, str], str]:
    """By ends, the kinds of links; by rank, the standings of peers; and the words on those that take no part."""
    found: Node = tree(get(url, "view"))
    links = {one.attributes["data-link"] or "": (one.classes - {"link"}).pop() for one in found.all("g", "link")
             if "data-link" in one.attributes}  # fmt: skip
    peers = {one.attributes["data-rank"] or "": (one.classes - {"peer"}).pop() for one in found.all("g", "peer")}
    trouble = "".join(one.text for one in found.all("section", id="trouble"))
    return links, peers, trouble


def printed_url(output: str) -> str | None:
    match = re.search(r"a page of all peers is at (http://127\.0\.0\.1:\d+/)", output)
    return match and match[1]


ALIVE = {"0-1": "alive", "0-2": "alive", "1-2": "alive"}


def test_links_of_a_hanging_peer_change_on_the_page_of_a_cluster_and_come_back(
    task: str, schedule: Any, dpeer_process: Any, until: Callable[..., Any]
) -> None:
    run = dpeer_process(
        "cluster", "--dashboard", "--size", 3, "--dead-after", 2, "--task", task, *schedule, *PACED
    )  # fmt: skip
    url = until(lambda: printed_url(run.output))
    until(lambda: page_of(url)[:2] == (ALIVE, dict.fromkeys("012", "part")))
    assert "<h1>dpeer cluster: 3 peers, " in get(url, "")

    def peers_with_history() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = json.loads(get(url, "status.json"))["peers"]
        return found if all(one["history"] for one in found) else None

    peers = until(peers_with_history)
    assert [one["folder"] for one in peers] == ["rank-0", "rank-1", "rank-2"]

    os.kill(peers[2]["pid"], signal.SIGSTOP)
    hangs = (ALIVE | {"0-2": "dead", "1-2": "dead"}, {"0": "part", "1": "part", "2": "away"})
    trouble = until(lambda: (found := page_of(url))[:2] == hangs and found[2])
    assert trouble.endswith("rank 2: runs, and does not answer within 5 s")
    assert 'dpeer_up{rank="2"} 0.0' in get(url, "metrics")
    os.kill(peers[2]["pid"], signal.SIGCONT)
    until(lambda: page_of(url)[:2] == (ALIVE, dict.fromkeys("012", "part")))

    run.signal(signal.SIGINT)
    assert run.wait() == 0
    with pytest.raises(urllib.error.URLError):
        get(url, "view")


def test_a_stopped_peer_leaves_the_page_of_a_folder_and_the_page_leaves_the_run(
    task: str, schedule: Any, dpeer_process: Any, free_ports: Callable[[int], int], until: Callable[..., Any]
) -> None:
    settings = ("--size", 3, "--base-port", free_ports(3), "--dead-after", 2, "--task", task, *schedule, *PACED)
    peers = [dpeer_process("start", "--rank", rank, *settings) for rank in range(3)]
    until(lambda: all("connected to 2 neighbors" in peer.output for peer in peers))
    page = dpeer_process("top", "dpeer-run", "--every", 0.2, "--web")
    url = until(lambda: printed_url(page.output))
    until(lambda: page_of(url)[:2] == (ALIVE, dict.fromkeys("012", "part")))
    peers[1].signal(signal.SIGTERM)
    assert peers[1].wait() == 0
    _, standings, trouble = until(
        lambda: (found := page_of(url))[0] == ALIVE | {"0-1": "gone", "1-2": "gone"} and found
    )
    assert (standings["1"], standings["0"]) == ("away", "part")
    assert trouble.endswith("rank 1: does not run: stopped")

    page.signal(signal.SIGINT)
    assert page.wait() == 0
    assert page.output.splitlines()[-1] == "dpeer: Ctrl-C ends the page, not the run"
    assert [peer.code for peer in peers] == [None, 0, None]
