"""`dpeer evict`: takes members out of a running federation, by a quorum of the others or by force."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.membership_options import Order, change_options, given_graph, graph_options, ranks_option, submit
from dpeer.federation.next_epoch import Change
from dpeer.peer.core.epoch import Edge


@click.command()
@change_options
@ranks_option("A member that is taken out; repeatable.")
@click.option(
    "--force", is_flag=True,
    help="Begin without a quorum of the members so far: you vouch that those taken out do not run on elsewhere.",
)  # fmt: skip
@graph_options
def evict(
    order: Order,
    ranks: tuple[int, ...],
    force: bool,
    edges: tuple[Edge, ...],
    **graph: Any,
) -> None:
    """Take members out of the federation of the peer that runs in RUN.

    They lose their links and their keys in the round of the change, whether they answer or not. The members that are
    left need a quorum of all to begin it. Where so many are lost that none is left, the others pause; --force goes on
    without them. If those taken out still run among themselves, two federations train on.
    """
    change = Change(evict=ranks, forced=force, graph=given_graph(graph), edges=edges, word="eviction")
    submit(order, change)
