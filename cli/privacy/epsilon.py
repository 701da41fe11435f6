"""`dpeer privacy epsilon`: the epsilon of a noise multiplier after a number of rounds."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.privacy.options import options_of_both, patient_option, planned, require
from dpeer.cli.privacy.printing import PERSONS, Rows, epsilons, facts, print_result, short, upwards, which_is_which
from dpeer.cli.tables import json_option
from dpeer.privacy.plan import ClientPlan, SamplePlan


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
    plan = planned(options)
    require(plan, "epsilon", "noise_multiplier", "rounds")
    if isinstance(plan, SamplePlan):
        _of_sample(plan, as_json)
    else:
        _of_client(plan, as_json)


def _of_client(plan: ClientPlan, as_json: bool) -> None:
    warnings, guarantee = plan.warnings(), plan.guarantee()
    found = plan.described(guarantee)
    rows = epsilons(found, guarantee, after=", which sees every message")
    rows.append(("noise multiplier", upwards(guarantee.noise_multiplier), "noise that protects / clip norm"))
    lines = [which_is_which(found, guarantee)] if guarantee.adversary == "aggregate" else []
    print_result(as_json, found, guarantee, rows + facts(guarantee, plan), lines + warnings)


def _of_sample(plan: SamplePlan, as_json: bool) -> None:
    warnings, guarantee = plan.warnings(), plan.guarantee()
    found = plan.described(guarantee)
    patient: Rows = []
    if plan.patient_records is not None:
        records = f"with {plan.patient_records:,} records, of all of them together"
        patient = [("epsilon of a patient", short(found["epsilon_of_patient"]), records)]
    rows = [
        ("epsilon", short(found["epsilon"]), "of one record, against everyone" if patient else "against everyone"),
        *patient,
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise on a sum of gradients / clip norm"),
    ]
    lines = [*([] if patient else [PERSONS]), *warnings]
    print_result(as_json, found, guarantee, rows + facts(guarantee, plan), lines)
