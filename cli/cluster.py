"""`dpeer cluster`: a whole federation on this machine, one process a peer."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from dpeer.cli.local_run import local_run
from dpeer.cli.options import GroupedCommand, GroupedOption, json_summary_option, run_options
from dpeer.federation.run import cluster as run_cluster
from dpeer.federation.run_settings import FaultSettings, NetworkSettings, ThreadSettings
from dpeer.federation.settings import option_names


@click.command(cls=GroupedCommand)
@run_options(*option_names(ThreadSettings, NetworkSettings, FaultSettings), "dead_after", "deadline")
@click.option(
    "--encrypt", is_flag=True, cls=GroupedOption, group="The run", help="With keys that are made for this run."
)
@json_summary_option
def cluster(encrypt: bool, **given: Any) -> int:
    """Run a whole federation on this machine, one process a peer.

    They talk over Unix sockets. Ctrl-C keeps the last completed round, --resume goes on from there; `dpeer dashboard`
    shows them in a browser.
    """
    return local_run(partial(run_cluster, encrypt=encrypt), "cluster", **given)
