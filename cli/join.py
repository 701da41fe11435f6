"""`dpeer join`: adds a member to a running federation; an operator gives it at any running peer."""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from dpeer.cli.membership_options import Order, change_options, given_graph, graph_options, submit
from dpeer.exceptions import ConfigurationError
from dpeer.federation.next_epoch import Change
from dpeer.peer.core.epoch import Edge, Member
from dpeer.peer.transports.curve import KEY_BYTES


@click.command()
@change_options
@click.option("--rank", type=int, required=True, metavar="R", help="The new member's rank, which none has ever had.")
@click.option("--address", metavar="ADDRESS", help="Where its neighbors reach it; without one it only dials out.")
@click.option("--key", metavar="HEX", help="Its public key (dpeer keygen), where the federation uses keys.")
@graph_options
def join(
    order: Order,
    rank: int,
    address: str | None,
    key: str | None,
    edges: tuple[Edge, ...],
    **graph: Any,
) -> None:
    """Let a new member into the federation of the peer that runs in RUN.

    The change is an epoch, which an operator signs; all members learn of it and switch to it in one round. The new
    member starts with `dpeer start --rank R --join` and the federation file of the start, before that round or after
    it. It takes the mean of its neighbors' bodies and fits its own head.
    """
    keys = () if key is None else (_key(key),)
    try:
        member = Member(address=address, keys=keys)
    except ValidationError as error:
        raise ConfigurationError(f"--address {address!r}: expected at most 300 printable characters") from error
    submit(order, Change({rank: member}, graph=given_graph(graph), edges=edges, word="join"))


def _key(text: str) -> str:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != KEY_BYTES or not any(found):
        raise ConfigurationError(
            f"--key {text!r}: expected {2 * KEY_BYTES} hexadecimal digits, as `dpeer keygen` prints them"
        )
    return found.hex()
