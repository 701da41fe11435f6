"""`dpeer privacy plan`: the noise and rounds of a budget, and whether training survives the noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from dpeer.cli.privacy.options import count, options_of_both, planned, require
from dpeer.cli.privacy.printing import (
    PERSONS,
    epsilons,
    facts,
    print_lines,
    print_result,
    short,
    upwards,
    which_is_which,
)
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.plan import ADVICE, ClientPlan, SamplePlan

_ADVICE_OF_SAMPLE = (
    "use larger batches in as many steps (more records, or a higher --sampling-rate), fewer shared parameters "
    "(adapters, or a small body on a frozen public one), or more peers"
)


@click.command(short_help="Print whether training survives the noise.")
@options_of_both()
@click.option(
    "--parameters", type=count("--parameters", 60000), metavar="P",
    help="Parameters of the body, those that are shared.",
)  # fmt: skip
@json_option
def plan(as_json: bool, **options: Any) -> None:
    """Print the noise of a planned run, how many releases its budget allows, and whether training can survive it.

    Give --target-epsilon for the least noise that lasts all rounds, --noise-multiplier for its epsilon, or both for how
    many rounds such noise lasts.

    \b
    Example:
      dpeer privacy plan --size 8 --parameters 60000 --rounds 20 --target-epsilon 10
    """  # noqa: D301 - \b is click's
    asked = planned(options, "size")
    if isinstance(asked, SamplePlan):
        require(asked, "plan", "size", "parameters", "records", "noise_multiplier|target_epsilon")
        _of_sample(asked, as_json)
    else:
        require(asked, "plan", "size", "parameters", "rounds", "noise_multiplier|target_epsilon")
        _of_client(asked, as_json)


def _of_client(asked: ClientPlan, as_json: bool) -> None:
    warnings, guarantee = asked.warnings(), asked.guarantee()
    found = asked.outlook(guarantee)
    fit = found["releases_that_fit"]
    rows = [
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise that protects / clip norm"),
        ("noise std", upwards(guarantee.noise_std), f"on each coordinate of a message, clip norm {asked.clip_norm:g}"),
        (
            "noise norm / clip norm",
            short(found["noise_norm_over_clip_norm"]),
            f"of one message of {asked.parameters:,} parameters",
        ),
        *([] if fit is None else [("releases that fit", f"{fit:,}", f"into epsilon {asked.target_epsilon:g}")]),
        *epsilons(found, guarantee, before=f"after {found['releases']:,} releases, "),
        *facts(guarantee, asked),
    ]
    print_result(as_json, found, guarantee, rows, _sentences_of_client(asked, guarantee, found) + warnings)


def _sentences_of_client(asked: ClientPlan, guarantee: Guarantee, found: dict[str, Any]) -> list[str]:
    used = found["releases"]
    lines = [which_is_which(found, guarantee)] if guarantee.adversary == "aggregate" else []
    if used == 0:
        return [*lines, "Not one release fits into the budget: a run with it ends with exit code 5."]
    if used < asked.planned:
        lines.append(
            f"The budget lasts {used:,} of {asked.planned:,} rounds; in the others a peer re-sends its last body, "
            "which costs nothing."
        )
    if not found["survives"]:
        lines.append(
            f"Training cannot survive this: the noise left in the average of {asked.size:,} bodies after {used:,} "
            f"releases is {short(found['noise_over_longest_way'])} times as long as the furthest way that clipped "
            f"updates could go; {ADVICE}."
        )
    return lines


def _of_sample(asked: SamplePlan, as_json: bool) -> None:
    warnings, guarantee = asked.warnings(), asked.guarantee()
    found = asked.outlook(guarantee)
    fit, passes = found["rounds_that_fit"], guarantee.sampling_rate * guarantee.steps * found["rounds_used"]
    rows = [
        ("noise multiplier", upwards(guarantee.noise_multiplier), "noise on a sum of gradients / clip norm"),
        ("batch size", short(found["batch_size"]), f"expected, of {asked.records:,} records"),
        (
            "noise norm / clip norm",
            short(found["noise_norm_over_clip_norm"]),
            f"of the mean gradient of a batch, {asked.parameters:,} parameters",
        ),
        ("passes", short(passes), "over the data, by the body's steps"),
        *([] if fit is None else [("rounds that fit", f"{fit:,}", f"into epsilon {asked.target_epsilon:g}")]),
        ("epsilon", short(found["epsilon"]), f"after {found['steps']:,} steps, against everyone"),
        *facts(guarantee, asked),
    ]
    print_result(as_json, found, guarantee, rows, [])
    if not as_json:
        _print_others(found["other_epsilons"])
        print_lines([*_sentences_of_sample(asked, found), PERSONS, *warnings])


def _print_others(others: Iterable[dict[str, Any]]) -> None:
    table = plain_table()
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


def _sentences_of_sample(asked: SamplePlan, found: dict[str, Any]) -> list[str]:
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
    return [*lines, f"Training cannot survive this: {compared}; {_ADVICE_OF_SAMPLE}."]
