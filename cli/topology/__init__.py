"""`dpeer topology`: look at a graph before training on it."""

from __future__ import annotations

import click

from dpeer.cli.topology.gaps import spectral_gap
from dpeer.cli.topology.show import show


@click.group()
def topology() -> None:
    """Look at graphs, their mixing weights and how fast they mix."""


topology.add_command(show)
topology.add_command(spectral_gap)
