"""`dpeer members sign`: an operator's signature for a list in a file."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.members.options import federation_option, file_argument
from dpeer.cli.members.show import print_list
from dpeer.cli.terminal import say
from dpeer.federation import config
from dpeer.federation.member_client import read_list, write_list
from dpeer.federation.operators import read_operator


@click.command()
@file_argument
@click.option(
    "--operator",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Your secret key (dpeer keygen --operator).",
)
@federation_option
def sign(file: Path, operator: Path, federation: Path | None) -> None:
    """Print the member list in FILE, and add your signature to it.

    FILE is what another operator's command wrote with --out. A signature cannot be taken back: read what is printed.
    """
    one = read_list(file)
    settings = None if config.source(federation) is None else config.load(federation, {})
    secret = read_operator(operator, None if settings is None else settings.operators or [])
    print_list(one)
    signed = one.signed(secret)
    write_list(file, signed)
    of = "" if settings is None else f" of {settings.signers}"
    say(f"dpeer: {file} has {len(signed.signatures)}{of} signatures; dpeer members hand RUN {file} hands it over")
