"""`dpeer extend`: raises the number of rounds of a running federation."""

from __future__ import annotations

import click

from dpeer.cli.membership_options import Order, change_options, submit
from dpeer.federation.next_epoch import Change


@click.command()
@change_options
@click.option("--rounds", type=int, required=True, metavar="N", help="The number of rounds in all.")
def extend(order: Order, rounds: int) -> None:
    """Give the federation of the peer that runs in RUN more rounds.

    Peers with a budget of privacy stop their releases where it ends. Schedules that end with the planned rounds, such
    as cosine, cannot be extended.
    """
    submit(order, Change(rounds=rounds, word="extension"))
