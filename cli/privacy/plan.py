"""`dpeer privacy plan`: the noise and rounds of a budget, and whether training survives the noise."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy import sample_level
from dpeer.cli.privacy.levels import options_of_both, planned, require_of_client
from dpeer.cli.privacy.options import count
from dpeer.cli.privacy.printing import (
    facts,
    print_facts,
    print_lines,
    protected,
    short,
    upwards,
    which_is_which,
)
from dpeer.cli.topology.options import json_option
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.plan import ADVICE, ClientPlan, SamplePlan


@click.command(short_help="Print whether training survives the noise.")
@options_of_both()
@click.option(
    "--parameters",
    type=count("--parameters", 60000),
    metavar="P",
    help="Parameters of the body, those that are shared.",
)
@json_option
def plan(as_json: bool, **options: Any) -> None:
    """Print the noise of a planned run, how many releases its budget allows, and whether training can survive it.

    Give --target-epsilon for the least noise that lasts all rounds, --noise-multiplier for its epsilon, or both for how
    many rounds such noise lasts.

    \b
    Example:
      dpeer privacy plan --size 8 --parameters 60000 --rounds 20 --target-epsilon 10
    """  # noqa: D301 - \b is click's
    asked = planned("plan", options, "size")
    if isinstance(asked, SamplePlan):
        sample_level.plan(asked, as_json)
        return
    require_of_client(asked, "plan", "size", "parameters", "rounds", "noise_multiplier|target_epsilon")
    warnings, guarantee = asked.warnings(), asked.guarantee()
    found = asked.outlook(guarantee)
    if as_json:
        click.echo(json.dumps(found, allow_nan=False))
        return
    print_lines([protected(guarantee)])
    print_facts(_rows(asked, guarantee, found))
    print_lines(_sentences(asked, guarantee, found))
    print_lines(warnings)


def _rows(asked: ClientPlan, guarantee: Guarantee, found: dict[str, Any]) -> list[tuple[str, str, str]]:
    after = f"after {found['releases']:,} releases"
    if guarantee.adversary == "neighbor":
        epsilons = [("epsilon", short(found["epsilon"]), f"{after}, against a neighbor")]
    else:
        epsilons = [
            ("epsilon_aggregate", short(found["epsilon_aggregate"]), f"{after}, against the outsider alone"),
            ("epsilon_neighbor", short(found["epsilon_neighbor"]), f"{after}, against a neighbor"),
        ]
    fit = found["releases_that_fit"]
    budget = [] if fit is None else [("releases that fit", f"{fit:,}", f"into epsilon {asked.target_epsilon:g}")]
    return [
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise that protects / clip norm"),
        ("noise std", upwards(guarantee.noise_std), f"on each coordinate of a message, clip norm {asked.clip_norm:g}"),
        (
            "noise norm / clip norm",
            short(found["noise_norm_over_clip_norm"]),
            f"of one message of {asked.parameters:,} parameters",
        ),
        *budget,
        *epsilons,
        *facts(guarantee, asked),
    ]


def _sentences(asked: ClientPlan, guarantee: Guarantee, found: dict[str, Any]) -> list[str]:
    lines = []
    used = found["releases"]
    if guarantee.adversary == "aggregate":
        lines.append(which_is_which(found, guarantee))
    if used == 0:
        lines.append("Not one release fits into the budget: a run with it ends with exit code 5.")
        return lines
    if used < asked.planned:
        lines.append(
            f"The budget lasts {used:,} of {asked.planned:,} rounds; in the others a peer re-sends its last body, "
            "which costs nothing."
        )
    if not found["survives"]:
        lines.append(
            f"Training cannot survive this: the noise left in the average of {asked.size:,} bodies after {used:,} "
            f"releases is {short(found['noise_over_longest_way'])} times as long as the furthest way that clipped "
            f"updates could go; {ADVICE}."
        )
    return lines
