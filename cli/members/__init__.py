"""`dpeer members`: who takes part in a running federation."""

from __future__ import annotations

import click

from dpeer.cli.members.add import add
from dpeer.cli.members.change import change
from dpeer.cli.members.extend import extend
from dpeer.cli.members.hand import hand
from dpeer.cli.members.remove import remove
from dpeer.cli.members.show import show
from dpeer.cli.members.sign import sign


@click.group()
def members() -> None:
    """Show and change who takes part in a running federation, on which graph, for how many rounds.

    Each change is a new member list, which an operator signs and hands to any running peer. It counts once a quorum of
    the members has it on disk, and each peer uses it from the next round that it begins.
    """


for _command in (show, add, remove, change, extend, sign, hand):
    members.add_command(_command)
