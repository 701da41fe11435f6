"""`dpeer epoch`: shows an epoch, signs one, hands one to a running peer, and replaces the operators' keys."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.membership_options import Order, change_options, run_argument, submit
from dpeer.cli.terminal import say
from dpeer.federation.epoch_submission import hand, read_epoch, running, sign, write_epoch
from dpeer.federation.epoch_words import described, differences
from dpeer.federation.next_epoch import Change

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.group()
def epoch() -> None:
    """Look at epochs: who are the members of a federation from which round on."""


@epoch.command()
@click.argument("place", metavar="FILE|RUN", type=click.Path(path_type=Path))
def show(place: Path) -> None:
    """Print the epoch in FILE, or the newest one of the peer that runs in RUN."""
    if place.is_dir():
        there = running(place).there
        for line in described(there.epoch):
            click.echo(line)
        click.echo(f"the peer works on round {there.round + 1}; a change would begin with round {there.earliest + 1}")
        return
    signed = read_epoch(place)
    for line in described(signed.epoch):
        click.echo(line)
    click.echo(f"signatures: {', '.join(f'{one[:16]}…' for one in sorted(signed.signatures)) or 'none'}")


@epoch.command("sign")
@_file
@click.option(
    "--operator", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", required=True,
    help="File of your secret key.",
)  # fmt: skip
def sign_file(file: Path, operator: Path) -> None:
    """Print the epoch in FILE, and add your signature to it.

    The file is one of dpeer join, leave, extend or evict with --out. Read what is printed first: a signature cannot be
    taken back.
    """
    found = read_epoch(file)
    for line in described(found.epoch):
        click.echo(line)
    signed = sign(found, operator)
    write_epoch(file, signed)
    say(f"dpeer: {file} has {len(signed.signatures)} signatures now")


@epoch.command()
@change_options
@click.option("--operators", required=True, metavar="HEX[,HEX...]", help="Public keys of all operators from then on.")
@click.option("--signers", type=int, metavar="N", help="How many must sign a change; as many as now if not given.")
def operators(
    order: Order,
    operators: str,
    signers: int | None,
) -> None:
    """Replace the operators of the federation of the peer that runs in RUN, such as after a lost key.

    Those so far sign this change; from then on only the new ones sign.
    """
    keys = tuple(one.strip() for one in operators.split(","))
    change = Change(operators=keys, signers=signers, word="change of operators")
    submit(order, change)


@epoch.command("hand")
@_file
@run_argument
def hand_over(file: Path, run: Path) -> None:
    """Hand the signed epoch in FILE to the peer that runs in RUN, which sends it to all."""
    signed, peer = read_epoch(file), running(run)
    hand(peer, signed)
    for line in differences(peer.there.epoch, signed.epoch):
        click.echo(line)
    say(f"dpeer: handed to the peer in {peer.folder}, which sends it to all")
