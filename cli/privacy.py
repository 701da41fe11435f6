"""`dpeer privacy`: epsilon of given noise, or the noise for an epsilon, and whether training survives it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from dpeer.cli.click_from_setting import flag, stated
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.exceptions import ConfigurationError
from dpeer.federation.scheduler_rank import own_rank
from dpeer.privacy import Guarantee, SampleGuarantee, accounting
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant, Charge, tightest
from dpeer.privacy.guarantee import Head, check_delta, default_delta, phases_of
from dpeer.privacy.settings import PrivacySettings
from dpeer.results.files import finite

_EXAMPLES = {
    "client": "--target-epsilon 10 --rounds 20 --size 8 --parameters 60000",
    "sample": "--privacy sample --target-epsilon 8 --batch-size 100 --records 2000 --steps 20 --rounds 20 --size 8 "
    "--parameters 60000",
}

_SAMPLE_ONLY = ("batch_size", "records", "steps", "dp_head", "head_steps")
_MEANT = {"exact": "closed form", "pld": "privacy loss distributions", "rdp": "Renyi, an upper bound"}

_BESIDE_A_FILE = ("federation", "rank", "accountant", "as_json")
"""Options that may be given with --federation: the file answers all others."""

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
@click.option(
    "--federation",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take all from this file and the data of --rank here: what a start would promise.",
)
@click.option("--rank", metavar="R", help="With --federation: the rank whose data are here, or `env`.  [default: 0]")
@json_option
def privacy(as_json: bool, federation: Path | None, rank: str | None, **given: Any) -> None:
    """Print the epsilon of given noise, or the least noise for a target epsilon, after so many rounds.

    With --size and --parameters it also prints whether training can survive that noise. With --federation all of it
    is that of the run; nothing is trained, charged or written.

    \b
    Examples:
      dpeer privacy --noise-multiplier 5 --rounds 20
      dpeer privacy --target-epsilon 10 --rounds 20 --size 8 --parameters 60000
      dpeer privacy --privacy sample --target-epsilon 3 --batch-size 32 --records 2000 --steps 20 --rounds 20
      dpeer privacy --federation dpeer.toml --rank 3
    """  # noqa: D301 - \b is click's
    if federation is not None:
        _check_answered(federation)
        words, found, rows, lines = _of_file(federation, own_rank(rank or "0"), given["accountant"])
    elif rank is not None:
        raise ConfigurationError(f"--rank {rank}: it belongs to --federation FILE: add that, or leave --rank out")
    else:
        words, found, rows, lines = _of_flags(given)
    if as_json:
        click.echo(json.dumps(finite(found), allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(f"Protected: {words}.")
    table = plain_table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(table)
    for line in lines:
        console.print(line, markup=False)


def _of_file(file: Path, rank: int, accountant: Accountant | None) -> tuple[str, dict[str, Any], TableRows, list[str]]:
    """What a run will promise: what is protected, the values of the JSON, the rows of the table, and sentences."""
    from dpeer.federation.planned_privacy import planned_privacy  # torch, which takes a second

    planned = planned_privacy(file, rank)
    made, rounds = planned.guarantee, planned.rounds
    given = {"size": planned.size, "parameters": planned.parameters, "rounds": rounds}
    more: TableRows = [("peers", f"{planned.size:,}", "as the federation file has them")]
    if isinstance(made, SampleGuarantee):
        found, rows = _of_sample(made, rounds, accountant)
        batch = made.sampling_rate * made.units
        found |= {"batch_size": batch, "records": made.units, "unit": made.unit}
        more += [
            ("batch size", f"{batch:g}", f"{made.unit}s in a step's batch, on average"),
            ("records", f"{made.units:,}", f"{made.unit}s of a peer, about: others may know it"),
            ("parameters", f"{planned.parameters:,}", "trained together"),
        ]
    else:
        found, rows = _of_client(made, rounds, accountant)
        more.append(("parameters", f"{planned.parameters:,}", "values that get noise in a release"))
    found |= {"noise_std": made.noise_std, "rank": rank, "size": planned.size, "parameters": planned.parameters}
    found |= _survival(given, made)[0] | {"promises": list(planned.promises)}
    return made.words, found, rows + more, ["A start will say:", *planned.promises]


def _of_flags(given: dict[str, Any]) -> tuple[str, dict[str, Any], TableRows, list[str]]:
    """The same of what was typed."""
    _check(given)
    client, rounds, target = given["privacy"] == "client", given["rounds"], given["target_epsilon"]
    units = given["size" if client else "records"]
    delta = default_delta(units or 1) if given["delta"] is None else given["delta"]
    warning = None if units is None else check_delta(delta, units, "peer" if client else "record")
    noise, clip, accountant = given["noise_multiplier"] or 1.0, given["clip_norm"], given["accountant"]
    made: Guarantee | SampleGuarantee
    if client:
        made = Guarantee(noise, clip, delta)
        if target is not None:
            made = made.calibrated(target, rounds, accountant)
        found, rows = _of_client(made, rounds, accountant)
        of_papers = accounting.total_epsilon([Charge(1.0, made.noise_multiplier, rounds)], delta, accountant or "exact")
        lines = [
            f"Papers that count sensitivity C (an update beside none) state epsilon {_short(of_papers)} for this noise."
        ]
        if target is not None:
            found = {"noise_multiplier": made.noise_multiplier, "noise_std": made.noise_std}
    else:
        rate = min(1.0, given["batch_size"] / units)
        head: Head = given["dp_head"] or "joint"
        made = SampleGuarantee(
            noise, clip, delta, rate, phases_of(given["steps"], given["head_steps"] or 0), head, units=units
        )
        if target is not None:
            made = made.calibrated(target, rounds, accountant)
        found, rows = _of_sample(made, rounds, accountant)
        lines = [
            "One record is protected, not one patient: --privacy-unit group of a run protects all records of a patient."
        ]
        if target is not None:
            found["noise_std"] = made.noise_std
    if given["parameters"] is not None:
        outlook, line = _survival(given, made)
        found |= outlook
        lines.append(line)
    return made.words, found, rows, lines if warning is None else [*lines, warning]


def _check_answered(file: Path) -> None:
    """Refuse options that the federation file answers."""
    context = click.get_current_context()
    typed = [
        flag(name)
        for name in context.params
        if name not in _BESIDE_A_FILE and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if typed:
        them = "it" if len(typed) == 1 else "them"
        raise ConfigurationError(
            f"{', '.join(typed)} beside --federation {str(file)!r}: the file and its data answer {them}: leave {them} "
            "out, or change the file"
        )


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


def _of_client(made: Guarantee, rounds: int, accountant: Accountant | None) -> tuple[dict[str, Any], TableRows]:
    """The guarantee at client level: the values of the JSON, and the rows of the table."""
    accountant = accountant or "exact"
    epsilon = made.epsilon(rounds, accountant)
    found = {
        "epsilon": epsilon,
        "delta": made.delta,
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
        ("delta", f"{made.delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{rounds:,}", "one release of every peer in each"),
        ("accountant", accountant, _MEANT[accountant]),
    ]
    return found, rows


def _of_sample(made: SampleGuarantee, rounds: int, accountant: Accountant | None) -> tuple[dict[str, Any], TableRows]:
    """The guarantee at sample level: the values of the JSON, and the rows of the table."""
    accountant = accountant or tightest(made.charges(rounds))
    epsilon, steps = made.epsilon(rounds, accountant), made.steps(rounds)
    found = {
        "epsilon": epsilon,
        "delta": made.delta,
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
    of_head = sum(phase.steps for phase in made.phases if phase.part == "head")
    others = made.steps(1) - of_head
    each = f"{others:,} local steps in each"
    if of_head:
        each = f"{of_head:,} local steps of the head and {others:,} of the body in each"
    rows = [
        ("epsilon", _short(epsilon), f"of one {made.unit}, against everyone"),
        *_noise_rows(made, "noise on a sum", "the sum"),
        ("sampling rate", f"{made.sampling_rate:g}", f"probability that a {made.unit} is in a step's batch"),
        ("delta", f"{made.delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{rounds:,}", each),
        ("steps", f"{steps:,}", "each is charged"),
        ("accountant", accountant, _MEANT[accountant]),
    ]
    return found, rows


def _noise_rows(made: Guarantee | SampleGuarantee, what: str, whole: str) -> TableRows:
    return [
        ("noise multiplier", _upwards(made.noise_multiplier), f"{what} / clip norm, rounded up"),
        ("noise std", _upwards(made.noise_std), f"on each coordinate of {whole}, clip norm {made.clip_norm:g}"),
    ]


def _survival(given: Mapping[str, Any], made: Guarantee | SampleGuarantee) -> tuple[dict[str, Any], str]:
    """Whether training can survive the noise: values of the JSON, and a sentence."""
    moved = "updates" if isinstance(made, Guarantee) else "gradients"
    ratio = made.noise_ratio(given["parameters"])
    left = made.noise_over_way(given["parameters"], given["size"], given["rounds"])
    compared = (
        f"the noise left in the average of {given['size']:,} bodies after {given['rounds']:,} rounds is {_short(left)} "
        f"times as long as the furthest way that clipped {moved} could go"
    )
    found = {"noise_norm_over_clip_norm": ratio, "noise_over_longest_way": left, "survives": left <= 1.0}
    if left <= 1.0:
        return found, f"Training may survive this: {compared}; well below 1 is what it needs."
    return found, f"Training cannot survive this: {compared}; {made.advice}."


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
