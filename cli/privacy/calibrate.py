"""`dpeer privacy calibrate`: the noise multiplier for a target epsilon."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.privacy.options import options_of_both, planned, require
from dpeer.cli.privacy.printing import PERSONS, facts, print_result, short, upwards, which_is_which
from dpeer.cli.tables import json_option
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.client_level import Guarantee
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
    plan = planned(options)
    require(plan, "calibrate", "target_epsilon", "rounds")
    warnings = plan.warnings()
    guarantee: Guarantee | SampleGuarantee
    if isinstance(plan, SamplePlan):
        guarantee = plan.guarantee()
        found = {**plan.described(guarantee), "noise_std": guarantee.noise_std}
        over, whole, lines = "noise on a sum", "the sum", [PERSONS]
    else:
        guarantee = plan.guarantee()
        numbers = plan.both(guarantee)
        found = {"noise_multiplier": guarantee.noise_multiplier, "noise_std": guarantee.noise_std, **numbers}
        over, whole = "noise that protects", "a message"
        lines = [which_is_which(numbers, guarantee)] if numbers else []
    rows = [
        ("noise multiplier", upwards(guarantee.noise_multiplier), f"{over} / clip norm, rounded up"),
        ("noise std", upwards(guarantee.noise_std), f"on each coordinate of {whole}, clip norm {plan.clip_norm:g}"),
        ("target epsilon", short(plan.target_epsilon), "after all rounds"),
        *facts(guarantee, plan),
    ]
    print_result(as_json, found, guarantee, rows, lines + warnings)
