"""`dpeer privacy plan`: whether training can survive the noise, before a federation is started."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy import sampled
from dpeer.cli.privacy.modes import SampleAsked, of_mode, options_of_both
from dpeer.cli.privacy.options import Asked, count
from dpeer.cli.privacy.printing import (
    document,
    facts,
    print_facts,
    print_lines,
    protected,
    short,
    upwards,
    which_is_which,
)
from dpeer.cli.topology.options import json_option
from dpeer.privacy import planning
from dpeer.privacy.guarantee import Guarantee


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
    chosen = of_mode(options, "size")
    if chosen["privacy"] == "sample":
        sampled.plan(SampleAsked(**chosen), as_json)
        return
    asked = Asked(**chosen)
    asked.require("plan", "size", "parameters", "rounds", "noise_multiplier|target_epsilon")
    warnings = asked.warnings()
    guarantee = asked.guarantee()
    fit, used = _releases(asked, guarantee)
    assert asked.size is not None
    assert asked.parameters is not None
    ratio = planning.noise_ratio(guarantee, asked.parameters)
    drowning = planning.drowning(ratio, asked.size, used)
    found = {
        **document(guarantee, used, asked.accountant),
        "rounds": asked.releases,
        "releases": used,
        "releases_that_fit": fit,
        "target_epsilon": asked.target_epsilon,
        "size": asked.size,
        "parameters": asked.parameters,
        "clip_norm": asked.clip_norm,
        "noise_std": guarantee.noise_std,
        "noise_norm_over_clip_norm": ratio,
        "noise_over_longest_way": drowning,
        "survives": drowning <= 1.0,
        "warnings": warnings,
    }
    if as_json:
        click.echo(json.dumps(found, allow_nan=False))
        return
    print_lines([protected(guarantee)])
    print_facts(_rows(asked, guarantee, found))
    print_lines(_sentences(asked, guarantee, found))
    print_lines(warnings)


def _releases(asked: Asked, guarantee: Guarantee) -> tuple[int | None, int]:
    """The number of releases that fit into the budget, if there is one, and that of a run of these rounds."""
    if asked.target_epsilon is None:
        return None, asked.releases
    if asked.noise_multiplier is None and asked.accountant != "exact":
        return asked.releases, asked.releases  # the noise was made for them; each count takes a second
    fit = planning.releases(guarantee, asked.target_epsilon, asked.accountant)
    return fit, min(fit, asked.releases)


def _rows(asked: Asked, guarantee: Guarantee, found: dict[str, Any]) -> list[tuple[str, str, str]]:
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
        *facts(guarantee, asked.releases, asked.accountant),
    ]


def _sentences(asked: Asked, guarantee: Guarantee, found: dict[str, Any]) -> list[str]:
    lines = []
    used = found["releases"]
    if guarantee.adversary == "aggregate":
        lines.append(which_is_which(found, guarantee))
    if used == 0:
        lines.append("Not one release fits into the budget: a run with it ends with exit code 5.")
        return lines
    if used < asked.releases:
        lines.append(
            f"The budget lasts {used:,} of {asked.releases:,} rounds; in the others a peer re-sends its last body, "
            "which costs nothing."
        )
    if not found["survives"]:
        lines.append(
            f"Training cannot survive this: the noise left in the average of {asked.size:,} bodies after {used:,} "
            f"releases is {short(found['noise_over_longest_way'])} times as long as the furthest way that clipped "
            f"updates could go; {planning.ADVICE}."
        )
    return lines
