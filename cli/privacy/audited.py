"""`dpeer privacy audit` at sample level, and how the results of an audit are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from dpeer.cli.privacy.options import require
from dpeer.cli.privacy.printing import print_facts, print_lines, short
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.checks import Check
from dpeer.privacy.plan import SamplePlan

if TYPE_CHECKING:
    from dpeer.federation.audit.sample_attacks import Report

_EXAMPLES = {"noise_multiplier": "1", "sampling_rate": "0.25", "steps": "4", "rounds": "2"}

_REFUTED = (
    "THE CLAIM IS REFUTED: more is given away than is claimed. By chance that happens in at most 1 of 20 audits: "
    "repeat it with more --runs, and if it stays, do not use this."
)


def print_checks(checks: Iterable[Check], *, held: bool) -> None:
    """Print what was looked at beside the long attack, and what all of it comes to."""
    print_facts((check.name, "ok" if check.held else "FAILED", check.said) for check in checks)
    print_lines(["The claim stands." if held else _REFUTED])


def audit_sample(asked: SamplePlan, runs: int, as_json: bool) -> None:
    """Attack privacy at sample level, print what was found, and exit with 1 if it is more than what is claimed."""
    require(asked, "audit --privacy sample", _EXAMPLES, *_EXAMPLES)
    guarantee = asked.guarantee()

    from dpeer.federation.audit import sample_attacks  # torch is imported only now

    sample_attacks.check_range(guarantee, asked.planned, runs)
    made = sample_attacks.steps(guarantee, asked.planned, runs)
    with click.progressbar(length=made, label="steps", file=sys.stderr) as bar:
        report = sample_attacks.examine(guarantee, asked.planned, runs, bar.update)
    if as_json:
        click.echo(json.dumps(report.described(guarantee, asked.planned), allow_nan=False))
    else:
        _print(guarantee, asked, report)
    if not report.held:
        sys.exit(1)


def _print(guarantee: SampleGuarantee, asked: SamplePlan, report: Report) -> None:
    found, steps = report.bound, guarantee.compositions(asked.planned)
    print_lines([f"Protected: {guarantee.words}."])
    print_facts(
        [
            ("epsilon claimed", short(report.claimed), f"at delta {guarantee.delta:g}, after {steps:,} steps"),
            ("epsilon given away", short(found.epsilon), "at least, with 95 % confidence"),
            ("false positives", f"{found.false_positives:.1%}", f"of {found.runs} runs without the record"),
            ("false negatives", f"{found.false_negatives:.1%}", f"of {found.runs} runs with it"),
        ]
    )
    print_checks(report.checks, held=report.held)
