"""`dpeer members hand`: a signed list goes to a running peer."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.members.options import file_argument, run_argument
from dpeer.cli.members.submit import hand_over
from dpeer.exceptions import ConfigurationError
from dpeer.federation.member_changes import differences
from dpeer.federation.member_client import asked, read_list
from dpeer.federation.operators import signers_of


@click.command()
@run_argument
@file_argument
def hand(run: Path, file: Path) -> int:
    """Hand the signed member list in FILE to the peer that runs in RUN, and wait until it counts."""
    one, found = read_list(file), asked(run, None)
    if found.folder is None:
        raise ConfigurationError(f"{str(run)!r}: name the folder of a run of which a peer runs on this host")
    one.verify(found.there.counts.federation, signers_of(found.settings))
    for line in differences(found.there.counts, one):
        click.echo(line)
    return hand_over(found.folder, found.there.counts, one)
