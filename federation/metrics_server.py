"""Web server of `--serve`, on threads: `/metrics` of the last snapshot, and `/healthz`, red while the loop hangs."""

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
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dpeer.federation.prometheus_metrics import metrics
from dpeer.federation.readiness import STALE
from dpeer.federation.serve_address import ServeAddress, bound
from dpeer.peer.snapshot import Snapshot
from dpeer.results.json_fields import number

_EVERY = 1.0
"""Seconds between two snapshots."""

_LOOKS_EVERY = 0.25
"""Seconds within which a server that is to close ends."""

_FIGURES = ("accuracy", "test_loss", "train_loss")
"""Fields of a record that are releases of the data where privacy is on."""


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
        """Note a round's figures; called on the event loop.

        Args:
            entry: The round's line of metrics.jsonl.
        """
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
