"""Figures for people."""

from dpeer.results.card import measured
from dpeer.results.figures import all_metrics, called, in_order, in_words, interval, metrics_by_rank, value
from dpeer.results.summaries import PeerSummary


def test_names_and_numbers() -> None:
    assert [called(name) for name in ("auroc", "r2", "my_own")] == ["AUROC", "R2", "my own"]
    assert list(in_order({"mine": 1, "auroc": 2, "accuracy": 3})) == ["accuracy", "auroc", "mine"]
    assert interval({"low": 0.25, "high": 0.5}) == "0.2500 to 0.5000"
    assert interval({"value": 1.0, "low": None, "high": None}) == "-"
    assert value({"value": None, "why": "no row"}) == "undefined"
    assert value({"value": 0.5}) == "0.5000"
    assert in_words({"auroc": 0.5, "dice": None, "f1": 1.0}) == "AUROC 0.5000, F1 1.0000"


def test_a_tasks_own_metric_comes_before_one_of_the_same_name() -> None:
    peer = PeerSummary(metrics={"f1": 0.1}, measured={"f1": 0.9, "auroc": None})
    assert all_metrics(peer) == {"f1": 0.1, "auroc": None}
    assert metrics_by_rank([peer, None]) == {"f1": [0.1, None], "auroc": [None, None]}


def test_values_alone() -> None:
    assert measured({"metrics": {"values": {"auroc": {"value": 0.5, "low": 0.1, "high": 0.9}}}}) == {"auroc": 0.5}
    assert measured({"metrics": None}) is None
    assert measured({}) is None
