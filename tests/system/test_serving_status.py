"""`dpeer start --serve`: what real peers answer while they train, are stopped, and are cut off."""

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


FIGURES = ("accuracy", "test_loss", "train_loss", "clip", "gap", "samples")
"""Parts of the names of what is measured on data."""


def test_a_private_peer_is_scraped_while_it_trains_without_a_figure_of_its_data_and_a_probe_turns_red(
    task, schedule, dpeer_process, dpeer, free_ports, until, tmp_path
):
    settings = ("--size", 3, "--base-port", free_ports(3), "--dead-after", 2, "--task", task, *schedule, *PACED,
                "--privacy", "client", "--noise-multiplier", 2.0)  # fmt: skip
    peers = [dpeer_process("start", "--rank", 0, "--serve", 0, *settings)]
    url = until(lambda: SERVED.search(peers[0].output))[1]
    port = url.rpartition(":")[2].rstrip("/")
    taken = dpeer_process("start", "--rank", 1, "--serve", port, *settings)
    assert taken.wait() == 75, "an address that is taken may be free later"
    assert taken.output.splitlines()[-1].startswith(f"dpeer: --serve 127.0.0.1:{port}: this host cannot listen there: ")
    peers += [dpeer_process("start", "--rank", rank, "--serve", "*:0", *settings) for rank in (1, 2)]
    until(lambda: "have no password: all who reach it can read them" in peers[2].output)
    lines = tmp_path / "dpeer-run/rank-0/metrics.jsonl"
    until(lambda: lines.exists() and lines.read_text().count("\n") > 2)
    until(
        lambda: (
            'dpeer_ready{rank="0"} 1.0' in get(url, "metrics")[1] and "dpeer_disagreement{" in get(url, "metrics")[1]
        )
    )

    assert get(url, "healthz") == (200, "ok\n")
    text = get(url, "metrics")[1]
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert families["dpeer_completed_rounds"].samples[0].value >= 1
    assert {sample.labels["neighbor"] for sample in families["dpeer_sent_bytes"].samples} == {"1", "2"}
    assert families["process_resident_memory_bytes"].samples[0].value > 10**7
    assert str(tmp_path) not in text
    assert "dpeer_epsilon{" in text
    assert [word for word in FIGURES if word in text.lower()] == []
    entries = [json.loads(line) for line in lines.read_text().splitlines(keepends=True) if line.endswith("\n")]
    secret = {repr(line[name]) for line in entries for name in ("train_loss", "test_loss") if line[name] is not None}
    assert len(secret) > 3
    assert [one for one in secret if one in text] == []

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
