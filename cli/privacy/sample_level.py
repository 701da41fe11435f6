"""`dpeer privacy epsilon`, `calibrate` and `plan` at sample level."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from rich import box
from rich.table import Table

from dpeer.cli.privacy.levels import require_of_sample
from dpeer.cli.privacy.printing import MEANT, print_facts, print_lines, short, upwards
from dpeer.cli.topology.options import print_table
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.plan import SamplePlan

PERSONS = "A person with several records is protected less than one with a single record."

ADVICE = (
    "use larger batches in as many steps (more records, or a higher --sampling-rate), fewer shared parameters "
    "(adapters, or a small body on a frozen public one), or more peers"
)

Rows = list[tuple[str, str, str]]


def epsilon(asked: SamplePlan, as_json: bool) -> None:
    """Print the epsilon of a noise multiplier."""
    require_of_sample(asked, "epsilon", "noise_multiplier")
    warnings, guarantee = asked.warnings(), asked.guarantee()
    found = asked.described(guarantee)
    if as_json:
        _print_json(found)
        return
    patient: Rows = []
    if asked.patient_records is not None:
        said = f"with {asked.patient_records:,} records, of all of them together"
        patient = [("epsilon of a patient", short(found["epsilon_of_patient"]), said)]
    rows = [
        ("epsilon", short(found["epsilon"]), "of one record, against everyone" if patient else "against everyone"),
        *patient,
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise on a sum of gradients / clip norm"),
    ]
    _print(guarantee, rows + _facts(guarantee, asked), [*([] if patient else [PERSONS]), *warnings])


def calibrate(asked: SamplePlan, as_json: bool) -> None:
    """Print the noise for an epsilon."""
    require_of_sample(asked, "calibrate", "target_epsilon")
    warnings, guarantee = asked.warnings(), asked.guarantee()
    if as_json:
        _print_json({**asked.described(guarantee), "noise_std": guarantee.noise_std})
        return
    rows = [
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise on a sum / clip norm, rounded up"),
        ("noise std", upwards(guarantee.noise_std), f"on each coordinate of the sum, clip norm {asked.clip_norm:g}"),
        ("target epsilon", short(asked.target_epsilon), "after all rounds"),
    ]
    _print(guarantee, rows + _facts(guarantee, asked), [PERSONS, *warnings])


def plan(asked: SamplePlan, as_json: bool) -> None:
    """Print what follows for a site of so many records, and whether training can survive the noise."""
    require_of_sample(asked, "plan", "size", "parameters", "records", "noise_multiplier|target_epsilon")
    warnings, guarantee = asked.warnings(), asked.guarantee()
    found = asked.outlook(guarantee)
    if as_json:
        _print_json(found)
        return
    _print(guarantee, _plan_rows(guarantee, asked, found), [])
    _print_others(found["other_epsilons"], asked)
    print_lines([*_sentences(asked, found), PERSONS, *warnings])


def _facts(guarantee: SampleGuarantee, asked: SamplePlan) -> Rows:
    steps = f"{guarantee.steps:,} local steps in each"
    if guarantee.head_steps:
        steps = f"{guarantee.head_steps:,} local steps of the head and {guarantee.steps:,} of the body in each"
    return [
        ("sampling rate", f"{guarantee.sampling_rate:g}", "probability that a record is in a step's batch"),
        ("delta", f"{guarantee.delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{asked.planned:,}", steps),
        ("steps", f"{guarantee.compositions(asked.planned):,}", "each is charged"),
        ("accountant", asked.accountant, MEANT[asked.accountant]),
    ]


def _plan_rows(guarantee: SampleGuarantee, asked: SamplePlan, found: dict[str, Any]) -> Rows:
    fit = found["rounds_that_fit"]
    budget = [] if fit is None else [("rounds that fit", f"{fit:,}", f"into epsilon {asked.target_epsilon:g}")]
    seen = guarantee.sampling_rate * guarantee.steps * found["rounds_used"]
    return [
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise on a sum of gradients / clip norm"),
        ("batch size", short(found["batch_size"]), f"expected, of {asked.records:,} records"),
        ("noise norm / clip norm", short(found["noise_norm_over_clip_norm"]),
         f"of the mean gradient of a batch, {asked.parameters:,} parameters"),
        ("passes", short(seen), "over the data, by the body's steps"),
        *budget,
        ("epsilon", short(found["epsilon"]), f"after {found['steps']:,} steps, against everyone"),
        *_facts(guarantee, asked),
    ]  # fmt: skip


def _print_others(others: Iterable[dict[str, Any]], asked: SamplePlan) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for heading in ("all rounds at\nepsilon", "noise\nmultiplier", "noise norm /\nclip norm", "noise /\nlongest way"):
        table.add_column(heading, justify="right", no_wrap=True)
    for other in others:
        table.add_row(
            f"{other['target_epsilon']:g}",
            upwards(other["noise_multiplier"]),
            short(other["noise_norm_over_clip_norm"]),
            short(other["noise_over_longest_way"]),
        )
    print_table(table)


def _sentences(asked: SamplePlan, found: dict[str, Any]) -> list[str]:
    used, lines = found["rounds_used"], []
    if used == 0:
        return ["Not one round fits into the budget."]
    if used < asked.planned:
        lines.append(f"The budget lasts {used:,} of {asked.planned:,} rounds.")
    if found["batch_size"] < 1.0:
        lines.append("Most batches are empty: choose a higher --sampling-rate.")
    compared = (
        f"the noise left in the average of {asked.size:,} bodies after {used:,} rounds is "
        f"{short(found['noise_over_longest_way'])} times as long as the furthest way that clipped gradients could go"
    )
    if found["survives"]:
        return [*lines, f"{compared[0].upper()}{compared[1:]}. Well below 1 training may survive it."]
    return [*lines, f"Training cannot survive this: {compared}; {ADVICE}."]


def _print(guarantee: SampleGuarantee, rows: Rows, lines: list[str]) -> None:
    print_lines([f"Protected: {guarantee.words}."])
    print_facts(rows)
    print_lines(lines)


def _print_json(found: dict[str, Any]) -> None:
    click.echo(json.dumps(found, allow_nan=False))
