"""Dashboard: live page of many peers, served for `dpeer cluster --dashboard` and `dpeer top --web`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click

from dpeer.federation.control_client import Place
from dpeer.federation.serve_address import ServeAddress, read_serve
from dpeer.federation.status_client import as_document

F = TypeVar("F", bound=Callable[..., Any])


class _Address(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """PORT or HOST:PORT, as `serve` states it."""

    name = "ADDRESS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ServeAddress:
        """The address of a text."""
        if isinstance(value, ServeAddress):
            return value
        try:
            return read_serve(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}; without an address, write the option last", param, ctx)


def dashboard_option(name: str, text: str, **more: Any) -> Callable[[F], F]:
    """The option that opens the page, at a free port of loopback where it is given without an address.

    Args:
        name: As it is typed.
        text: What it does, for the help.
        more: Further arguments of `click.option`.
    """
    return click.option(
        name, "dashboard", is_flag=False, flag_value="0", type=_Address(), metavar="[ADDRESS]",
        help=f"{text}: at a free port, at PORT of loopback, or at HOST:PORT, where all who reach it can read it.",
        **more,
    )  # fmt: skip


def open_dashboard(
    address: ServeAddress, option: str, look: Callable[[], list[Place]], title: str, say: Callable[[str], Any],
    *, every: float = 1.0,
) -> AbstractContextManager[Any]:  # fmt: skip
    """Context in which the page is served; says where.

    Args:
        address: Where to listen.
        option: By which the address was given.
        look: Looks at the peers; called on a thread, and only while a page is open.
        title: The page's.
        say: Prints a line.
        every: Seconds between two looks, however many pages are open.

    Raises:
        AddressError: The address cannot be bound.
    """
    from dpeer.federation.status_server import Latest, StatusServer
    from dpeer.report import live_page

    source = Latest(lambda: as_document(look()), every)
    server = StatusServer(address, source, live_page, title=title, option=option)
    say(f"dpeer: a page of all peers is at {server.url}")
    if not address.loopback:
        say(f"WARNING: the page at {server.address} has no password: all who reach it can read it (docs/security.md)")
    return server
