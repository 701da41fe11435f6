"""`dpeer privacy calibrate`: the noise for an epsilon."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy import sampled
from dpeer.cli.privacy.modes import SampleAsked, of_mode, options_of_both
from dpeer.cli.privacy.options import Asked
from dpeer.cli.privacy.printing import both, facts, print_facts, print_lines, protected, short, upwards, which_is_which
from dpeer.cli.topology.options import json_option


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
    chosen = of_mode(options)
    if chosen["privacy"] == "sample":
        sampled.calibrate(SampleAsked(**chosen), as_json)
        return
    asked = Asked(**chosen)
    asked.require("calibrate", "target_epsilon", "rounds")
    warnings = asked.warnings()
    guarantee = asked.guarantee()
    numbers = both(guarantee, asked.releases, asked.accountant)
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
                f"on each coordinate of a message, clip norm {asked.clip_norm:g}",
            ),
            ("target epsilon", short(asked.target_epsilon), "after all rounds"),
            *facts(guarantee, asked.releases, asked.accountant),
        ]
    )
    if numbers:
        print_lines([which_is_which(numbers, guarantee)])
    print_lines(warnings)
