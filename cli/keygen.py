"""`dpeer keygen`: the keys of one rank, or of an operator."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.terminal import say
from dpeer.exceptions import ConfigurationError
from dpeer.federation.keys import write_operator, write_secret


@click.command()
@click.option("--rank", type=int, metavar="R", help="The rank whose keys they are.")
@click.option("--operator", is_flag=True, help="Make the keys of an operator of the federation.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), show_default="this folder",
    help="Folder for the secret key, rank-R.secret or operator.secret; made where it is missing.",
)  # fmt: skip
def keygen(rank: int | None, operator: bool, out: Path) -> None:
    """Make a secret key and the public key that belongs to it.

    The secret is written to DIR/rank-R.secret, which only its owner can read; it stays on the host that runs the rank,
    whose peer is started with --secret. The public key is printed as the line that goes to [rank.R] of the federation
    file. Once every rank has its key there, all connections are encrypted, and no other host gets in.

    With --operator it is the key of a person, who stands for the whole federation and signs changes of its members
    (dpeer members). Its public key goes into `operators` of every peer's federation file before the start.
    """
    if operator == (rank is not None):
        raise ConfigurationError("keygen: give either --rank R or --operator")
    if rank is None:
        place, key = write_operator(out)
        say(f"dpeer: wrote {place}: keep it off the hosts that train")
        say("dpeer: this line goes to the top of every peer's federation file, before the start:")
        click.echo(f'operators = ["{key}"]')
        return
    if rank < 0:
        raise ConfigurationError(f"--rank {rank}: expected a rank, from 0")
    path, public = write_secret(rank, out)
    say(f"dpeer: wrote {path}: keep it on the host of rank {rank}, and start that peer with --secret {path}")
    say(f"dpeer: send the others this line, which goes below [rank.{rank}] in every peer's federation file:")
    click.echo(f'key = "{public.hex()}"')
