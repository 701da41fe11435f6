"""`dpeer privacy audit`: attack the mechanism as a neighbor could, and see whether it gives away more than it says."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from dpeer.cli.privacy.audited import audit_sample, print_checks
from dpeer.cli.privacy.modes import options_of_both, planned, require_of_client
from dpeer.cli.privacy.options import count
from dpeer.cli.privacy.printing import print_facts, print_lines, protected, short
from dpeer.cli.topology.options import json_option
from dpeer.privacy import Guarantee
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.plan import SamplePlan

if TYPE_CHECKING:
    from dpeer.federation.audit.attacks import Report


@click.command(short_help="Attack the mechanism as a neighbor could.")
@options_of_both("target_epsilon", "accountant", "dp_adversary", "dp_min_honest", "size", "records")
@click.option(
    "--runs",
    type=count("--runs", 1000, least=20),
    metavar="N",
    default="1000",
    show_default=True,
    help="Runs with each of the two data sets.",
)
@json_option
def audit(as_json: bool, runs: int, **options: Any) -> None:
    """Attack the mechanism as a neighbor could, in the worst case, and print a lower bound on what it gives away.

    Federations of two are trained on two data sets that are as far apart as the clip norm allows, or at sample level
    differ in one record; a neighbor tells them apart by the messages it gets. Its errors prove, with 95 % confidence,
    what is at least given away. Beside that the noise itself is looked at, and what else the promise rests on. More
    than what is claimed would be a defect: exit code 1. It takes about a minute.

    \b
    Examples:
      dpeer privacy audit --noise-multiplier 4 --rounds 9
      dpeer privacy audit --privacy sample --noise-multiplier 1 --sampling-rate 0.25 --steps 4 --rounds 2
    """  # noqa: D301 - \b is click's
    plan = planned("audit", options)
    if isinstance(plan, SamplePlan):
        audit_sample(plan, runs, as_json)
        return
    require_of_client(plan, "audit", "noise_multiplier", "rounds")
    guarantee = plan.guarantee()

    from dpeer.federation.audit import attacks  # torch is imported only now

    attacks.check_range(guarantee, plan.planned, runs)
    made = attacks.releases(plan.planned, runs)
    with click.progressbar(length=made, label="releases", file=sys.stderr) as bar:
        report = attacks.examine(guarantee, plan.planned, runs, bar.update)
    if as_json:
        click.echo(json.dumps(report.described(guarantee, plan.planned), allow_nan=False))
    else:
        _print(guarantee, runs, report)
    if not report.held:
        sys.exit(1)


def _print(guarantee: Guarantee, runs: int, report: Report) -> None:
    claimed, found = report.claimed, report.bound
    print_lines([protected(guarantee)])
    print_facts(
        [
            (
                "mu claimed",
                short(claimed),
                f"epsilon {short(epsilon_of(claimed, guarantee.delta))} at delta {guarantee.delta:g}",
            ),
            (
                "mu given away",
                short(found.mu),
                f"at least, with 95 % confidence: epsilon {short(epsilon_of(found.mu, guarantee.delta))}",
            ),
            ("false positives", f"{found.false_positives:.1%}", f"of {runs} runs on the first data set"),
            ("false negatives", f"{found.false_negatives:.1%}", f"of {runs} runs on the second"),
        ]
    )
    print_checks(report.checks, held=report.held)
