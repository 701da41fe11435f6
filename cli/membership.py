"""What the commands that change a running federation have in common: their options, and how a change is handed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import F, click_type, flag, in_words, without_none
from dpeer.cli.terminal import say
from dpeer.exceptions import ConfigurationError
from dpeer.federation.changes import Change, next_epoch
from dpeer.federation.epoch_words import differences
from dpeer.federation.handing import hand, running, sign, write_epoch
from dpeer.peer.core.epoch import Edge, SignedEpoch
from dpeer.topology.settings import GraphSettings

run_argument = click.argument("run", type=click.Path(path_type=Path))
operator_option = click.option(
    "--operator", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File of an operator's secret key, which signs the change (dpeer keygen --operator).",
)  # fmt: skip

_GRAPH = tuple(name for name in GraphSettings.model_fields if name != "size")


def change_options(command: F) -> F:
    """RUN, who signs, where an epoch that others must sign goes, and `--dry-run`."""
    for decorate in (
        click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing."),
        click.option(
            "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
            help="Write the change to a file instead, for others to sign (dpeer epoch sign) and one to hand over "
            "(dpeer epoch hand).",
        ),
        operator_option,
        run_argument,
    ):  # fmt: skip
        command = decorate(command)
    return command


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
        text = f"As of dpeer start: {in_words(field)[:1].lower()}{in_words(field)[1:]}"
        command = click.option(flag(name), name, type=click_type(without_none(field.annotation)), help=text)(command)
    return command


def given_graph(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of the graph among a command's values that were given."""
    return {name: values[name] for name in _GRAPH if values.get(name) is not None}


def submit(run: Path, change: Change, operator: Path | None, out: Path | None, *, dry_run: bool) -> None:
    """Make the next epoch, print what it changes, sign it, and hand it over or write it to a file.

    Raises:
        ConfigurationError: The change cannot be made.
    """
    peer = running(run)
    before = peer.there.epoch
    epoch = next_epoch(peer.there, change)
    for line in differences(before, epoch):
        click.echo(line)
    if dry_run:
        say("dpeer: --dry-run: nothing is changed")
        return
    if out is None and operator is None:
        raise ConfigurationError(
            "--operator is missing: name the file of an operator's secret key, or give --out FILE, for an operator to "
            "sign elsewhere (dpeer epoch sign)"
        )
    signed = SignedEpoch(epoch=epoch)
    if operator is not None:
        signed = sign(signed, operator, before.operators)
    missing = before.signers - len(signed.signatures)
    if out is not None:
        write_epoch(out, signed)
        then = f"{missing} more must sign it (dpeer epoch sign {out}), then" if missing > 0 else "now"
        say(f"dpeer: wrote {out}: {then} hand it over before round {epoch.begins - peer.there.diameter - 1} "
            f"(dpeer epoch hand {out} {run})")  # fmt: skip
        return
    if missing > 0:
        raise ConfigurationError(
            f"{before.signers} operators must sign a change of this federation: give --out FILE, which the others sign "
            "(dpeer epoch sign) and one hands over (dpeer epoch hand)"
        )
    hand(peer, signed)
    say(f"dpeer: handed to the peer in {peer.folder}, which sends it to all; it is signed, and cannot be taken back")


def _edge(text: str) -> Edge:
    one, colon, other = text.partition(":")
    if not (colon and one.isascii() and one.isdigit() and other.isascii() and other.isdigit() and one != other):
        raise ConfigurationError(f"--edge {text!r}: write two ranks, for example 8:2")
    return min(int(one), int(other)), max(int(one), int(other))
