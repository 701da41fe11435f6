"""`dpeer simulate`: a whole federation in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpeer.cli.grouping import GroupedCommand
from dpeer.cli.local_run import local_run
from dpeer.cli.options import baseline_option, json_option, run_options
from dpeer.federation.sections import LauncherSettings, NetworkSettings, ThreadSettings
from dpeer.federation.settings import option_names


@click.command(cls=GroupedCommand)
@run_options(*option_names(ThreadSettings, NetworkSettings, LauncherSettings), "dead_after", "deadline")
@baseline_option
@json_option
def simulate(
    federation: Path | None,
    resume: bool,
    overwrite: bool,
    new_data: bool,
    baseline: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a whole federation in this process: with the results of cluster, to the last bit, without its sockets.

    This is for experiments. One thread per core trains the peers, and messages are encoded as cluster's are.
    """
    return local_run(
        "simulate", federation, flags, resume=resume, overwrite=overwrite, new_data=new_data, baseline=baseline,
        as_json=as_json,
    )  # fmt: skip
