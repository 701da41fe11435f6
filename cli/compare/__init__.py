"""`dpeer compare`: many runs side by side, a table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dpeer.cli.options import GRAPH, TRAINING, setting_options, task_option
from dpeer.cores import own_cores

_OURS = ("topology", "partition", "algorithm", "seed", "validation")
"""Settings that have an option of their own here, or none."""


def _list(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


@click.command()
@click.argument("experiment", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--algorithms",
    callback=_list,
    metavar="NAME[:KEY=VALUE...],...",
    help="Rows, comma-separated, each with settings of its own if it needs any: local,dfedsmdc:sam=both:rho=0.1.",
)
@click.option("--topology", callback=_list, metavar="NAME,...", help="Graphs; a table for each.")
@click.option("--partition", callback=_list, metavar="SPEC,...", help="Ways to divide the data; a table for each.")
@click.option("--seeds", help="Repetitions: FIRST-LAST, or numbers with commas.  [default: 0]")
@click.option("--target", type=float, help="An accuracy between 0 and 1: what it took to reach it is shown as well.")
@click.option(
    "--reference", help="Row that the others are compared with.  [default: dfedmdc, else the first that shares]"
)
@click.option(
    "--grid",
    multiple=True,
    metavar="KEY[+KEY]=VALUE,...",
    help="Choose these settings for each row on validation data, before anything is compared; repeatable.",
)
@click.option("--tune-seeds", help="Repetitions of that; not those of the comparison.  [default: 100]")
@click.option(
    "--validation",
    type=float,
    help="Share of the training samples held out for that; your own task brings its own.  [default: 0.2]",
)
@click.option("--small", is_flag=True, help="With the settings of the file's table [small].")
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time, each on a core of its own.  [default: all cores]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("dpeer-compare"),
    help="A folder for each run, and the tables.",
)
@setting_options(
    *(name for name in (*GRAPH, *TRAINING, "evaluate_every", "device", "amp", "channels_last") if name not in _OURS)
)
@task_option
def compare(
    experiment: Path | None,
    algorithms: list[str] | None,
    topology: list[str] | None,
    partition: list[str] | None,
    seeds: str | None,
    target: float | None,
    reference: str | None,
    grid: Sequence[str],
    tune_seeds: str | None,
    validation: float | None,
    small: bool,
    jobs: int | None,
    out: Path,
    **flags: Any,
) -> int:
    """Run algorithms side by side on the same peers, and print how they compare.

    EXPERIMENT is a file of settings with a table [compare] (see examples/papers). Every run is a simulation in a folder
    of its own: the same command again, also after Ctrl-C, runs only what is missing.
    """
    from dpeer.cli.compare.command import Comparison  # torch: not for --help
    from dpeer.cli.compare.experiment import load

    plan = {
        "algorithms": algorithms, "topology": topology, "partition": partition, "seeds": seeds, "target": target,
        "reference": reference, "grid": list(grid) or None, "tune_seeds": tune_seeds, "validation": validation,
    }  # fmt: skip
    found = load(experiment, flags, plan, small=small)
    console = Console(stderr=True)
    return Comparison(found, out, jobs or len(own_cores()), console).run()
