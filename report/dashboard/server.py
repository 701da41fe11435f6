"""Web server of the dashboard: the page, its files and `/peers.json`, on a thread of its own, for known names alone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from dpeer.exceptions import DpeerError
from dpeer.federation.serve_address import ServeAddress, bound
from dpeer.results.files import finite

_PAGE = Path(__file__).parent / "page"
"""The page's own files, and the library of its charts (uPlot, MIT)."""

_EVERY = 1.0
"""Seconds between two looks at the peers, however many pages are open."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}

Source = Callable[[], dict[str, Any]]


class Dashboard:
    """Serves the page until it is closed.

    Args:
        address: Where to listen; not every address of the host, since the page is served under known names alone.
        source: Makes what the page shows; called on a thread, and only while a page is open.

    Raises:
        AddressError: The address cannot be bound.
    """

    def __init__(self, address: ServeAddress, source: Source, title: str) -> None:
        self._socket = bound(address, "--listen")
        self.address = ServeAddress(address.host, self._socket.getsockname()[1])
        names = ["localhost", "127.0.0.1", "[::1]", address.host, f"[{address.host}]", socket.gethostname()]
        self._server = uvicorn.Server(
            uvicorn.Config(
                _app(source, title, names), log_level="critical", lifespan="off", server_header=False, ws="none",
                limit_concurrency=64, timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        self._thread = threading.Thread(target=self._server.run, args=[[self._socket]], name="dashboard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def _app(source: Source, title: str, names: list[str]) -> ASGIApp:
    """The routes, behind the check of names: a web page of another name cannot read them (DNS rebinding)."""
    looking = asyncio.Lock()
    latest: tuple[float, Response] | None = None

    async def peers(request: Request) -> Response:
        nonlocal latest
        async with looking:
            if latest is None or time.monotonic() - latest[0] >= _EVERY:
                latest = time.monotonic(), await asyncio.to_thread(_answer, source, title)
            return latest[1]

    return Starlette(
        routes=[Route("/peers.json", peers), Mount("/", StaticFiles(directory=_PAGE, html=True))],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=_with_headers),
        ],
    )


def _answer(source: Source, title: str) -> Response:
    try:
        return JSONResponse(finite(source() | {"title": title}))
    except DpeerError as error:
        return JSONResponse({"error": str(error)}, 503)


async def _with_headers(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Adds the headers by which the page runs its own scripts alone."""
    found = await answer(request)
    found.headers.update(_HEADERS)
    return found
