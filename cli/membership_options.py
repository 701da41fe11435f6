"""Options of the commands that change members, and how such a change gets to a running peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import F, click_type, flag, without_none
from dpeer.cli.terminal import say
from dpeer.exceptions import ConfigurationError
from dpeer.federation.epoch_submission import Running, hand, running, sign, write_epoch
from dpeer.federation.epoch_words import differences
from dpeer.federation.next_epoch import Change, Situation, next_epoch
from dpeer.peer.core.epoch import Edge, SignedEpoch
from dpeer.topology.settings import GraphSettings

run_argument = click.argument("run", type=click.Path(path_type=Path))
_TRIES = 5
"""How often a change is made for the round in which the peer is by then: rounds may be quicker than the command."""

operator_option = click.option(
    "--operator", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File of an operator's secret key, which signs the change (dpeer keygen --operator).",
)  # fmt: skip

_GRAPH = tuple(name for name in GraphSettings.model_fields if name != "size")


@dataclass(frozen=True)
class Order:
    """To which running peer a change goes, who signs it, and when.

    Attributes:
        run: The folder of the running peer.
        operator: The file of an operator's secret key; None to leave it to others to sign.
        begin: The first round of the change, counted from 1; None for the next possible one.
        out: The file to write it to; None to hand it over.
        dry_run: Whether only to print it.
    """

    run: Path
    operator: Path | None
    begin: int | None
    out: Path | None
    dry_run: bool


def change_options(command: Callable[..., None]) -> Callable[..., None]:
    """RUN, who signs, when it begins, where an epoch that others must sign goes, and `--dry-run`: an `Order`."""

    @run_argument
    @operator_option
    @click.option(
        "--begin", type=int, metavar="ROUND",
        help="The first round of the change; the next one that all can know of if not given. Needed with --out.",
    )  # fmt: skip
    @click.option(
        "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Write the change to a file instead, for others to sign (dpeer epoch sign) and one to hand over (dpeer "
        "epoch hand).",
    )  # fmt: skip
    @click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
    @wraps(command)
    def with_order(
        run: Path, operator: Path | None, begin: int | None, out: Path | None, dry_run: bool, **given: Any
    ) -> None:
        command(Order(run, operator, begin, out, dry_run), **given)

    return with_order


def ranks_option(words: str) -> Callable[[F], F]:
    """`--rank`, of the commands that take members out."""
    return click.option("--rank", "ranks", type=int, multiple=True, required=True, metavar="R", help=words)


def graph_options(command: F) -> F:
    """The settings of the graph that a change of members may bring along, and the edges of a listed one."""
    command = click.option(
        "--edge", "edges", type=_edge, multiple=True, metavar="A:B",
        help="An edge between two ranks, where the graph is from a file; repeatable.",
    )(command)  # fmt: skip
    for name in reversed(_GRAPH):
        field = GraphSettings.model_fields[name]
        kind = click_type(without_none(field.annotation))
        command = click.option(flag(name), name, type=kind, help=f"Another graph: {field.description}.")(command)
    return command


def given_graph(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of the graph among a command's values that were given."""
    return {name: values[name] for name in _GRAPH if values.get(name) is not None}


def submit(order: Order, change: Change) -> None:
    """Make the next epoch, print what it changes, sign it, and hand it over or write it to a file.

    Raises:
        ConfigurationError: The change cannot be made.
    """
    peer = running(order.run)
    before, out = peer.there.epoch, order.out
    _check_begin(order, peer.there)
    epoch = next_epoch(peer.there, change, begins=0 if order.begin is None else order.begin - 1)
    for line in differences(before, epoch):
        click.echo(line)
    signed = SignedEpoch(epoch=epoch)
    if order.operator is not None:
        signed = sign(signed, order.operator, before.operators)
    if order.dry_run:
        say("dpeer: --dry-run: nothing is changed")
        return
    if out is None and order.operator is None:
        raise ConfigurationError(
            "--operator is missing: name the file of an operator's secret key, or give --out FILE, for an operator to "
            "sign elsewhere (dpeer epoch sign)"
        )
    missing = before.signers - len(signed.signatures)
    if out is not None:
        write_epoch(out, signed)
        then = f"{missing} more must sign it (dpeer epoch sign {out}), then" if missing > 0 else "now"
        say(
            f"dpeer: wrote {out}: {then} hand it over before round {epoch.begins - peer.there.diameter - 1} (dpeer "
            f"epoch hand {out} {order.run})"
        )
        return
    if missing > 0:
        raise ConfigurationError(
            f"{before.signers} operators must sign a change of this federation: give --out FILE, which the others sign "
            "(dpeer epoch sign) and one hands over (dpeer epoch hand)"
        )
    _hand_over(order, change, peer, signed)
    say(f"dpeer: handed to the peer in {peer.folder}, which sends it to all; it is signed, and cannot be taken back")


def _hand_over(order: Order, change: Change, peer: Running, signed: SignedEpoch) -> None:
    """Hand an epoch over; it is made anew where rounds have gone on meanwhile, unless --begin names its first one.

    Raises:
        ConfigurationError: The peer refuses it.
    """
    assert order.operator is not None
    for left in reversed(range(_TRIES)):
        try:
            hand(peer, signed)
            return
        except ConfigurationError:
            there, begins = running(order.run).there, signed.epoch.begins
            late = begins < there.earliest and there.epoch == peer.there.epoch
            if not late or order.begin is not None or not left:
                raise
            peer = peer._replace(there=there)
            signed = sign(SignedEpoch(epoch=next_epoch(there, change)), order.operator, there.epoch.operators)
            number, begins = signed.epoch.number, signed.epoch.begins
            click.echo(f"epoch {number} begins with round {begins + 1} instead: rounds have gone on")


def _check_begin(order: Order, there: Situation) -> None:
    first = there.earliest + 1
    if order.begin is not None and order.begin < first:
        raise ConfigurationError(
            f"--begin {order.begin}: all can know of a change from round {first} on: name that or a later one"
        )
    if order.out is not None and order.begin is None:
        raise ConfigurationError(
            f"--out {str(order.out)!r}: name the first round of the change with --begin, late enough for all who sign; "
            f"round {first} or later"
        )


def _edge(text: str) -> Edge:
    one, colon, other = text.partition(":")
    if not (colon and one.isascii() and one.isdigit() and other.isascii() and other.isdigit() and one != other):
        raise ConfigurationError(f"--edge {text!r}: write two ranks, for example 8:2")
    return min(int(one), int(other)), max(int(one), int(other))
