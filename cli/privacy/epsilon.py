"""`dpeer privacy epsilon`: the epsilon of a noise multiplier after a number of rounds."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy import sample_level
from dpeer.cli.privacy.levels import options_of_both, patient_option, planned, require_of_client
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
from dpeer.privacy.plan import SamplePlan


@click.command(short_help="Print epsilon after so many rounds.")
@options_of_both("target_epsilon")
@patient_option
@json_option
def epsilon(as_json: bool, **options: Any) -> None:
    """Print the epsilon after so many rounds, at client level or for one record.

    \b
    Examples:
      dpeer privacy epsilon --noise-multiplier 5 --rounds 20
      dpeer privacy epsilon --privacy sample --noise-multiplier 1 --sampling-rate 0.05 --steps 20 --rounds 15
    """  # noqa: D301 - \b is click's
    plan = planned("epsilon", options)
    if isinstance(plan, SamplePlan):
        sample_level.epsilon(plan, as_json)
        return
    require_of_client(plan, "epsilon", "noise_multiplier", "rounds")
    warnings, guarantee = plan.warnings(), plan.guarantee()
    found = plan.described(guarantee)
    if as_json:
        click.echo(json.dumps(found, allow_nan=False))
        return
    print_lines([protected(guarantee)])
    if guarantee.adversary == "neighbor":
        rows = [("epsilon", short(found["epsilon"]), "against a neighbor, which sees every message")]
    else:
        rows = [
            ("epsilon_aggregate", short(found["epsilon_aggregate"]), "against the outsider alone"),
            ("epsilon_neighbor", short(found["epsilon_neighbor"]), "against a neighbor, which sees every message"),
        ]
    rows.append(("noise multiplier", upwards(guarantee.noise_multiplier), "noise that protects / clip norm"))
    print_facts(rows + facts(guarantee, plan))
    if guarantee.adversary == "aggregate":
        print_lines([which_is_which(found, guarantee)])
    print_lines(warnings)
