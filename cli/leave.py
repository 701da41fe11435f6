"""`dpeer leave`: ends the membership of ranks for good; an operator gives it at any running peer."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.membership_options import Order, change_options, given_graph, graph_options, ranks_option, submit
from dpeer.federation.next_epoch import Change
from dpeer.peer.core.epoch import Edge


@click.command()
@change_options
@ranks_option("A member that leaves; repeatable.")
@graph_options
def leave(
    order: Order,
    ranks: tuple[int, ...],
    edges: tuple[Edge, ...],
    **graph: Any,
) -> None:
    """Let members of the federation of the peer that runs in RUN go.

    A member that leaves sends its last body in the round before the change, and ends with its model. Its rank is never
    used again. For a member that does not answer any more use dpeer evict.
    """
    submit(order, Change(leave=ranks, graph=given_graph(graph), edges=edges, word="leave"))
