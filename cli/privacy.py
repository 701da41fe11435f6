"""`dpeer privacy`: epsilon of given noise, or the noise for an epsilon, and whether training survives it."""

from __future__ import annotations

import json
import math
from typing import Any

import click
from rich.console import Console

from dpeer.cli.click_from_setting import flag, stated
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.exceptions import ConfigurationError
from dpeer.privacy import Guarantee, SampleGuarantee, accounting
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant, Charge, tightest
from dpeer.privacy.outlook import ADVICE, noise_over_drift
from dpeer.privacy.sample_level import Head, phases_of
from dpeer.privacy.settings import PrivacySettings
from dpeer.privacy.soundness import check_delta, default_delta
from dpeer.results.files import finite

_EXAMPLES = {
    "client": "--target-epsilon 10 --rounds 20 --size 8 --parameters 60000",
    "sample": "--privacy sample --target-epsilon 8 --batch-size 100 --records 2000 --steps 20 --rounds 20 --size 8 "
    "--parameters 60000",
}

_SAMPLE_ONLY = ("batch_size", "records", "steps", "dp_head", "head_steps")
_MEANT = {"exact": "closed form", "pld": "privacy loss distributions", "rdp": "Renyi, an upper bound"}

TableRows = list[tuple[str, str, str]]
"""Names, values and what they mean."""

_NUMBER = click.FloatRange(1e-6, 1e6)
_COUNT = click.IntRange(1, 10**9)


@click.command(short_help="Print epsilon of given noise, or the noise for an epsilon.")
@click.option(
    "--privacy",
    type=click.Choice(["client", "sample"]),
    default="client",
    help="What is protected; client: a peer's whole data set; sample: one record.",
)
@stated(PrivacySettings, "noise_multiplier", type=_NUMBER, metavar="SIGMA")
@stated(
    PrivacySettings,
    "target_epsilon",
    type=_NUMBER,
    metavar="EPS",
    help="Epsilon after all rounds, for which the least noise is printed.",
)
@click.option("--rounds", type=_COUNT, metavar="T", help="Rounds, with one release of every peer in each.")
@stated(PrivacySettings, "delta", type=click.FloatRange(1e-300, 0.5), metavar="D")
@stated(PrivacySettings, "clip_norm", type=_NUMBER, metavar="C")
@click.option(
    "--size",
    type=_COUNT,
    metavar="N",
    help="Number of peers, for whether training survives; client: also for delta's default and limit.",
)
@click.option(
    "--parameters",
    type=_COUNT,
    metavar="P",
    help="Parameters of the body, those that are shared, for whether training survives.",
)
@click.option(
    "--batch-size",
    type=_COUNT,
    metavar="B",
    help="Sample: records in a step's batch, on average; over --records it is the chance q of each to be in it.",
)
@click.option(
    "--records",
    type=_COUNT,
    metavar="N",
    help="Sample: about how many records (or groups) a peer trains with; others may know it.",
)
@click.option(
    "--steps",
    type=_COUNT,
    metavar="K",
    help="Sample: local steps of a peer in a round, with --dp-head alternate those of the body.",
)
@stated(PrivacySettings, "dp_head", default=None, show_default="joint")
@click.option(
    "--head-steps",
    type=_COUNT,
    metavar="K",
    help="Sample: local steps of the head in a round; for --dp-head alternate.",
)
@click.option(
    "--accountant",
    type=click.Choice(ACCOUNTANTS),
    show_default="exact; pld where steps are sampled",
    help="exact: a closed form, without sampling; pld: privacy loss distributions, with sampling; rdp: Renyi, an "
    "upper bound.",
)
@json_option
def privacy(as_json: bool, **given: Any) -> None:
    """Print the epsilon of given noise, or the least noise for a target epsilon, after so many rounds.

    With --size and --parameters it also prints whether training can survive that noise.

    \b
    Examples:
      dpeer privacy --noise-multiplier 5 --rounds 20
      dpeer privacy --target-epsilon 10 --rounds 20 --size 8 --parameters 60000
      dpeer privacy --privacy sample --target-epsilon 3 --batch-size 32 --records 2000 --steps 20 --rounds 20
    """  # noqa: D301 - \b is click's
    _check(given)
    client = given["privacy"] == "client"
    units = given["size" if client else "records"]
    delta = default_delta(units or 1) if given["delta"] is None else given["delta"]
    warning = None if units is None else check_delta(delta, units, "peer" if client else "record")
    guarantee, found, rows, lines = (_of_client if client else _of_sample)(given, delta)
    if given["parameters"] is not None:
        outlook, line = _survival(given, guarantee)
        found |= outlook
        lines.append(line)
    if as_json:
        click.echo(json.dumps(finite(found), allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(f"Protected: {guarantee.words}.")
    table = plain_table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(table)
    for line in lines if warning is None else [*lines, warning]:
        console.print(line, markup=False)


def _check(given: dict[str, Any]) -> None:
    """Refuse values that are missing, and values that do not go together."""
    sample = given["privacy"] == "sample"
    noise, target = given["noise_multiplier"], given["target_epsilon"]
    for name in () if sample else _SAMPLE_ONLY:
        if given[name] is not None:
            raise ConfigurationError(
                f"{flag(name)} {given[name]}: it belongs to --privacy sample, which protects one record: add --privacy "
                "sample"
            )
    if None not in (noise, target):
        raise ConfigurationError(
            f"--target-epsilon {target:g} with --noise-multiplier {noise:g}: each decides the noise, leave one of them "
            "out"
        )
    needed = ["rounds", *(["batch_size", "records", "steps"] if sample else [])]
    if given["parameters"] is not None or (sample and given["size"] is not None):
        needed += ["size", "parameters"]
    missing = ["--noise-multiplier or --target-epsilon"] if noise is target is None else []
    missing += [flag(name) for name in needed if given[name] is None]
    if missing:
        raise ConfigurationError(
            f"{', '.join(missing)} must be given, for example dpeer privacy {_EXAMPLES[given['privacy']]}"
        )
    if given["dp_head"] == "alternate" and given["head_steps"] is None:
        raise ConfigurationError(
            "--dp-head alternate: the head has steps of its own, which are charged beside those of the body: say how "
            "many a round has, for example --head-steps 5"
        )
    if given["dp_head"] != "alternate" and given["head_steps"] is not None:
        raise ConfigurationError(
            f"--head-steps {given['head_steps']}: the head has steps of its own only with --dp-head alternate: add "
            "that, or leave it out"
        )


def _of_client(given: dict[str, Any], delta: float) -> tuple[Guarantee, dict[str, Any], TableRows, list[str]]:
    """The guarantee at client level, the values of the JSON, the rows of the table, and sentences."""
    rounds: int = given["rounds"]
    accountant: Accountant = given["accountant"] or "exact"
    made = Guarantee(given["noise_multiplier"] or 1.0, given["clip_norm"], delta)
    if given["target_epsilon"] is not None:
        made = made.calibrated(given["target_epsilon"], rounds, accountant)
    epsilon = made.epsilon(rounds, accountant)
    noise = {"noise_multiplier": made.noise_multiplier, "noise_std": made.noise_std}
    found = {
        "epsilon": epsilon,
        "delta": delta,
        "mode": "client",
        "adversary": "neighbor",
        "adjacency": "replace",
        "noise_multiplier": made.noise_multiplier,
        "rounds": rounds,
        "accountant": accountant,
    }
    rows = [
        ("epsilon", _short(epsilon), "against a neighbor, which sees every message"),
        *_noise_rows(made, "noise that protects", "a message"),
        ("delta", f"{delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{rounds:,}", "one release of every peer in each"),
        ("accountant", accountant, _MEANT[accountant]),
    ]
    of_papers = accounting.total_epsilon([Charge(1.0, made.noise_multiplier, rounds)], delta, accountant)
    line = f"Papers that count sensitivity C (an update beside none) state epsilon {_short(of_papers)} for this noise."
    return made, found if given["target_epsilon"] is None else noise, rows, [line]


def _of_sample(given: dict[str, Any], delta: float) -> tuple[SampleGuarantee, dict[str, Any], TableRows, list[str]]:
    """The guarantee at sample level, the values of the JSON, the rows of the table, and sentences."""
    rounds: int = given["rounds"]
    noise, phases = given["noise_multiplier"] or 1.0, phases_of(given["steps"], given["head_steps"] or 0)
    head: Head = given["dp_head"] or "joint"
    units: int = given["records"]
    rate = min(1.0, given["batch_size"] / units)
    made = SampleGuarantee(rate, noise, given["clip_norm"], delta, phases, head, units=units)
    accountant: Accountant = given["accountant"] or tightest(made.charges(rounds))
    if given["target_epsilon"] is not None:
        made = made.calibrated(given["target_epsilon"], rounds, accountant)
    epsilon, steps = made.epsilon(rounds, accountant), made.compositions(rounds)
    found = {
        "epsilon": epsilon,
        "delta": delta,
        "mode": "sample",
        "adversary": "everyone",
        "adjacency": "add-or-remove",
        "noise_multiplier": made.noise_multiplier,
        "sampling_rate": made.sampling_rate,
        "dp_head": made.head,
        "rounds": rounds,
        "steps": steps,
        "accountant": accountant,
    }
    each = f"{given['steps']:,} local steps in each"
    if given["head_steps"]:
        each = f"{given['head_steps']:,} local steps of the head and {given['steps']:,} of the body in each"
    rows = [
        ("epsilon", _short(epsilon), "of one record, against everyone"),
        *_noise_rows(made, "noise on a sum", "the sum"),
        ("sampling rate", f"{made.sampling_rate:g}", "probability that a record is in a step's batch"),
        ("delta", f"{delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{rounds:,}", each),
        ("steps", f"{steps:,}", "each is charged"),
        ("accountant", accountant, _MEANT[accountant]),
    ]
    if given["target_epsilon"] is not None:
        found["noise_std"] = made.noise_std
    return (
        made,
        found,
        rows,
        ["One record is protected, not one patient: --privacy-unit group of a run protects all records of a patient."],
    )


def _noise_rows(made: Guarantee | SampleGuarantee, what: str, whole: str) -> TableRows:
    return [
        ("noise multiplier", _upwards(made.noise_multiplier), f"{what} / clip norm, rounded up"),
        ("noise std", _upwards(made.noise_std), f"on each coordinate of {whole}, clip norm {made.clip_norm:g}"),
    ]


def _survival(given: dict[str, Any], made: Guarantee | SampleGuarantee) -> tuple[dict[str, Any], str]:
    """Whether training can survive the noise: values of the JSON, and a sentence."""
    moved = "updates" if isinstance(made, Guarantee) else "gradients"
    ratio = made.noise_ratio(given["parameters"])
    left = noise_over_drift(ratio, given["size"], made.moves(given["rounds"]))
    compared = (
        f"the noise left in the average of {given['size']:,} bodies after {given['rounds']:,} rounds is {_short(left)} "
        f"times as long as the furthest way that clipped {moved} could go"
    )
    found = {"noise_norm_over_clip_norm": ratio, "noise_over_longest_way": left, "survives": left <= 1.0}
    if left <= 1.0:
        return found, f"Training may survive this: {compared}; well below 1 is what it needs."
    return found, f"Training cannot survive this: {compared}; {ADVICE[given['privacy']]}."


def _short(value: float) -> str:
    """A number as a short text, of four significant digits or more."""
    if math.isinf(value):
        return "infinite"
    if value == 0.0:
        return "0"
    if 1000.0 <= value < 1e7:
        return f"{value:,.0f}"
    return f"{value:#.4g}".rstrip(".") if 1e-3 <= value < 1e7 else f"{value:.3e}"


def _upwards(value: float) -> str:
    """A number with five digits, rounded up: noise that is typed again must not be less."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    up = math.ceil(value / step * (1.0 - 1e-12)) * step
    return f"{up:.5g}" if up < 1e5 else f"{up:.0f}"
