"""Web server of `--serve`, on threads: Prometheus metrics of a snapshot, and `/healthz`, red while the loop hangs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, get_args
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dpeer.federation.serve_address import ServeAddress, bound
from dpeer.federation.snapshot_words import STALE, unready
from dpeer.peer.core.membership import Status
from dpeer.peer.snapshot import Phase, Snapshot
from dpeer.results.json_fields import number

_GAUGES = {
    "rounds": ("rounds", "Rounds of the run"),
    "completed": ("completed_rounds", "Rounds that the peer has completed"),
    "quorum": ("quorum_rounds", "Rounds that a quorum has completed"),
    "waiting_seconds": ("waiting_seconds", "Seconds for which the peer has waited; 0 where it does not wait"),
    "member_list": ("member_list", "Number of the member list in use; 0 is the federation file"),
    "next_list": ("member_list_waiting", "Number of a member list that waits for votes"),
    "sits_out": ("sits_out", "Whether the peer sits rounds out, because the others went on without it"),
    "drains": ("drains", "Whether the peer leaves when its round is complete"),
    "round_seconds": ("round_seconds", "Mean seconds of the last ten rounds"),
    "left_seconds": ("remaining_seconds", "Seconds that the rounds left will take at that pace"),
    "disagreement": ("disagreement", "Relative distance of the own released body to the mix of the last round"),
    "epsilon": ("epsilon", "Privacy loss so far"),
    "delta": ("delta", "The delta of epsilon"),
    "disk_free": ("disk_free_bytes", "Bytes that the folder's disk had left when a round was last saved"),
}
"""By field of a snapshot, the name and help of its gauge."""

_TIMES = {
    "mixed_seconds": ("last_mix_timestamp_seconds", "When a neighbor's body was last mixed"),
    "checkpoint_seconds": ("checkpoint_timestamp_seconds", "When the last checkpoint was written"),
}
"""By an age among the fields, the name and help of the time that it is counted from."""

_FIGURES = {
    "accuracy": "Accuracy in the last evaluated round; none with privacy",
    "test_loss": "Test loss in the last evaluated round; none with privacy",
    "train_loss": "Training loss of the last round; none with privacy",
}
"""By a figure of a round, which is a release of the data where privacy is on, the help of its gauge."""


def metrics(snapshot: Snapshot, figures: Mapping[str, float], age: float) -> Iterator[Metric]:
    """The metrics of a peer; what it does not know has none.

    Args:
        snapshot: Its snapshot.
        figures: The last values of accuracy and losses; empty with privacy.
        age: Seconds since the snapshot was taken.
    """
    found: dict[str, Metric] = {}
    for name, words, value, labels in _samples(snapshot, figures, age):
        if value is not None:
            labels = {"rank": snapshot.rank, **labels}
            kind: Any = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = found.setdefault(name, kind(f"dpeer_{name}", words, labels=[*labels]))
            family.add_metric([str(one) for one in labels.values()], value)  # type: ignore[attr-defined]
    yield from found.values()


def _samples(
    snapshot: Snapshot, figures: Mapping[str, float], age: float
) -> Iterator[tuple[str, str, float | None, Mapping[str, object]]]:
    """Of each sample the name, the help, the value (None where it is not known) and the labels beside the rank."""
    yield "up", "Whether the peer runs", 1, {}
    well = age <= STALE and unready(vars(snapshot)) is None
    yield "ready", "Whether the peer takes part: it has mixed within its last rounds", well, {}
    yield "status_age_seconds", "Seconds since the event loop last stated its status", age, {}
    for field, (name, words) in _GAUGES.items():
        yield name, words, getattr(snapshot, field), {}
    for field, (name, words) in _TIMES.items():
        past = getattr(snapshot, field)
        yield name, f"{words}, in Unix seconds", None if past is None else time.time() - age - past, {}
    since = None if snapshot.mixed_round is None else max(snapshot.completed - snapshot.mixed_round - 1, 0)
    yield "rounds_since_mix", "Completed rounds since a neighbor's body was last mixed", since, {}
    for phase in get_args(Phase):
        yield "phase", "1 for what the peer does now", phase == snapshot.phase, {"phase": phase}
    yield "mixed_bodies", "Bodies of neighbors in the last mix", len(snapshot.mixed), {}
    yield "missed_bodies", "Bodies that the last mix lacked", len(snapshot.missed), {}
    for name, words in _FIGURES.items():
        yield name, words, figures.get(name), {}
    awaited = {one.rank for one in snapshot.waits_for}
    for one in snapshot.neighbors:
        at = {"neighbor": one.rank}
        yield "neighbor_waited_for", "Whether the peer waits for the neighbor", one.rank in awaited, at
        for word in Status:
            alike = word.value == one.liveness
            yield "neighbor_liveness", "1 for the neighbor's liveness", alike, {**at, "liveness": word.value}
        yield "neighbor_round", "Rounds that the neighbor has completed", one.completed, at
        yield "neighbor_silent_seconds", "Seconds since its last message", one.silent_seconds, at
        yield "sent_bytes_total", "Bytes of messages to the neighbor", one.bytes_sent, at
        yield "received_bytes_total", "Bytes of the neighbor's messages", one.bytes_received, at
    for reason, count in sorted(snapshot.dropped.items()):
        yield "dropped_messages_total", "Messages that could not be used", count, {"reason": reason}


_EVERY = 1.0
"""Seconds between two snapshots."""

_LOOKS_EVERY = 0.25
"""Seconds within which a server that is to close ends."""


class Board(Collector):
    """The last snapshot of a peer and the last figures of its rounds.

    The event loop alone writes, and only replaces what stands there by new, frozen values. So a reader takes no lock,
    and whatever it does afterwards costs the loop nothing.

    Args:
        take: Takes the peer's snapshot, on the event loop.
        private: Whether the data are protected: accuracy and losses are not shown then.
    """

    def __init__(self, take: Callable[[], Snapshot], *, private: bool) -> None:
        self._take, self._private = take, private
        self._figures: Mapping[str, float] = {}
        self._shown = (take(), time.monotonic())

    def follow(self, take: Callable[[], Snapshot]) -> None:
        """Take snapshots in another way from now on; called on the event loop."""
        self._take = take
        self.fill()

    def note(self, entry: Mapping[str, Any]) -> None:
        """Note the figures of a round's line of metrics.jsonl; called on the event loop."""
        if not self._private:
            found = {name: value for name in _FIGURES if (value := number(entry.get(name))) is not None}
            self._figures = {**self._figures, **found}

    def fill(self) -> None:
        """Put the present snapshot on the board; called on the event loop.

        A peer never fails for the sake of its metrics: a snapshot that cannot be taken leaves the last, whose age
        shows it.
        """
        with contextlib.suppress(Exception):
            self._shown = (self._take(), time.monotonic())

    async def keep_filled(self) -> None:
        """Fill the board once a second, until cancelled."""
        while True:
            self.fill()
            await asyncio.sleep(_EVERY)

    @property
    def age(self) -> float:
        """Seconds since the last snapshot; any thread may ask."""
        return time.monotonic() - self._shown[1]

    def collect(self) -> Iterator[Metric]:
        """The metrics; any thread may call this."""
        return metrics(self._shown[0], self._figures, round(self.age, 3))


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Answers GET /metrics and /healthz, on a thread for each connection, until it is closed.

    Args:
        address: Where to listen.
        board: What is shown.

    Attributes:
        address: Where it listens, with the port that the system has given.

    Raises:
        AddressError: The address cannot be bound.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: ServeAddress, board: Board) -> None:
        listening = bound(address, "--serve")
        TCPServer.__init__(self, listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_address = listening.getsockname()
        # Not by `server_bind`, which looks up this host's name: that can take seconds.
        self.server_name, self.server_port = address.host, self.server_address[1]
        self.setup_environ()
        self.set_app(_app(board, {one.lower() for one in ("localhost", address.host, socket.gethostname())}))
        self.address = ServeAddress(address.host, self.server_port)
        threading.Thread(target=self.serve_forever, args=[_LOOKS_EVERY], name="metrics", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self.shutdown()
        self.server_close()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; where the process has no file descriptor left, not at once again."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_LOOKS_EVERY)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a connection that has failed go: a peer's log is not for what its readers do."""


class _Handler(WSGIRequestHandler):
    timeout = 15.0
    """Seconds in which a part of a request comes, and in which its answer is read."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


def _app(board: Board, names: set[str]) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    registry = CollectorRegistry()
    registry.register(board)
    ProcessCollector(registry=registry)
    exposed = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path, age = environ.get("PATH_INFO", ""), board.age
        code, text = "404 Not Found", "served here: /metrics /healthz\n"
        if not _is_known(environ.get("HTTP_HOST"), names):
            code, text = "421 Misdirected Request", "use an IP address, or the name in `serve`\n"
        elif path == "/metrics":
            found: Iterable[bytes] = exposed(environ, start)
            return found
        elif path == "/healthz" and age > STALE:
            code, text = "503 Service Unavailable", f"the event loop is blocked: its last sign is {age:.0f} s old\n"
        elif path == "/healthz":
            code, text = "200 OK", "ok\n"
        start(code, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return answer


def _is_known(header: str | None, names: set[str]) -> bool:
    """Whether Host is an address or a name of this host: other names are web pages' (DNS rebinding)."""
    if header is None:  # as in HTTP/1.0; browsers send one always
        return True
    host = re.sub(r":\d{1,5}$", "", header.strip()).strip("[]").lower().removesuffix(".")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host in names
    return True
