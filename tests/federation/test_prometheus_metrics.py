"""Metrics of a peer, as the parsers of Prometheus' own client read them."""

import re

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from dpeer.federation import prometheus_metrics
from dpeer.federation.prometheus_metrics import metrics
from dpeer.peer.snapshot import Snapshot
from tests.federation.statuses import WELL
from tests.test_layers import ROOT

OPEN = "application/openmetrics-text; version=1.0.0"
FIGURES = {"accuracy": 0.5, "test_loss": 1.5, "train_loss": 0.125}


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(prometheus_metrics.time, "time", lambda: 1000.0)


def samples(snapshot, accept="", read=parse, figures=FIGURES):
    """By name and labels, the value."""

    class Peer:
        def collect(self):
            return metrics(snapshot, figures, 0.5)

    registry = CollectorRegistry()
    registry.register(Peer())
    encode, kind = choose_encoder(accept)
    assert ("openmetrics" in kind) == (read is parse_openmetrics)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in read(encode(registry).decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("accept", "read"), [("", parse), ("text/plain;version=0.0.4", parse), (OPEN, parse_openmetrics)]
)
def test_what_is_exposed_parses_and_says_what_the_snapshot_says(accept, read):
    found = samples(WELL, accept, read)
    rank = ("rank", "2")
    expected = {
        "dpeer_up": 1, "dpeer_ready": 1, "dpeer_rounds": 20, "dpeer_completed_rounds": 9, "dpeer_quorum_rounds": 9,
        "dpeer_waiting_seconds": 2.5, "dpeer_sits_out": 0, "dpeer_drains": 0, "dpeer_round_seconds": 1.5,
        "dpeer_remaining_seconds": 16.5, "dpeer_epsilon": 1.25, "dpeer_delta": 1e-5,
        "dpeer_disagreement": 0.125, "dpeer_disk_free_bytes": 5_000_000,
        "dpeer_status_age_seconds": 0.5, "dpeer_last_mix_timestamp_seconds": 987.5,
        "dpeer_checkpoint_timestamp_seconds": 996.5, "dpeer_rounds_since_mix": 1, "dpeer_mixed_bodies": 1,
        "dpeer_missed_bodies": 1, "dpeer_accuracy": 0.5, "dpeer_test_loss": 1.5,
        "dpeer_train_loss": 0.125, "dpeer_member_list": 1, "dpeer_member_list_waiting": 2,
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


def test_a_peer_that_starts_knows_little():
    found = samples(Snapshot(5, 1, "starting"), figures={})
    rank = ("rank", "5")
    assert (found["dpeer_up", rank], found["dpeer_ready", rank]) == (1, 0)
    assert not {"dpeer_rounds", "dpeer_accuracy"} & {name for name, *_ in found}


def test_the_documents_list_every_metric_and_no_other():
    section = (ROOT / "docs/files.md").read_text().partition("## Metrics")[2].partition("\n## ")[0]
    exposed = {name for name, *_ in samples(WELL)}
    assert {*re.findall(r"`(dpeer_\w+)`", section)} == exposed
