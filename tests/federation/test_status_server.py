"""StatusServer over real sockets: its routes, and what readers that misbehave cannot do."""

import asyncio
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from dpeer.exceptions import AddressError, ConfigurationError
from dpeer.federation import status_board, status_server
from dpeer.federation.serve_address import read_serve
from dpeer.federation.status_board import StatusBoard
from dpeer.federation.status_document import history_line, running_peer
from dpeer.federation.status_server import AT_ONCE, StatusServer
from dpeer.report import live_page
from tests.federation.statuses import WELL, entry


def document(snapshot=WELL, age=0.0):
    lines = [history_line(entry(7), private=False)]
    return {"time": 1000.0, "peers": [running_peer("rank-2", asdict(snapshot), lines, age=age)]}


@pytest.fixture
def serve():
    """Serves a document, or what a source gives, at a free port."""
    servers = []

    def start(found=None, address="0", **more):
        source = found if callable(found) else lambda: document() if found is None else found
        servers.append(StatusServer(read_serve(address), source, **{"page": live_page, **more}).start())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def get(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_the_document_is_served_as_json(serve):
    code, text, headers = get(serve(), "/status.json")
    assert (code, json.loads(text), headers["Content-Type"]) == (
        200,
        json.loads(json.dumps(document())),
        "application/json",
    )
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_numbers_that_json_lacks_are_null(serve):
    found = document() | {"odd": [float("nan"), float("inf")]}
    assert json.loads(get(serve(found), "/status.json")[1])["odd"] == [None, None]


@pytest.mark.parametrize(
    ("path", "found", "code", "text"),
    [
        ("/healthz", document(), 200, "ok\n"),
        ("/healthz", document(replace(WELL, mixed_round=None)), 200, "ok\n"),
        ("/healthz", document(age=11.0), 503, "rank-2: its event loop is blocked: its last sign is 11 s old\n"),
        ("/readyz", document(), 200, "rank-2: takes part\n"),
        ("/readyz", document(replace(WELL, mixed_round=2)), 503,
         "rank-2: does not take part: it has mixed in none of the last 6 rounds (since round 3)\n"),
        ("/readyz?within=7", document(replace(WELL, mixed_round=2)), 200, "rank-2: takes part\n"),
        ("/readyz?within=1", document(), 503,
         "rank-2: does not take part: it has mixed in none of the last 1 rounds (since round 8)\n"),
        ("/readyz", document(age=11.0), 503,
         "rank-2: does not take part: its event loop is blocked: its last sign is 11 s old\n"),
        ("/readyz?within=0", document(), 400,
         "within='0': expected a number of rounds, for example /readyz?within=3\n"),
        ("/readyz?within=x", document(), 400,
         "within='x': expected a number of rounds, for example /readyz?within=3\n"),
        ("/../../etc/passwd", document(), 404, "served here: / /metrics /healthz /readyz /status.json\n"),
        ("/status.json/", document(), 404, "served here: / /metrics /healthz /readyz /status.json\n"),
    ],
)  # fmt: skip
def test_each_path_has_its_answer(serve, path, found, code, text):
    assert get(serve(found), path)[:2] == (code, text)


def test_a_probe_turns_red_while_the_event_loop_is_blocked_and_green_when_it_goes_on(serve, monkeypatch):
    now, filled, blocks, over = [100.0], threading.Semaphore(0), threading.Event(), threading.Event()
    monkeypatch.setattr(status_board, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(status_board, "EVERY", 0.001)

    def take():
        filled.release()
        return WELL

    board = StatusBoard("rank-2", take, private=False)
    server = serve(board.read)

    async def run():
        filling = asyncio.create_task(board.keep_filled())
        await asyncio.to_thread(filled.acquire)
        blocks.set()
        over.wait()  # what no peer may do on its loop
        await asyncio.to_thread(lambda: [filled.acquire() for _ in range(50)])
        filling.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    blocks.wait()
    now[0] += 11.0
    assert get(server, "/healthz")[0] == 503
    over.set()
    thread.join()
    assert get(server, "/healthz")[0] == 200


def test_metrics_come_in_the_format_that_is_asked_for(serve):
    server = serve()
    code, text, headers = get(server, "/metrics")
    assert (code, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert 'dpeer_up{rank="2"} 1.0' in text
    code, text, headers = get(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_the_page_runs_its_own_scripts_alone(serve):
    page = SimpleNamespace(
        page=lambda title, content="": f"<h1>{title}</h1>{content}<script>alert(1)</script>",
        view=lambda found: f"<p>{found['time']}</p>",
    )
    server = serve(page=page, title="rank 2")
    code, text, headers = get(server, "/")
    assert (code, text) == (200, "<h1>rank 2</h1><p>1000.0</p><script>alert(1)</script>")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';" in policy
    assert get(server, "/view")[:2] == (200, "<p>1000.0</p>")


def test_the_live_page_runs_its_one_script_and_escapes_what_peers_say(serve):
    peer = {"folder": "rank-1", "running": False, "state": "<script>x</script>", "unready": "a & b"}
    server = serve({"time": 1.0, "peers": [peer]}, title="rank <1>")
    code, text, headers = get(server, "/")
    assert (code, text.count("<h1>rank &lt;1&gt;</h1>"), text.count("<script>")) == (200, 1, 1)
    assert headers["Content-Security-Policy"].count("'sha256-") == 1
    assert "rank 1 (in round 9)" in get(serve(), "/")[1], "peers are there before the script has fetched them"
    view = get(server, "/view")[1]
    assert "&lt;script&gt;x&lt;/script&gt;" in view
    assert "<script" not in view


def test_head_has_no_content_and_nothing_else_is_answered(serve):
    server = serve()
    code, text, headers = get(server, "/status.json", "HEAD")
    assert (code, text) == (200, "")
    assert int(headers["Content-Length"]) > 100
    assert [get(server, "/status.json", method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [501] * 4


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:9100", 200), ("localhost", 200), ("LOCALHOST:9100", 200), ("[::1]:9100", 200), ("10.0.0.3", 200),
        (socket.gethostname(), 200),
        ("attacker.example:9100", 421), ("localhost.attacker.example", 421), ("127.0.0.1.attacker.example", 421),
        ("", 421),
    ],
)  # fmt: skip
def test_a_web_page_of_another_name_cannot_read_it_through_a_browser(serve, host, code):
    assert get(serve(), "/status.json", Host=host)[0] == code


def test_of_two_names_both_must_be_known(serve):
    with socket.create_connection(("127.0.0.1", serve().address.port), timeout=10) as there:
        there.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n")
        assert there.recv(100).startswith(b"HTTP/1.0 421 ")


def test_the_name_at_which_it_is_served_is_known(serve, monkeypatch):
    monkeypatch.setattr(
        status_server.socket, "getaddrinfo",
        lambda *place, **more: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))],
    )  # fmt: skip
    server = serve(address="site-3.example:0")
    monkeypatch.undo()
    assert get(server, "/healthz", Host="site-3.example:9100")[0] == 200
    assert get(server, "/healthz", Host="site-4.example:9100")[0] == 421


def test_further_names_of_this_host_are_known(serve):
    server = serve(names=["Site-3.example"])
    assert get(server, "/healthz", Host="site-3.example:7780")[0] == 200
    assert get(server, "/healthz", Host="example")[0] == 421


def test_an_address_that_is_taken_or_not_of_this_host_is_refused(serve):
    port = serve().address.port
    with pytest.raises(AddressError, match=rf"^--serve 127\.0\.0\.1:{port}: this host cannot listen there: Address"):
        serve(address=str(port))
    with pytest.raises(AddressError, match=r"^--serve 192\.0\.2\.1:9100: this host cannot listen there: "):
        serve(address="192.0.2.1:9100")


def test_what_cannot_be_looked_at_is_an_error_of_the_service(serve):
    def fail():
        raise ConfigurationError("no folder 'dpeer-run' exists")

    assert get(serve(fail), "/healthz")[:2] == (503, "no folder 'dpeer-run' exists\n")
    assert get(serve(fail), "/")[0] == 200, "the page is there, and tries again"


def test_idle_connections_keep_no_probe_out(serve):
    server = serve()
    place = ("127.0.0.1", server.address.port)
    idle = [socket.create_connection(place, timeout=10) for _ in range(AT_ONCE)]
    assert get(server, "/healthz")[0] == 200
    assert idle[0].recv(100) == b"", "the oldest has ended"
    idle[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert idle[-1].recv(100).startswith(b"HTTP/1.0 200 ")
    for one in idle:
        one.close()


def test_a_busy_host_displaces_its_own_connections(serve):
    server = serve(address="127.0.0.1:0")
    place = ("127.0.0.1", server.address.port)
    other = socket.create_connection(place, timeout=10, source_address=("127.0.0.2", 0))
    idle = [socket.create_connection(place, timeout=10) for _ in range(AT_ONCE + 2)]
    assert [one.recv(100) for one in idle[:3]] == [b""] * 3
    other.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert other.recv(100).startswith(b"HTTP/1.0 200 ")
    for one in (other, *idle):
        one.close()


def test_answers_that_take_long_are_made_by_so_many_threads_at_once_and_no_more(serve):
    looking, over = threading.Semaphore(0), threading.Event()

    def slow():
        looking.release()
        over.wait()
        return document()

    server = serve(slow)
    place = ("127.0.0.1", server.address.port)
    waiting = []
    for _ in range(2 * AT_ONCE):
        waiting.append(socket.create_connection(place, timeout=10))
        waiting[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        looking.acquire()
    one_more = socket.create_connection(place, timeout=10)
    assert one_more.recv(100).startswith(b"HTTP/1.0 503 ")
    over.set()
    for one in (*waiting, one_more):
        one.close()


def test_a_connection_that_says_nothing_is_cut(serve, monkeypatch):
    monkeypatch.setattr(status_server, "PATIENCE", 0.0)
    with socket.create_connection(("127.0.0.1", serve().address.port), timeout=10) as idle:
        assert idle.recv(100) == b""


def test_a_request_without_end_is_cut(serve):
    with socket.create_connection(("127.0.0.1", serve().address.port), timeout=10) as endless:
        endless.sendall(b"GET /healthz HTTP/1.0\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 500) for n in range(66)))
        assert endless.recv(100).startswith(b"HTTP/1.0 ")


def test_many_readers_cost_little_more_than_one(serve, monkeypatch):
    monkeypatch.setattr(status_server, "KEPT_FOR", 3600.0)
    drawn = []

    def view(found):
        drawn.append(found)
        return "drawn"

    server = serve(page=SimpleNamespace(page=lambda title, content="": title, view=view))
    with ThreadPoolExecutor(8) as threads:
        assert {*threads.map(lambda _: get(server, "/view")[:2], range(20))} == {(200, "drawn")}
    assert len(drawn) == 1


def test_a_probe_is_answered_as_of_now(serve, monkeypatch):
    monkeypatch.setattr(status_server, "KEPT_FOR", 3600.0)
    ages = iter([0.0, 11.0, 0.0])
    server = serve(lambda: document(age=next(ages)))
    assert [get(server, "/healthz")[0] for _ in range(3)] == [200, 503, 200]


def test_so_many_connections_a_second_are_accepted_and_more_wait(serve, monkeypatch):
    monkeypatch.setattr(status_server, "PER_SECOND", 10)
    asked = []

    def look():
        asked.append(time.monotonic())
        return document()

    server = serve(look)
    for _ in range(25):
        assert get(server, "/healthz")[0] == 200
    assert asked[-1] - asked[0] >= (25 - 10 - 1) / 10 * 0.9


def test_what_is_no_request_ends_its_own_connection_alone(serve):
    server = serve()
    for nonsense in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz\r\n", b"\r\n"):
        with socket.create_connection(("127.0.0.1", server.address.port), timeout=10) as there:
            there.sendall(nonsense)
            there.shutdown(socket.SHUT_WR)
            while there.recv(4096):
                pass
    assert get(server, "/healthz")[0] == 200
