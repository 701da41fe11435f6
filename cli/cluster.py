"""`dpeer cluster`: a whole federation on this machine, one process a peer."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.local_run import local_run
from dpeer.cli.options import GroupedCommand, baseline_option, json_summary_option, run_options
from dpeer.federation.run_settings import FaultSettings, NetworkSettings, SimulationSettings, ThreadSettings
from dpeer.federation.settings import option_names


@click.command(cls=GroupedCommand)
@run_options(
    *option_names(ThreadSettings, NetworkSettings, SimulationSettings, FaultSettings),
    "dead_after",
    "deadline",
)
@baseline_option
@json_summary_option
def cluster(**given: Any) -> int:
    """Run a whole federation on this machine, one process a peer.

    They talk over Unix sockets. Ctrl-C keeps the last completed round, --resume goes on from there; `dpeer dashboard`
    shows them in a browser.
    """
    return local_run("cluster", **given)
