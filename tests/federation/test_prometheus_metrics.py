"""Metrics of a status document, as the parsers of Prometheus' own client read them."""

import re
from dataclasses import asdict, replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from dpeer.federation.prometheus_metrics import expose
from dpeer.federation.status_document import history_line, running_peer
from dpeer.peer.snapshot import Snapshot
from tests.federation.statuses import WELL, entry
from tests.test_layers import ROOT

OPEN = "application/openmetrics-text; version=1.0.0"


def document(*snapshots, history=(), private=False):
    lines = [history_line(one, private=private) for one in history]
    return {
        "time": 1000.0,
        "peers": [running_peer(f"rank-{one.rank}", asdict(one), lines, age=0.5) for one in snapshots],
    }


def samples(found, accept="", read=parse, process=False):
    """By name and labels, the value."""
    text, kind = expose(found, accept, process=process)
    assert ("openmetrics" in kind) == (read is parse_openmetrics)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in read(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("accept", "read"), [("", parse), ("text/plain;version=0.0.4", parse), (OPEN, parse_openmetrics)]
)
def test_what_is_exposed_parses_and_says_what_the_document_says(accept, read):
    found = samples(document(WELL, history=[entry(7), entry(8, accuracy=None, train_loss=0.125)]), accept, read)
    rank = ("rank", "2")
    expected = {
        "dpeer_up": 1, "dpeer_ready": 1, "dpeer_rounds": 20, "dpeer_completed_rounds": 9, "dpeer_quorum_rounds": 9,
        "dpeer_waiting_seconds": 2.5, "dpeer_sits_out": 0, "dpeer_drains": 0, "dpeer_round_seconds": 1.5,
        "dpeer_remaining_seconds": 16.5, "dpeer_epsilon": 1.25, "dpeer_delta": 1e-5,
        "dpeer_disagreement": 0.125, "dpeer_line_wait_ratio": 0.25, "dpeer_disk_free_bytes": 5_000_000,
        "dpeer_status_age_seconds": 0.5, "dpeer_last_mix_timestamp_seconds": 987.5,
        "dpeer_checkpoint_timestamp_seconds": 996.5, "dpeer_rounds_since_mix": 1, "dpeer_mixed_bodies": 1,
        "dpeer_missed_bodies": 1, "dpeer_epoch": 1, "dpeer_members": 4, "dpeer_accuracy": 0.5, "dpeer_test_loss": 1.5,
        "dpeer_train_loss": 0.125,
    }  # fmt: skip
    assert {name: found[name, rank] for name in expected} == expected
    assert {name for name, *labels in found if labels == [rank]} == {*expected}
    first, second = (("neighbor", "0"), rank), (("neighbor", "1"), rank)
    assert (found["dpeer_sent_bytes_total", *first], found["dpeer_received_bytes_total", *first]) == (1200, 1300)
    assert (found["dpeer_neighbor_waited_for", *first], found["dpeer_neighbor_waited_for", *second]) == (0, 1)
    assert (found["dpeer_neighbor_round", *second], found["dpeer_neighbor_silent_seconds", *second]) == (8, 7)
    assert found["dpeer_dropped_messages_total", rank, ("reason", "stranger")] == 3
    phases = [labels for name, *labels in found if name == "dpeer_phase" and found[name, *labels]]
    assert phases == [[("phase", "collect"), rank]]
    living = {
        labels[1]: labels[0] for name, *labels in found if name == "dpeer_neighbor_liveness" and found[name, *labels]
    }
    assert living == {
        ("neighbor", "0"): ("liveness", "alive"), ("neighbor", "1"): ("liveness", "suspect"),
        ("neighbor", "3"): ("liveness", "unseen"),
    }  # fmt: skip
    assert ("dpeer_neighbor_round", ("neighbor", "3"), rank) not in found, "nothing is known of it"


def test_several_peers_share_their_families():
    text, _ = expose(document(WELL, replace(WELL, rank=4), Snapshot(5, 1, "starting")), "", process=False)
    families = [line for line in text.decode().splitlines() if line.startswith("# TYPE")]
    assert len(families) == len({*families})
    found = samples(document(WELL, replace(WELL, rank=4), Snapshot(5, 1, "starting")))
    assert [found["dpeer_up", ("rank", one)] for one in "245"] == [1, 1, 1]
    assert found["dpeer_ready", ("rank", "5")] == 0
    assert ("dpeer_rounds", ("rank", "5")) not in found


def test_no_series_is_there_twice_whatever_addresses_answer():
    twice = replace(WELL, neighbors=WELL.neighbors * 2)
    text, _ = expose(document(twice, replace(WELL, completed=1), Snapshot(5, 1, "starting")), "", process=False)
    series = [line.rpartition(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")]
    assert len(series) == len({*series})
    assert samples(document(WELL, replace(WELL, completed=1)))["dpeer_completed_rounds", ("rank", "2")] == 9


def test_a_peer_that_does_not_run_is_down():
    peer = {"folder": "rank-7", "running": False, "state": "does not run", "unready": "does not run"}
    assert samples({"time": 1.0, "peers": [peer]}) == {
        ("dpeer_up", ("rank", "7")): 0, ("dpeer_ready", ("rank", "7")): 0,
    }  # fmt: skip


def test_with_privacy_no_figure_of_the_data_is_among_them():
    found = samples(document(WELL, history=[entry(7)], private=True))
    assert not {"dpeer_accuracy", "dpeer_test_loss", "dpeer_train_loss"} & {name for name, *_ in found}


def test_the_process_is_among_them_where_it_is_the_peers():
    names = {name for name, *_ in samples(document(WELL), process=True)}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= names


def test_the_documents_list_every_metric_and_no_other():
    section = (ROOT / "docs/files.md").read_text().partition("## Metrics")[2].partition("\n## ")[0]
    exposed = {name for name, *_ in samples(document(WELL, history=[entry(7)]))}
    assert {*re.findall(r"`(dpeer_\w+)`", section)} == exposed
