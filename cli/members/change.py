"""`dpeer members change`: a member's address, key or weight, or the graph."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.members.options import RANK, WEIGHT, Order, change_options
from dpeer.cli.members.submit import address_of, submit
from dpeer.exceptions import ConfigurationError
from dpeer.federation.keys import keys_of
from dpeer.federation.member_changes import Change


@click.command()
@change_options
@click.option("--rank", type=RANK, metavar="R", help="The member whose address, key or weight changes.")
@click.option("--address", metavar="ADDRESS", help="Its new address; - for one that only dials out from now on.")
@click.option("--key", "keys", multiple=True, metavar="HEX", help="Its new key; twice for the old and the new one.")
@WEIGHT
@click.option("--topology", metavar="NAME", help="Another graph: ring, exponential, fresh:4, ...")
def change(
    order: Order,
    rank: int | None,
    address: str | None,
    keys: tuple[str, ...],
    weight: float | None,
    topology: str | None,
) -> int:
    """Give a member another address, key or weight, or the federation of the peer that runs in RUN another graph.

    A site that moves to another host copies its run folder there and starts with --resume. One that changes its key
    first lists both, and starts with the new secret; a second change leaves only the new one.

    \b
    Examples:
      dpeer members change dpeer-run --rank 3 --address tcp://10.8.0.33:7700 --operator operator.secret
      dpeer members change dpeer-run --topology exponential --operator operator.secret
    """  # noqa: D301 - \b is click's
    if (rank is None) != (address is None and weight is None and not keys):
        raise ConfigurationError(
            "--rank, and --address, --key or --weight go together: name the member and what changes"
        )
    fields: dict[str, Any] = {}
    if address is not None:
        fields["address"] = address_of(address)
    if keys:
        fields["keys"] = tuple(one.hex() for one in keys_of(str(rank), list(keys)))
    if weight is not None:
        fields["weight"] = weight
    return submit(order, Change(move={} if rank is None else {rank: fields}, graph=topology, settle=order.settle))
