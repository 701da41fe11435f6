"""`dpeer members remove`: a new list without some members; those that answer leave by themselves."""

from __future__ import annotations

import click

from dpeer.cli.members.options import RANK, Order, change_options
from dpeer.cli.members.submit import submit
from dpeer.federation.member_changes import Change


@click.command()
@change_options
@click.option("--rank", "ranks", type=RANK, multiple=True, required=True, metavar="R", help="The member; repeatable.")
@click.option(
    "--force",
    is_flag=True,
    help="Without a quorum: you vouch that the members that you remove do not run on anywhere.",
)
def remove(order: Order, ranks: tuple[int, ...], force: bool) -> int:
    """Remove members from the federation of the peer that runs in RUN.

    One that answers leaves in good order, with its model; one that does not is out. A rank is never used again. To stop
    a peer for a while, use dpeer drain: it stays a member.

    \b
    Example:
      dpeer members remove dpeer-run --rank 3 --operator operator.secret
    """  # noqa: D301 - \b is click's
    return submit(order, Change(remove=dict.fromkeys(ranks), force=force, settle=order.settle))
