"""`dpeer simulate`: a whole federation in this process."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.local_run import local_run
from dpeer.cli.options import GroupedCommand, json_summary_option, run_options
from dpeer.federation.run_settings import NetworkSettings
from dpeer.federation.settings import option_names
from dpeer.simulation.run import simulate as run_simulation


@click.command(cls=GroupedCommand)
@run_options(*option_names(NetworkSettings), "dead_after", "deadline")
@json_summary_option
def simulate(**given: Any) -> int:
    """Run a whole federation in this process: with the results of cluster, to the last bit, without its sockets.

    This is for experiments. One thread per core trains the peers.
    """
    return local_run(run_simulation, "simulate", **given)
