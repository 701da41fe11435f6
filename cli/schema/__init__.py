"""`dpeer schema`: propose a schema for a table, and check tables against it."""

from __future__ import annotations

import click

from dpeer.cli.schema.check import check
from dpeer.cli.schema.init import init


@click.group()
def schema() -> None:
    """Say what the columns of all sites' tables are, and check a table against it."""


schema.add_command(init)
schema.add_command(check)
