"""`dpeer cluster`: a whole federation on this machine, one process a peer."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.local_run import local_run
from dpeer.cli.old_dashboard import dashboard_option
from dpeer.cli.options import GroupedCommand, GroupedOption, baseline_option, json_summary_option, run_options
from dpeer.federation.run_settings import FaultSettings, NetworkSettings, SimulationSettings, ThreadSettings
from dpeer.federation.settings import option_names


@click.command(cls=GroupedCommand)
@run_options(
    *option_names(ThreadSettings, NetworkSettings, SimulationSettings, FaultSettings),
    "dead_after",
    "deadline",
    "rejoin_after",
)
@dashboard_option("--dashboard", "Serve a page of all peers while they run", cls=GroupedOption, group="The run")
@baseline_option
@json_summary_option
def cluster(**given: Any) -> int:
    """Run a whole federation on this machine, one process a peer.

    The peers are those of `dpeer start` and talk over ZeroMQ on loopback. Ctrl-C stops them all after their minibatch
    and keeps the last completed round; --resume goes on from there.

    --dashboard prints the address of a page with the graph and its links, curves by round and each peer's state.
    """
    return local_run("cluster", **given)
