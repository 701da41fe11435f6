"""`dpeer members add`: a new member."""

from __future__ import annotations

import click

from dpeer.cli.members.options import RANK, WEIGHT, Order, change_options
from dpeer.cli.members.submit import address_of, submit
from dpeer.federation.keys import keys_of
from dpeer.federation.member_changes import Change
from dpeer.peer.core.member_list import Member


@click.command()
@change_options
@click.option("--rank", type=RANK, required=True, metavar="R", help="Its rank: the lowest that none has ever had.")
@click.option(
    "--address", required=True, metavar="ADDRESS", help="Where its neighbors reach it; - for one that only dials out."
)
@click.option("--key", metavar="HEX", help="Its public key (dpeer keygen), where the federation has keys.")
@WEIGHT
def add(order: Order, rank: int, address: str, key: str | None, weight: float | None) -> int:
    """Add a member to the federation of the peer that runs in RUN.

    The list is also written to members-N.json. The new site starts with it and the federation file, before or after
    the list counts:

    \b
      dpeer start --federation dpeer.toml --rank 8 --members members-1.json

    \b
    Example:
      dpeer members add dpeer-run --rank 8 --address tcp://10.8.0.18:7700 --key 77e0...5b3c --operator operator.secret
    """  # noqa: D301 - \b is click's
    keys = () if key is None else tuple(one.hex() for one in keys_of(rank, key))
    return submit(order, Change(add={rank: Member(address_of(address), keys, weight)}, settle=order.settle))
