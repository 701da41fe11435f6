"""HTTP server of a status document, on threads of its own: metrics, probes, JSON and a live page."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, Protocol, Self
from urllib.parse import parse_qs

from dpeer.exceptions import DpeerError, not_bound
from dpeer.federation.prometheus_metrics import expose
from dpeer.federation.readiness import WITHIN
from dpeer.federation.serve_address import ServeAddress
from dpeer.federation.status_document import Document, blocked, why_unready
from dpeer.results.files import finite

AT_ONCE = 16
"""Connections at a time: of more, the oldest of the busiest host ends, so that no idle ones keep a probe out."""

_THREADS = 2 * AT_ONCE
"""Threads at a time: some may still make answers for connections that have ended."""

PATIENCE = 15.0
"""Seconds in which a request comes, and in which its answer is read."""

LONGEST = 2**15
"""Bytes of a request, at most."""

PER_SECOND = 50
"""Connections that are accepted in a second, in the mean: more wait, and cost the peer nothing."""

KEPT_FOR = 0.5
"""Seconds for which a rendered answer is handed out again, so that many readers cost little more than one."""

_LOOKS_EVERY = 0.25
"""Seconds within which a closed server ends, and an old connection is cut."""

_PROBES = ("/healthz", "/readyz")
"""Paths whose answers are as of now."""

_TEXT, _HTML, _JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"

Source = Callable[[], Document]
"""Makes the status document; called on the server's threads."""


class Page(Protocol):
    """The live page: a module or object with these two functions (`dpeer.report.live_page`)."""

    def page(self, title: str, content: str = "") -> str:
        """The whole page with its first content, whose one inline script fetches `/view` and shows it."""

    def view(self, document: Document) -> str:
        """The part of the page that changes, as HTML."""


class StatusServer:
    """Answers HTTP requests for a status document until it is closed.

    It reads no file and takes nothing from a request but a path of its own and `?within=K`. Names in the header Host
    are compared, so that a web page on another name cannot read it through a browser (DNS rebinding).

    Args:
        address: Where to listen.
        source: Makes the document.
        page: Draws the page.
        title: The page's.
        process: Whether the document is of this process.
        option: By which the address was given, for the error.
        names: Further names of this host, by which it may be asked.

    Attributes:
        address: Where it listens, with the port that the system has given.

    Raises:
        AddressError: The address cannot be bound.
    """

    def __init__(
        self,
        address: ServeAddress,
        source: Source,
        page: Page,
        *,
        title: str = "dpeer",
        process: bool = False,
        option: str = "--serve",
        names: Iterable[str] = (),
    ) -> None:
        self._server = _bound(address, option)
        self._server.answers = _Answers(source, page, title, process=process)
        self._server.names = {one.lower() for one in ("localhost", address.host, socket.gethostname(), *names)}
        self.address = ServeAddress(address.host, self._server.server_address[1])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    @property
    def url(self) -> str:
        """The page's address, for a browser on this host where that can reach it."""
        host = "127.0.0.1" if self.address.everywhere else self.address.host
        return f"http://{ServeAddress(host, self.address.port)}/"

    def start(self) -> Self:
        """Begin to answer.

        Raises:
            RuntimeError: The system gives no thread.
        """
        self._thread.start()
        return self

    def close(self) -> None:
        """Answer no more; returns at once."""
        self._closing.set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()
        self._thread.join()

    def _run(self) -> None:
        self._server.timeout = _LOOKS_EVERY
        allowance, since = float(PER_SECOND), time.monotonic()
        while not self._closing.is_set():
            if allowance >= 1.0:
                allowance -= self._server.answered()
            else:
                self._closing.wait(1.0 / PER_SECOND)
            now = time.monotonic()
            allowance, since = min(allowance + (now - since) * PER_SECOND, float(PER_SECOND)), now
            self._server.cut_old()
        self._server.server_close()


def check_address(address: ServeAddress) -> None:
    """See whether status can be served at an address; nothing is served.

    Raises:
        AddressError: The address cannot be bound.
    """
    _bound(address, "--serve").server_close()


def _bound(address: ServeAddress, option: str) -> _Server:
    host = "0.0.0.0" if address.host == "*" else address.host  # noqa: S104 - as the user has asked
    try:
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = min(found, key=lambda one: one[0] == socket.AF_INET6)
        return _Server(family, place)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise not_bound(
            f"{option} {address}: this host cannot listen there: {why}; choose an address of its own and a free port",
            error,
        ) from error


@dataclass
class _Reader:
    """An accepted connection: since when (of the monotonic clock), from which host, and whether it was ended here."""

    since: float
    host: str
    ended: bool = False


class _Server(ThreadingHTTPServer):
    """Threads that answer, for at most `AT_ONCE` connections, each of at most `PATIENCE` seconds."""

    daemon_threads = True
    block_on_close = False
    answers: _Answers
    names: Container[str]

    def __init__(self, family: socket.AddressFamily, place: Any) -> None:
        self.address_family = family
        self._open: dict[socket.socket, _Reader] = {}
        self._lock = threading.Lock()
        self._accepted = 0
        super().__init__(place, _Handler)

    def server_bind(self) -> None:
        """Bind without looking up this host's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; where the process has no file descriptor left, not at once again."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_LOOKS_EVERY)
            raise

    def answered(self) -> int:
        """Wait a moment for a connection; returns how many were accepted, 0 or 1."""
        self._accepted = 0
        self.handle_request()
        return self._accepted

    def process_request(self, request: Any, client_address: Any) -> None:
        self._accepted = 1
        with self._lock:
            busy = len(self._open) >= _THREADS
            if not busy:
                reading = {one: reader.host for one, reader in self._open.items() if not reader.ended}
                if len(reading) >= AT_ONCE:
                    [(busiest, _)] = Counter(reading.values()).most_common(1)
                    self._end(next(one for one, host in reading.items() if host == busiest))
                self._open[request] = _Reader(time.monotonic(), client_address[0])
        if busy:
            request.settimeout(0.1)
            with suppress(OSError):
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def cut_old(self) -> None:
        """End the connections that have lasted too long."""
        now = time.monotonic()
        with self._lock:
            for one, reader in self._open.items():
                if now - reader.since > PATIENCE:
                    self._end(one)

    def _end(self, one: socket.socket) -> None:
        self._open[one].ended = True
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a connection that has failed go: a peer's log is not for what its readers do."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    server_version = "dpeer"
    error_message_format = "%(message)s\n"
    error_content_type = _TEXT

    def setup(self) -> None:
        super().setup()
        self.rfile = _AtMost(self.rfile, LONGEST)  # type: ignore[assignment]

    def do_GET(self) -> None:
        """Answer with the document in the form that the path names."""
        if not self._host_is_known():
            self._send(421, _TEXT, "no such name here: use an IP address, or the name in `serve` or `address`\n")
            return
        path, _, query = self.path.partition("?")
        self._send(*self.server.answers.to(path, query, self.headers.get("Accept", "")))

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def version_string(self) -> str:
        """The header Server: no version, for it is of use to attackers alone."""
        return self.server_version

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""

    def _host_is_known(self) -> bool:
        given = self.headers.get_all("Host", [])  # HTTP/1.0 may have none; browsers send one always
        return all(self._is_known(text) for text in given)

    def _is_known(self, text: str) -> bool:
        host = re.sub(r":\d{1,5}$", "", text.strip()).strip("[]").lower().removesuffix(".")
        if host in self.server.names:
            return True
        with suppress(ValueError):
            ipaddress.ip_address(host)
            return True
        return False

    def _send(self, code: int, kind: str, text: str | bytes, more: Mapping[str, str] | None = None) -> None:
        content = text.encode() if isinstance(text, str) else text
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        }
        for name, value in (headers | dict(more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class _Answers:
    """The answer to each path."""

    def __init__(self, source: Source, page: Page, title: str, *, process: bool) -> None:
        self._source, self._page, self._process = source, page, process
        self._title = title
        self._rendering = threading.Lock()
        self._rendered: dict[str, tuple[float, str, tuple[int, str, str | bytes]]] = {}
        self._policy = {"Content-Security-Policy": _policy(page.page(title))}

    def to(self, path: str, query: str, accept: str) -> tuple[int, str, str | bytes, Mapping[str, str]]:
        """Status code, content type, content and further headers of the answer."""
        more = self._policy if path == "/" else {}
        routes: Mapping[str, Callable[[Document], tuple[int, str, str | bytes]]] = {
            "/": lambda found: (200, _HTML, self._page.page(self._title, self._page.view(found))),
            "/metrics": lambda found: self._metrics(found, accept),
            "/healthz": _health,
            "/readyz": lambda found: _readiness(found, query),
            "/status.json": lambda found: (200, _JSON, json.dumps(finite(found), allow_nan=False) + "\n"),
            "/view": lambda found: (200, _HTML, self._page.view(found)),
        }
        make = routes.get(path)
        if make is None:
            return 404, _TEXT, "served here: / /metrics /healthz /readyz /status.json\n", {}
        try:
            if path in _PROBES:
                code, kind, content = make(self._source())
            else:
                code, kind, content = self._rendered_once(path, accept, make)
        except DpeerError as error:
            if path == "/":  # its script tries again
                return 200, _HTML, self._page.page(self._title), more
            return 503, _TEXT, f"{error}\n", {}
        return code, kind, content, more

    def _rendered_once(
        self, path: str, accept: str, make: Callable[[Document], tuple[int, str, str | bytes]]
    ) -> tuple[int, str, str | bytes]:
        """What `make` makes, or has made a moment ago; one thread at a time, so that the others take no time of Python.

        Raises:
            DpeerError: The document cannot be made.
        """
        with self._rendering:
            made, asked, answer = self._rendered.get(path, (-math.inf, "", (0, "", "")))
            if asked != accept or time.monotonic() - made >= KEPT_FOR:
                answer = make(self._source())
                self._rendered[path] = time.monotonic(), accept, answer
            return answer

    def _metrics(self, found: Document, accept: str) -> tuple[int, str, str | bytes]:
        content, kind = expose(found, accept, process=self._process)
        return 200, kind, content


def _health(found: Document) -> tuple[int, str, str]:
    """Whether every event loop runs."""
    wrong = [f"{peer['folder']}: {why}\n" for peer in found["peers"] if (why := blocked(peer)) is not None]
    return (503 if wrong else 200), _TEXT, "".join(wrong) or "ok\n"


def _readiness(found: Document, query: str) -> tuple[int, str, str]:
    """Whether every peer takes part."""
    text = parse_qs(query).get("within", [str(WITHIN)])[-1]
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        return 400, _TEXT, f"within={text[:20]!r}: expected a number of rounds, for example /readyz?within={WITHIN}\n"
    whys = {peer["folder"]: why_unready(peer, int(text)) for peer in found["peers"]}
    lines = (f"{name}: {'takes part' if why is None else f'does not take part: {why}'}\n" for name, why in whys.items())
    return (503 if any(whys.values()) else 200), _TEXT, "".join(lines)


def _policy(page: str) -> str:
    """The content security policy by which the page's own inline scripts run, and nothing is fetched from elsewhere."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class _AtMost:
    """The start of a request, up to a number of bytes; then it ends, as if the sender had stopped."""

    def __init__(self, file: BufferedIOBase, most: int) -> None:
        self._file, self._left = file, most

    def readline(self, most: int = -1) -> bytes:
        """A line, or what is left of it."""
        found = self._file.readline(self._left if most < 0 else min(most, self._left))
        self._left -= len(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
