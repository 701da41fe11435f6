"""Metrics of a peer, as parsers of Prometheus' own client read them, and its server over real sockets."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from dpeer.exceptions import AddressError
from dpeer.federation import metrics_server
from dpeer.federation.metrics_server import Board, MetricsServer, metrics
from dpeer.federation.serve_address import read_serve
from dpeer.federation.snapshot_words import STALE
from dpeer.peer.snapshot import Snapshot
from tests.federation.statuses import WELL, entry
from tests.test_layers import ROOT

OPEN = "application/openmetrics-text; version=1.0.0"
FIGURES = {"accuracy": 0.5, "test_loss": 1.5, "train_loss": 0.125}


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr(metrics_server.time, "time", lambda: 1000.0)


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


Serve = Callable[..., MetricsServer]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the board: a list with the seconds in it."""
    now = [100.0]
    monkeypatch.setattr(metrics_server, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 1000.0))
    return now


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a board at a free port."""
    servers: list[MetricsServer] = []

    def start(board: Board | None = None, address: str = "0") -> MetricsServer:
        servers.append(MetricsServer(read_serve(address), board or Board(lambda: WELL, private=False)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def get(
    server: MetricsServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_metrics_come_in_the_format_that_is_asked_for(serve: Serve) -> None:
    code, text, headers = get(serve(), "/metrics")
    assert (code, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert 'dpeer_up{rank="2"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    code, text, headers = get(serve(), "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/status.json", "/readyz", "/view", "/../../etc/passwd"])
def test_nothing_else_is_there(serve: Serve, path: str) -> None:
    assert get(serve(), path)[:2] == (404, "served here: /metrics /healthz\n")


def test_health_is_that_of_the_event_loop(serve: Serve, clock: list[float]) -> None:
    board = Board(lambda: WELL, private=False)
    server = serve(board)
    clock[0] += STALE
    assert get(server, "/healthz")[:2] == (200, "ok\n")
    clock[0] += 1.5
    assert get(server, "/healthz")[:2] == (503, "the event loop is blocked: its last sign is 12 s old\n")
    assert 'dpeer_ready{rank="2"} 0.0' in get(server, "/metrics")[1]
    board.fill()
    assert get(server, "/healthz")[0] == 200


def test_a_snapshot_that_cannot_be_taken_ends_no_peer_and_shows_by_its_age(clock: list[float]) -> None:
    board = Board(lambda: WELL, private=False)

    def fail() -> Any:
        raise RuntimeError("a neighbor has no link")

    clock[0] += 4.0
    board.follow(fail)
    assert board.age == 4.0
    board.follow(lambda: replace(WELL, completed=10))
    assert board.age == 0.0


def names_on(board: Board) -> set[str]:
    return {one.name for one in board.collect()}


def test_figures_are_the_last_ones_and_none_where_data_are_protected() -> None:
    board = Board(lambda: WELL, private=False)
    assert "dpeer_accuracy" not in names_on(board)
    board.note(entry(7))
    board.note(entry(8, accuracy=None, train_loss="broken", test_loss=0.25))
    values = {one.name: one.samples[0].value for one in board.collect()}
    assert (values["dpeer_accuracy"], values["dpeer_train_loss"], values["dpeer_test_loss"]) == (0.5, 2.5, 0.25)
    private = Board(lambda: WELL, private=True)
    private.note(entry(7))
    assert not {"dpeer_accuracy", "dpeer_test_loss", "dpeer_train_loss"} & names_on(private)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:9100", 200), ("localhost", 200), ("LOCALHOST:9100", 200), ("[::1]:9100", 200), ("10.0.0.3", 200),
        (socket.gethostname(), 200), ("site-3.example:7780", 421),
        ("attacker.example:9100", 421), ("localhost.attacker.example", 421), ("127.0.0.1.attacker.example", 421),
        ("", 421),
    ],
)  # fmt: skip
def test_a_web_page_of_another_name_cannot_read_it_through_a_browser(serve: Serve, host: str, code: int) -> None:
    assert get(serve(), "/metrics", Host=host)[0] == code


def test_of_two_names_both_must_be_known(serve: Serve) -> None:
    with socket.create_connection(("127.0.0.1", serve().address.port), timeout=10) as there:
        there.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n")
        assert there.recv(100).startswith(b"HTTP/1.0 421 ")


def test_an_address_that_is_taken_or_not_of_this_host_is_refused(serve: Serve) -> None:
    port = serve().address.port
    with pytest.raises(AddressError, match=rf"^--serve 127\.0\.0\.1:{port}: this host cannot listen there: Address"):
        serve(address=str(port))
    with pytest.raises(AddressError, match=r"^--serve 192\.0\.2\.1:9100: this host cannot listen there: "):
        serve(address="192.0.2.1:9100")


def test_a_connection_that_says_nothing_is_cut(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", serve().address.port), timeout=10) as idle:
        assert idle.recv(100) == b""


def test_what_is_no_request_ends_its_own_connection_alone(serve: Serve) -> None:
    server = serve()
    idle = [socket.create_connection(("127.0.0.1", server.address.port), timeout=10) for _ in range(50)]
    for nonsense in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz\r\n", b"\r\n"):
        with socket.create_connection(("127.0.0.1", server.address.port), timeout=10) as there:
            there.sendall(nonsense)
            there.shutdown(socket.SHUT_WR)
            while there.recv(4096):
                pass
    assert get(server, "/healthz")[0] == 200
    for one in idle:
        one.close()


def test_a_closed_server_answers_no_more() -> None:
    server = MetricsServer(read_serve("0"), Board(lambda: WELL, private=False))
    server.close()
    with pytest.raises(ConnectionRefusedError):
        get(server, "/healthz")
