"""Client of status: what arguments name, peers over HTTP, and answers that are no status."""

import dataclasses
import http.client
import json
import socket
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dpeer.federation import status_client
from dpeer.federation.control_client import Place
from dpeer.federation.serve_address import ServeAddress, read_serve
from dpeer.federation.status_board import StatusBoard
from dpeer.federation.status_check import check_peer
from dpeer.federation.status_client import as_document, asked_at, look_at, look_in_file, read_target
from dpeer.federation.status_document import running_peer
from dpeer.federation.status_server import StatusServer
from dpeer.peer.snapshot import Snapshot
from dpeer.report import live_page
from tests.federation.statuses import WELL, entry


@pytest.fixture
def serve():
    """Serves a document at a free port; returns where."""
    servers = []

    def start(source):
        servers.append(StatusServer(read_serve("0"), source, live_page).start())
        return servers[-1].address

    yield start
    for server in servers:
        server.__exit__(None, None, None)


HERE = replace(WELL, neighbors=WELL.neighbors[::2])
"""Without the words that are not printable."""


def board(snapshot=HERE, private=False):
    found = StatusBoard(f"rank-{snapshot.rank}", lambda: snapshot, private=private)
    found.add_round(entry(8))
    return found


def plain(snapshot):
    return json.loads(json.dumps(asdict(snapshot)))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("dpeer-run", Path("dpeer-run")),
        ("dpeer-run/rank-0", Path("dpeer-run/rank-0")),
        ("10.0.0.3:7780", ServeAddress("10.0.0.3", 7780)),
        ("site-3.example:1", ServeAddress("site-3.example", 1)),
        ("[fd00::2]:7780", ServeAddress("fd00::2", 7780)),
        ("http://127.0.0.1:7780/", ServeAddress("127.0.0.1", 7780)),
        ("runs:1/rank-0", Path("runs:1/rank-0")),
        ("host:65536", Path("host:65536")),
        ("host:0", Path("host:0")),
        ("a\x1bc:80", Path("a\x1bc:80")),
    ],
)
def test_an_argument_names_a_folder_or_an_address(text, target):
    assert read_target(text) == target


def test_a_folder_of_that_name_counts_first(in_tmp_path):
    (in_tmp_path / "run:2").mkdir()
    assert read_target("run:2") == Path("run:2")


def test_a_peer_is_asked_over_http(serve):
    at = serve(board().read)
    (found,) = look_at([at])
    assert (found.name, found.address, found.state) == ("rank-2", str(at), "")
    assert {name: found.answer[name] for name in asdict(WELL)} == plain(HERE)
    assert "history" not in found.answer
    (found,) = look_at([at], history=True)
    assert [line["round"] for line in found.answer["history"]] == [8]


def test_a_peer_is_asked_by_any_name_of_its_host(serve, monkeypatch):
    """Its server knows names of this host alone, and is asked by the number that a name stands for."""
    port, connect = serve(board().read).port, socket.create_connection
    monkeypatch.setattr(
        http.client.socket, "create_connection", lambda place, *more: connect(("127.0.0.1", place[1]), *more)
    )
    (found,) = look_at([ServeAddress("site-3.example", port)])
    assert found.answer["rank"] == 2


def test_what_was_looked_at_can_be_served_again(serve):
    first = serve(board().read)
    second = serve(lambda: as_document(look_at([first, ServeAddress("127.0.0.1", 1)], history=True)))
    peer, nobody = look_at([second], history=True)
    assert {name: peer.answer[name] for name in asdict(WELL)} == plain(HERE)
    assert peer.answer["history"] == [*board().read()["peers"][0]["history"]]
    assert nobody.answer is None


def test_a_private_peers_figures_are_absent_and_not_null(serve):
    (found,) = look_at([serve(board(private=True).read)], history=True)
    assert {*found.answer["history"][0]} == {"round", "round_seconds", "disagreement", "heard", "missed"}


def test_an_address_at_which_nothing_listens_holds_up_no_other(serve):
    closed = ServeAddress("127.0.0.1", 1)
    first, second = look_at([closed, serve(board().read)])
    assert (first.name, first.answer, first.state) == ("127.0.0.1:1", None, "cannot be asked: Connection refused")
    assert second.answer["rank"] == 2


def test_an_address_that_does_not_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(status_client, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = look_at([ServeAddress("127.0.0.1", silent.getsockname()[1])])
    assert found.state == "cannot be asked: no answer in time"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"time": 1.0, "peers": []}, ""),
        ([1], ""),
        ({"peers": 7}, ""),
        ({"peers": [7]}, ""),
        ({"peers": [{"rank": 1, "pid": 2}]}, "phase: field required"),
        ({"peers": [{"rank": "1", "pid": 2, "phase": "work"}]}, "rank: input should be a valid integer"),
        ({"peers": [plain(WELL) | {"neighbors": [{"rank": 2, "liveness": 3}]}]},
         "neighbors.0.liveness: input should be a valid string"),
        ({"peers": [plain(WELL) | {"why": "x" * 301}]}, "why: string should have at most 300 characters"),
        ({"peers": [plain(WELL) | {"history": [{"round": 1}] * 201}]},
         "history: list should have at most 200 items after validation, not 201"),
        ({"peers": [plain(WELL)] * 513}, "513 peers, and at most 512 are read"),
        ({"peers": [plain(WELL) | {"neighbors": [{"rank": 1, "liveness": "x"}] * 4096}] * 5},
         "20480 neighbors, and at most 16384 are read"),
        ({"peers": [plain(WELL) | {"neighbors": [{"rank": 1, "liveness": "x"}] * 4097}]},
         "neighbors: list should have at most 4096 items after validation, not 4097"),
        ({"peers": [plain(WELL) | {"dropped": {"\x1b[31m" * 90: 1}}]},
         f"dropped.{('?[31m' * 8)}.[key]: string should have at most 300 characters"),
        ({"peers": [{"running": False, "folder": "../../etc", "state": "x"}]},
         "folder: string should match pattern '^[^/]+$'"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_status_is_one_line(serve, found, why):
    (place,) = look_at([serve(lambda: found)], history=True)
    assert (place.answer, place.state) == (None, f"answers no status of a peer{why and ': '}{why}")


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (b"<html>", "cannot be asked: the answer is no status of a peer"),
        (b"[" * 100_000, "cannot be asked: the answer is no status of a peer"),
        (b" " * 1001, "cannot be asked: the answer is too long for a status"),
    ],
)
def test_what_another_program_answers_is_one_line(monkeypatch, content, state):
    monkeypatch.setattr(status_client, "LONGEST", 1000 if content[:1] == b" " else 2**20)

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        (found,) = look_at([ServeAddress("127.0.0.1", server.server_address[1])])
        server.shutdown()
        thread.join()
    assert (found.answer, found.state) == (None, state)


def answered(act):
    """The state of an address whose server does `act` with the connection, once a request has come."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            there, _ = other.accept()
            with there, suppress(ConnectionError):
                there.recv(65536)
                act(there)

        thread = threading.Thread(target=answer)
        thread.start()
        (found,) = look_at([ServeAddress("127.0.0.1", other.getsockname()[1])])
        thread.join()
    return found.state


@pytest.mark.parametrize(
    "line",
    [b"SSH-2.0-OpenSSH_9.6", b"\x1b[31mred\x1b]0;title\x07", b"HTTP/9.\x1b[31m 200 OK", b"x" * 70_000],
)  # fmt: skip
def test_a_program_that_speaks_no_http_is_one_line_without_its_words(line):
    assert answered(lambda there: there.sendall(line + b"\r\n")) == "cannot be asked: the answer is no HTTP"


def test_a_name_that_no_request_can_have_is_one_line():
    (found,) = look_at([ServeAddress("a\x1bc", 80)])
    assert found.state == "cannot be asked: URL can't contain control characters. 'a\\x1bc' (found at least '\\x1b')"


def test_a_redirection_is_not_followed():
    head = b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"
    assert answered(lambda there: there.sendall(head)) == "cannot be asked: HTTP 302, and no status of a peer"


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    ],
)
def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time(monkeypatch, start, drop):
    monkeypatch.setattr(status_client, "TIMEOUT", 0.1)

    def drip(there):
        there.sendall(start)
        for _ in range(400):  # the client hangs up long before
            there.sendall(drop)
            threading.Event().wait(0.02)

    assert answered(drip) == "cannot be asked: no answer in time"


def test_an_answer_whose_heads_do_not_end_is_too_long(monkeypatch):
    monkeypatch.setattr(status_client, "LONGEST", 1000)
    endless = b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    assert answered(lambda there: there.sendall(endless)) == "cannot be asked: the answer is too long for a status"


def test_an_answer_that_claims_more_than_memory_holds_is_one_line():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n{"
    assert answered(lambda there: there.sendall(head)) == "cannot be asked: the answer is no status of a peer"


def test_words_of_others_are_printable_when_they_come_in():
    found = check_peer(plain(replace(WELL, why="\x1b[31mred\nline")), history=False)
    assert found["why"] == "?[31mred?line"


def test_what_a_newer_version_adds_is_left_out_and_what_an_older_one_lacks_has_a_default():
    found = check_peer({"rank": 3, "pid": 1, "phase": "dances", "mood": "good"}, history=False)
    assert (found["phase"], found["completed"], found["neighbors"]) == ("dances", 0, [])
    assert "mood" not in found


def test_the_check_knows_every_field_of_a_snapshot():
    found = check_peer(running_peer("rank-2", plain(WELL), []), history=True)
    assert {one.name for one in dataclasses.fields(Snapshot)} <= {*found}
    assert {*found} - {one.name for one in dataclasses.fields(Snapshot)} == {"age_seconds", "history"}
    known = {*running_peer("rank-2", plain(WELL), [])}
    assert known - {*found} == {"folder", "running", "unready"}


def written(folder, text):
    (folder / "dpeer.toml").write_text(text)
    return folder / "dpeer.toml"


def test_a_federation_file_says_where_ranks_are_asked(tmp_path):
    found = asked_at(written(tmp_path, """
size = 6
[rank.0]
address = "tcp://site-0.example:7700"
serve = "*:7780"
[rank.1]
address = "tcp://10.0.0.1:7700"
serve = "10.1.0.1:7781"
[rank.2]
serve = 7782
[rank.3]
serve = 0
[rank.4]
serve = "*:7784"
"""))  # fmt: skip
    assert found == {
        0: ServeAddress("site-0.example", 7780),
        1: ServeAddress("10.1.0.1", 7781),
        2: ServeAddress("127.0.0.1", 7782),
        3: "cannot be asked: `serve` = '0' is a free port, which only its log names",
        4: "cannot be asked: `serve` = '*:7784' names no host, and its `address` none either",
        5: "cannot be asked: its `serve` is not in the federation file",
    }


def test_without_addresses_all_are_on_this_host(tmp_path):
    assert asked_at(written(tmp_path, 'size = 2\nrank.1.serve = "*:7780"'))[1] == ServeAddress("127.0.0.1", 7780)


def test_a_federation_is_looked_at_by_rank(serve, tmp_path):
    two, other = serve(board().read), serve(board(replace(WELL, rank=5)).read)
    found = look_in_file(written(tmp_path, f"size = 4\n[rank.2]\nserve = {two.port}\n[rank.3]\nserve = {other.port}"))
    assert [one.name for one in found] == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert [one.answer["rank"] if one.answer else None for one in found] == [None, None, 2, None]
    assert found[3].state == f"does not answer at 127.0.0.1:{other.port}: rank 5 does"


def test_places_make_a_document():
    ended = Place(Path("run/rank-1"), None, "does not run: done", 20, 20, 3.0)
    found = as_document([Place(Path("run/rank-2"), {**plain(WELL), "history": [{"round": 8}]}), ended])
    two, one = found["peers"]
    assert two == running_peer("rank-2", plain(WELL), [{"round": 8}])
    assert (one["folder"], one["running"], one["unready"]) == ("rank-1", False, "does not run: done")
    assert (one["completed"], one["rounds"], one["checkpoint_seconds"]) == (20, 20, 3.0)
