"""`dpeer privacy audit`: a canary attack on the mechanism, and a lower bound on the privacy loss."""

from __future__ import annotations

import sys
from typing import Any

import click

from dpeer.cli.privacy.options import count, options_of_both, planned, require
from dpeer.cli.privacy.printing import Rows, print_result, short
from dpeer.cli.tables import json_option
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.plan import ClientPlan, SamplePlan

_SAMPLE_EXAMPLES = {"noise_multiplier": "1", "sampling_rate": "0.25", "steps": "4", "rounds": "2"}

_REFUTED = (
    "THE CLAIM IS REFUTED: the privacy loss is more than is claimed. By chance that happens in at most 1 of 20 audits: "
    "repeat it with more --runs, and if it stays, do not use this."
)


@click.command(short_help="Attack the mechanism as a neighbor could.")
@options_of_both("target_epsilon", "accountant", "dp_adversary", "dp_min_honest", "size", "records")
@click.option(
    "--runs", type=count("--runs", 1000, least=20), metavar="N", default="1000", show_default=True,
    help="Runs on each of the two data sets.",
)  # fmt: skip
@json_option
def audit(as_json: bool, runs: int, **options: Any) -> None:
    """Attack the mechanism as a neighbor could, in the worst case, and print a lower bound on the privacy loss.

    A peer trains on two data sets that are as far apart as the clip norm allows, or at sample level differ in one
    record, the canary. A neighbor tells them apart by the messages; its errors prove the bound with 95 % confidence.
    A bound above the claim is a defect: exit code 1. The audit takes about a minute.

    \b
    Examples:
      dpeer privacy audit --noise-multiplier 4 --rounds 9
      dpeer privacy audit --privacy sample --noise-multiplier 1 --sampling-rate 0.25 --steps 4 --rounds 2
    """  # noqa: D301 - \b is click's
    plan = planned(options)
    attacked = _attack_sample(plan, runs) if isinstance(plan, SamplePlan) else _attack_client(plan, runs)
    guarantee, found, rows = attacked
    rows += [
        ("false positives", f"{found['false_positives']:.1%}", f"of {found['runs']} runs on the first data set"),
        ("false negatives", f"{found['false_negatives']:.1%}", f"of {found['runs']} runs on the second"),
    ]
    print_result(as_json, found, guarantee, rows, ["The claim stands." if found["held"] else _REFUTED])
    if not found["held"]:
        sys.exit(1)


def _attack_sample(plan: SamplePlan, runs: int) -> tuple[SampleGuarantee, dict[str, Any], Rows]:
    require(plan, "audit", "noise_multiplier", examples=_SAMPLE_EXAMPLES)
    guarantee, rounds = plan.guarantee(), plan.planned

    from dpeer.federation.audit import attack_sample, check_sample  # torch is imported only now

    check_sample(guarantee, rounds, runs)
    with click.progressbar(length=2 * runs * guarantee.compositions(rounds), label="steps", file=sys.stderr) as bar:
        report = attack_sample(guarantee, rounds, runs, bar.update)
    found = report.described(guarantee, rounds)
    return guarantee, found, [
        ("epsilon claimed", short(report.claimed), f"at delta {guarantee.delta:g}, after {found['steps']:,} steps"),
        ("epsilon proven", short(report.bound.epsilon), "at least, with 95 % confidence"),
    ]  # fmt: skip


def _attack_client(plan: ClientPlan, runs: int) -> tuple[Guarantee, dict[str, Any], Rows]:
    require(plan, "audit", "noise_multiplier", "rounds")
    guarantee, rounds = plan.guarantee(), plan.planned

    from dpeer.federation.audit import attack_client, check_client

    check_client(guarantee, rounds, runs)
    with click.progressbar(length=2 * runs * rounds, label="releases", file=sys.stderr) as bar:
        report = attack_client(guarantee, rounds, runs, bar.update)
    found = report.described(guarantee, rounds)
    claimed, proven = (short(found[key]) for key in ("epsilon_claimed", "epsilon_lower_bound"))
    return guarantee, found, [
        ("mu claimed", short(report.claimed), f"epsilon {claimed} at delta {guarantee.delta:g}"),
        ("mu proven", short(report.bound.mu), f"at least, with 95 % confidence: epsilon {proven}"),
    ]  # fmt: skip
