"""`dpeer privacy audit`: attack the mechanism as a neighbor could, and see whether it gives away more than it says."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from dpeer.cli.privacy.options import Asked, count, privacy_options
from dpeer.cli.privacy.printing import print_facts, print_lines, protected, short
from dpeer.cli.topology.options import json_option
from dpeer.exceptions import ConfigurationError
from dpeer.privacy import Guarantee
from dpeer.privacy.audit import Audit
from dpeer.privacy.audit import audit as audited
from dpeer.privacy.gaussian import epsilon as epsilon_of

_REFUTED = (
    "THE CLAIM IS REFUTED: more is given away than is claimed. By chance that happens in at most 1 of 20 audits: "
    "repeat it with more --runs, and if it stays, do not use this."
)


@click.command(short_help="Attack the mechanism as a neighbor could.")
@privacy_options("target_epsilon", "accountant", "dp_adversary", "dp_min_honest", "size")
@click.option(
    "--runs", type=count("--runs", 300, least=20), default="300", show_default=True, help="Of each of two data sets."
)
@json_option
def audit(as_json: bool, runs: int, **options: Any) -> None:
    """Attack the mechanism as a neighbor could, in the worst case, and print a lower bound on what it gives away.

    Federations of two are trained on two data sets whose updates are as far apart as the clip norm allows; a neighbor
    tells them apart by the messages it gets. Its errors prove, with 95 % confidence, a mu of Gaussian differential
    privacy that is at least given away. More than what is claimed would be a defect: exit code 1.

    \b
    Example:
      dpeer privacy audit --noise-multiplier 4 --rounds 9
    """  # noqa: D301 - \b is click's
    asked = Asked(**options, dp_adversary="neighbor", accountant="exact")
    asked.require("audit", "noise_multiplier", "rounds")
    guarantee = asked.guarantee()
    claimed = guarantee.mu(asked.releases)
    if not 0.05 <= claimed <= 4:
        raise ConfigurationError(
            f"--noise-multiplier {guarantee.noise_multiplier:g} over {asked.releases} rounds is mu {claimed:.3g}: "
            f"{runs} runs can tell something about mu from 0.05 to 4 only, best between 1 and 2; for mu 1.5 take "
            f"--noise-multiplier {guarantee.noise_multiplier * claimed / 1.5:.3g}"
        )
    found = attack(guarantee, asked.releases, runs)
    held = found.mu <= claimed
    if as_json:
        document = {
            "mu_claimed": claimed, "mu_lower_bound": found.mu, "confidence": 0.95, "held": held,
            "epsilon_claimed": guarantee.epsilon(asked.releases),
            "epsilon_lower_bound": epsilon_of(found.mu, guarantee.delta), "delta": guarantee.delta,
            "noise_multiplier": guarantee.noise_multiplier, "rounds": asked.releases,
            "adjacency": guarantee.adjacency, **{key: value for key, value in asdict(found).items() if key != "mu"},
        }  # fmt: skip
        click.echo(json.dumps(document, allow_nan=False))
    else:
        print_lines([protected(guarantee)])
        bound = epsilon_of(found.mu, guarantee.delta)
        print_facts(
            [
                (
                    "mu claimed",
                    short(claimed),
                    f"epsilon {short(guarantee.epsilon(asked.releases))} at delta {guarantee.delta:g}",
                ),
                ("mu given away", short(found.mu), f"at least, with 95 % confidence: epsilon {short(bound)}"),
                ("false positives", f"{found.false_positives:.1%}", f"of {runs} runs on the first data set"),
                ("false negatives", f"{found.false_negatives:.1%}", f"of {runs} runs on the second"),
            ]
        )
        print_lines(["The claim stands." if held else _REFUTED])
    if not held:
        sys.exit(1)


def attack(guarantee: Guarantee, rounds: int, runs: int, *, show: bool = True) -> Audit:
    """Run the worst case on two data sets; the mechanism that is run is the guarantee's."""
    from dpeer.cli.privacy.canary import views  # torch is imported only now

    apart = {"replace": -1.0, "zero-out": 0.0}[guarantee.adjacency]
    with click.progressbar(length=2 * runs, label="runs", file=sys.stderr, hidden=not show) as bar:
        first, second = (views(guarantee, rounds, runs, sign, lambda: bar.update(1)) for sign in (apart, 1.0))
    # Half way between the two means, which the neighbor knows beforehand.
    middle = guarantee.clip_norm * rounds * (1 + apart) / 2
    return audited(first, second, middle)
