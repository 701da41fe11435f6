"""`dpeer members extend`: more rounds."""

from __future__ import annotations

import click

from dpeer.cli.members.options import Order, change_options
from dpeer.cli.members.submit import submit
from dpeer.federation.member_changes import Change
from dpeer.peer.core.member_list import MOST_ROUNDS


@click.command()
@change_options
@click.option("--rounds", type=click.IntRange(1, MOST_ROUNDS), required=True, metavar="N", help="Of all rounds.")
def extend(order: Order, rounds: int) -> int:
    """Give the federation of the peer that runs in RUN more rounds.

    A peer whose privacy budget ends earlier goes on without releases.

    \b
    Example:
      dpeer members extend dpeer-run --rounds 200 --operator operator.secret
    """  # noqa: D301 - \b is click's
    return submit(order, Change(rounds=rounds, settle=order.settle))
