"""`dpeer compare`: many runs side by side, a table at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dpeer.cli.grouping import GroupedCommand, GroupedOption
from dpeer.cli.options import setting_options
from dpeer.cores import own_cores
from dpeer.federation.sections import (
    AloneSettings,
    LauncherSettings,
    LogSettings,
    NetworkSettings,
    SimulationSettings,
    ThreadSettings,
)
from dpeer.federation.settings import option_names

_NOT_HERE = (LogSettings, AloneSettings, ThreadSettings, NetworkSettings, LauncherSettings, SimulationSettings)

_OURS = ("topology", "partition", "algorithm", "seed", "validation", "evaluate_on", "keep", "patience", "out")
"""Settings that have an option of their own here, or none."""

_OF_COMPARISON: dict[str, Any] = {"cls": GroupedOption, "group": "The comparison"}


def _list(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


def _numbers(kind: type[int] | type[float]) -> Callable[..., list[int] | list[float] | None]:
    """A callback that reads numbers with commas between them."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> list[Any] | None:
        try:
            return None if value is None else [kind(part) for part in value.split(",")]
        except ValueError:
            example = "50,100" if kind is int else "1,2.5"
            raise click.BadParameter(f"{value!r}: expected numbers with commas, for example {example}") from None

    return read


@click.command(cls=GroupedCommand)
@click.argument("experiment", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--algorithms",
    **_OF_COMPARISON,
    callback=_list,
    metavar="NAME[:KEY=VALUE...],...",
    help="Rows, comma-separated, each with settings of its own if it needs any: local,dfedsmdc:sam=both:rho=0.1.",
)
@click.option(
    "--topology",
    **_OF_COMPARISON,
    callback=_list,
    metavar="NAME,...",
    help="Graphs; a table for each.",
)
@click.option(
    "--partition",
    **_OF_COMPARISON,
    callback=_list,
    metavar="SPEC,...",
    help="Ways to divide the data; a table for each.",
)
@click.option(
    "--seeds",
    **_OF_COMPARISON,
    help="Repetitions: FIRST-LAST, or numbers with commas.  [default: 0]",
)
@click.option(
    "--target",
    **_OF_COMPARISON,
    type=float,
    help="An accuracy between 0 and 1: what it took to reach it is shown as well.",
)
@click.option(
    "--at-round",
    **_OF_COMPARISON,
    callback=_numbers(int),
    metavar="N,...",
    help="Accuracies after these numbers of rounds are shown as well.",
)
@click.option(
    "--at-epsilon",
    **_OF_COMPARISON,
    callback=_numbers(float),
    metavar="E,...",
    help="Accuracies before any peer has spent more than these epsilons are shown as well.",
)
@click.option(
    "--last",
    **_OF_COMPARISON,
    type=int,
    metavar="N",
    help="Accuracies are means over the evaluated ones of the last N rounds.  [default: 1, the last round]",
)
@click.option(
    "--reference",
    **_OF_COMPARISON,
    metavar="ROW",
    help="Row that the others are compared with.  [default: the row that trains alone, else the first]",
)
@click.option(
    "--grid",
    **_OF_COMPARISON,
    multiple=True,
    metavar="KEY[+KEY]=VALUE,...",
    help="Choose these settings for each row on validation data, before anything is compared; repeatable.",
)
@click.option(
    "--tune-seeds",
    **_OF_COMPARISON,
    help="Seeds with which --grid chooses; none of --seeds.  [default: 100]",
)
@click.option(
    "--validation",
    **_OF_COMPARISON,
    type=float,
    help="Share of the training samples held out for --grid to choose on; a task of your own brings validation data.  "
    "[default: 0.2]",
)
@click.option("--small", **_OF_COMPARISON, is_flag=True, help="With the settings of the file's table [small].")
@click.option(
    "--jobs",
    **_OF_COMPARISON,
    type=click.IntRange(1),
    metavar="N",
    help="Runs at a time, each on a core of its own.  [default: all cores]",
)
@click.option(
    "--out",
    **_OF_COMPARISON,
    type=click.Path(path_type=Path),
    default=Path("dpeer-compare"),
    help="A folder for each run, and the tables.",
)
@click.option("--json", "as_json", **_OF_COMPARISON, is_flag=True, help="Print the figures as JSON, not as tables.")
@setting_options(*(name for name in option_names(*_NOT_HERE) if name not in _OURS))
def compare(
    experiment: Path | None,
    algorithms: list[str] | None,
    topology: list[str] | None,
    partition: list[str] | None,
    seeds: str | None,
    target: float | None,
    at_round: list[int] | None,
    at_epsilon: list[float] | None,
    last: int | None,
    reference: str | None,
    grid: Sequence[str],
    tune_seeds: str | None,
    validation: float | None,
    small: bool,
    jobs: int | None,
    out: Path,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run algorithms side by side on the same peers, and print how they compare.

    EXPERIMENT is a file of settings with a table [compare] (see examples/papers). Every run is a simulation in a folder
    of its own: the same command again, also after Ctrl-C, runs only what is missing.
    """
    from dpeer.cli.comparison_output import ProgressLines, print_compared  # torch: not for --help
    from dpeer.experiments.comparison import Comparison
    from dpeer.experiments.experiment import load

    plan = {
        "algorithms": algorithms, "topology": topology, "partition": partition, "seeds": seeds, "target": target,
        "at_round": at_round, "at_epsilon": at_epsilon, "last": last, "reference": reference,
        "grid": list(grid) or None, "tune_seeds": tune_seeds, "validation": validation,
    }  # fmt: skip
    found = load(experiment, flags, plan, small=small)
    compared = Comparison(found, out, jobs or len(own_cores()), ProgressLines(out, Console(stderr=True))).run()
    if compared is None:
        click.echo("dpeer: stopped; the same command goes on", err=True)
    elif as_json:
        click.echo(json.dumps(compared.figures, indent=2))
    else:
        print_compared(compared)
    return 0
