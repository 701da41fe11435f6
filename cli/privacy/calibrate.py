"""`dpeer privacy calibrate`: the noise multiplier for a target epsilon."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy import sample_level
from dpeer.cli.privacy.levels import options_of_both, planned, require_of_client
from dpeer.cli.privacy.printing import facts, print_facts, print_lines, protected, short, upwards, which_is_which
from dpeer.cli.topology.options import json_option
from dpeer.privacy.plan import SamplePlan


@click.command(short_help="Print the noise for an epsilon.")
@options_of_both("noise_multiplier")
@json_option
def calibrate(as_json: bool, **options: Any) -> None:
    """Print the least noise with which so many rounds stay within an epsilon.

    \b
    Examples:
      dpeer privacy calibrate --target-epsilon 10 --rounds 20
      dpeer privacy calibrate --privacy sample --target-epsilon 3 --sampling-rate 0.05 --steps 20 --rounds 20
    """  # noqa: D301 - \b is click's
    plan = planned("calibrate", options)
    if isinstance(plan, SamplePlan):
        sample_level.calibrate(plan, as_json)
        return
    require_of_client(plan, "calibrate", "target_epsilon", "rounds")
    warnings, guarantee = plan.warnings(), plan.guarantee()
    numbers = plan.both(guarantee)
    if as_json:
        found = {"noise_multiplier": guarantee.noise_multiplier, "noise_std": guarantee.noise_std, **numbers}
        click.echo(json.dumps(found, allow_nan=False))
        return
    print_lines([protected(guarantee)])
    print_facts(
        [
            ("noise multiplier", upwards(guarantee.noise_multiplier), "noise that protects / clip norm, rounded up"),
            (
                "noise std",
                upwards(guarantee.noise_std),
                f"on each coordinate of a message, clip norm {plan.clip_norm:g}",
            ),
            ("target epsilon", short(plan.target_epsilon), "after all rounds"),
            *facts(guarantee, plan),
        ]
    )
    if numbers:
        print_lines([which_is_which(numbers, guarantee)])
    print_lines(warnings)
