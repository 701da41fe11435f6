"""`dpeer start --serve`: what real peers answer while they train, are stopped, and are cut off."""

import contextlib
import json
import re
import signal
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.runs import PACED

pytestmark = pytest.mark.slow

SERVED = re.compile(r"metrics at (http://127\.0\.0\.1:\d+/)metrics")


def get(url, path, seconds=10.0):
    """Status code and text; 0 if no answer came in time."""
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except TimeoutError:
        return 0, ""


def test_a_peer_is_scraped_while_it_trains_and_a_probe_turns_red(
    task, schedule, dpeer_process, dpeer, free_ports, until, tmp_path
):
    base = free_ports(3)
    settings = ("--size", 3, "--base-port", base, "--dead-after", 2, "--task", task, *schedule, *PACED)
    peers = [dpeer_process("start", "--rank", rank, "--serve", 0, *settings) for rank in range(3)]
    url = until(lambda: SERVED.search(peers[0].output))[1]
    until(lambda: 'dpeer_ready{rank="0"} 1.0' in get(url, "metrics")[1])

    assert get(url, "healthz") == (200, "ok\n")
    families = {one.name: one for one in text_string_to_metric_families(get(url, "metrics")[1])}
    assert families["dpeer_completed_rounds"].samples[0].value >= 1
    assert {sample.labels["neighbor"] for sample in families["dpeer_sent_bytes"].samples} == {"1", "2"}
    assert families["process_resident_memory_bytes"].samples[0].value > 10**7
    assert str(tmp_path) not in get(url, "metrics")[1]

    peers[0].signal(signal.SIGSTOP)
    assert get(url, "healthz", 1.0) == (0, ""), "a stopped process answers no probe"
    peers[0].signal(signal.SIGCONT)
    until(lambda: get(url, "healthz")[0] == 200)

    for one in peers[1:]:
        one.signal(signal.SIGKILL)
    until(lambda: 'dpeer_ready{rank="0"} 0.0' in get(url, "metrics")[1])
    assert get(url, "healthz") == (200, "ok\n"), "it is alive, and takes part in nothing"
    found = dpeer("status", tmp_path / "dpeer-run" / "rank-0", "--check")
    assert (found.code, found.out[:39]) == (1, "rank-0: does not take part: it pauses: ")

    peers[0].signal(signal.SIGTERM)
    assert peers[0].wait() == 0
    with pytest.raises(urllib.error.URLError):
        get(url, "healthz")
    events = [json.loads(line)["event"] for line in (tmp_path / "dpeer-run/rank-0/log.jsonl").read_text().splitlines()]
    assert "serving" in events
    assert "serving-openly" not in events


def test_a_port_that_others_reach_is_warned_of_and_one_that_is_taken_refused(
    task, schedule, dpeer_process, free_ports, until, tmp_path
):
    base = free_ports(3)
    settings = ("--size", 2, "--base-port", base, "--task", task, *schedule, "--rounds", 1)
    open_one = dpeer_process("start", "--rank", 0, "--serve", f"*:{base + 2}", *settings)
    until(lambda: "have no password: all who reach it can read them" in open_one.output)
    taken = dpeer_process("start", "--rank", 1, "--serve", base + 2, *settings)
    assert taken.wait() == 75, "an address that is taken may be free later"
    assert taken.output.splitlines()[-1] == (
        f"dpeer: --serve 127.0.0.1:{base + 2}: this host cannot listen there: Address already in use; choose an "
        "address of its own and a free port"
    )
    assert not (tmp_path / "dpeer-run" / "rank-1" / "metrics.jsonl").exists()
    with contextlib.suppress(urllib.error.URLError):
        assert get(f"http://127.0.0.1:{base + 2}/", "healthz")[0] == 200


FIGURES = ("accuracy", "test_loss", "train_loss", "clip", "gap", "samples")
"""Parts of the names of what is measured on data."""


def test_with_privacy_no_figure_of_the_data_is_served(task, schedule, dpeer_process, free_ports, until, tmp_path):
    settings = ("--size", 2, "--base-port", free_ports(2), "--task", task, *schedule, *PACED)
    private = ("--privacy", "client", "--noise-multiplier", 2.0, "--serve", 0)
    peers = [dpeer_process("start", "--rank", rank, *settings, *private) for rank in range(2)]
    url = until(lambda: SERVED.search(peers[0].output))[1]
    lines = tmp_path / "dpeer-run/rank-0/metrics.jsonl"
    until(lambda: lines.exists() and lines.read_text().count("\n") > 2)
    until(lambda: "dpeer_disagreement{" in get(url, "metrics")[1])
    text = get(url, "metrics")[1]
    assert [word for word in FIGURES if word in text.lower()] == []
    assert "dpeer_epsilon{" in text

    entries = [json.loads(line) for line in lines.read_text().splitlines()]
    secret = {repr(line[name]) for line in entries for name in ("train_loss", "test_loss") if line[name] is not None}
    assert len(secret) > 3
    assert [one for one in secret if one in text] == []
