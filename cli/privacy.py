"""`dpeer privacy`: epsilon of given noise, or the noise for an epsilon, and whether training survives it."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from dpeer.cli.click_from_setting import flag, stated
from dpeer.cli.tables import filled, json_option, plain_table, print_table
from dpeer.exceptions import ConfigurationError
from dpeer.federation.starting import own_rank
from dpeer.privacy import Guarantee, SampleGuarantee, accounting
from dpeer.privacy.accounting import Accountant, Charge, tightest
from dpeer.privacy.guarantee import Head, check_delta, default_delta, phases_of
from dpeer.privacy.settings import PrivacySettings
from dpeer.results.files import finite

_EXAMPLES = {
    "client": "--target-epsilon 10 --rounds 20 --size 8 --parameters 60000",
    "sample": "--privacy sample --target-epsilon 8 --batch-size 100 --records 2000 --steps 20 --rounds 20 --size 8 "
    "--parameters 60000",
}

_SAMPLE_ONLY = ("batch_size", "records", "steps", "head_steps")
_MEANT = {"exact": "closed form", "pld": "privacy loss distributions", "rdp": "Renyi, an upper bound"}

_BESIDE_A_FILE = ("federation", "rank", "accountant", "as_json")
"""Options that may be given with --federation: the file answers all others."""

TableRows = list[tuple[str, str, str]]
"""Names, values and what they mean."""

_NUMBER = click.FloatRange(1e-6, 1e6)
_count = partial(click.option, type=click.IntRange(1, 10**9))


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
@_count("--rounds", metavar="T", help="Rounds, with one release of every peer in each.")
@stated(PrivacySettings, "delta", type=click.FloatRange(1e-300, 0.5), metavar="D")
@stated(PrivacySettings, "clip_norm", type=_NUMBER, metavar="C")
@_count(
    "--size",
    metavar="N",
    help="Number of peers, for whether training survives; client: also for delta's default and limit.",
)
@_count(
    "--parameters", metavar="P", help="Parameters of the body, those that are shared, for whether training survives."
)
@_count(
    "--batch-size",
    metavar="B",
    help="Sample: records in a step's batch, on average; over --records it is the chance q of each to be in it.",
)
@_count(
    "--records", metavar="N", help="Sample: about how many records (or groups) a peer trains with; others may know it."
)
@_count(
    "--steps", metavar="K", help="Sample: local steps of a peer in a round, with --dp-head alternate those of the body."
)
@_count("--head-steps", metavar="K", help="Sample: steps of the head in a round besides, with --dp-head alternate.")
@click.option(
    "--accountant",
    type=click.Choice(["tight", "rdp"]),
    default="tight",
    help="tight: a closed form, or with sampling privacy loss distributions; rdp: Renyi, an upper bound.",
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
    accountant: Accountant = given["accountant"]
    if federation is not None:
        _check_answered(federation)
        from dpeer.federation.trial_build import planned_privacy  # torch, which takes a second

        number = own_rank(rank or "0")
        session, parameters, promises = planned_privacy(federation, number)
        made, lines = session.guarantee, ["A start will say:", *promises]
        found, rows, _ = _described(made, session.rounds, session.size, parameters, accountant)
        found |= {"rank": number, "promises": promises}
        rows.append(("peers", f"{session.size:,}", "as the federation file has them"))
        rows.append(("parameters", f"{parameters:,}", "that get noise at once"))
    elif rank is not None:
        raise ConfigurationError(f"--rank {rank}: it belongs to --federation FILE: add that, or leave --rank out")
    else:
        made, lines = _of_flags(given)
        found, rows, survival = _described(made, given["rounds"], given["size"], given["parameters"], accountant)
        lines[1:1] = survival
    if as_json:
        click.echo(json.dumps(finite(found), allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(f"Protected: {made.words}.")
    print_table(filled(plain_table(show_header=False), {"what": "left", "value": "right", "meaning": "words"}, rows))
    for line in lines:
        console.print(line, markup=False)


def _of_flags(given: dict[str, Any]) -> tuple[Guarantee | SampleGuarantee, list[str]]:
    """The guarantee that was typed, and sentences about it."""
    _check(given)
    sample, rounds, target = given["privacy"] == "sample", given["rounds"], given["target_epsilon"]
    units = given["records" if sample else "size"]
    delta = default_delta(units or 1) if given["delta"] is None else given["delta"]
    warning = None if units is None else check_delta(delta, units, "record" if sample else "peer")
    noise, clip, accountant = given["noise_multiplier"] or 1.0, given["clip_norm"], given["accountant"]
    made: Guarantee | SampleGuarantee = Guarantee(noise, clip, delta)
    if sample:
        rate, phases = min(1.0, given["batch_size"] / units), phases_of(given["steps"], given["head_steps"] or 0)
        head: Head = "alternate" if given["head_steps"] else "joint"
        made = SampleGuarantee(noise, clip, delta, rate, phases, head, units=units)
    if target is not None:
        made = made.calibrated(target, rounds, accountant)
    line = "One record is protected, not one patient: --privacy-unit group of a run protects all records of a patient."
    if not sample:
        as_in_papers = accounting.total_epsilon([Charge(1.0, made.noise_multiplier, rounds)], delta, accountant)
        line = (
            "Papers that count sensitivity C (an update beside none) state epsilon "
            f"{_short(as_in_papers)} for this noise."
        )
    return made, [line] if warning is None else [line, warning]


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


def _described(
    made: Guarantee | SampleGuarantee,
    rounds: int,
    size: int | None,
    parameters: int | None,
    accountant: Accountant,
) -> tuple[dict[str, Any], TableRows, list[str]]:
    """What is promised: the values of the JSON, the rows of the table, and a sentence on whether training survives."""
    epsilon = made.epsilon(rounds, accountant)
    method = "rdp" if accountant == "rdp" else tightest(made.charges(rounds))
    found: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": made.delta,
        "noise_multiplier": made.noise_multiplier,
        "noise_std": made.noise_std,
        "rounds": rounds,
        "accountant": method,
    }
    noise, whole, moved = "noise that protects", "a message", "updates"
    protects = "against a neighbor, which sees every message"
    drawn: TableRows = []
    each: TableRows = [("rounds", f"{rounds:,}", "one release of every peer in each")]
    if isinstance(made, SampleGuarantee):
        noise, whole, moved = "noise on a sum", "the sum", "gradients"
        protects = f"of one {made.unit}, against everyone"
        steps = made.steps(rounds)
        found |= {"mode": "sample", "adversary": "everyone", "adjacency": "add-or-remove", "dp_head": made.head}
        found |= {"sampling_rate": made.sampling_rate, "steps": steps, "unit": made.unit}
        found |= {"batch_size": made.divisor, "records": made.units}
        of_head = sum(phase.steps for phase in made.phases if phase.part == "head")
        local = f"{made.steps(1) - of_head:,} local steps in each"
        if of_head:
            local = f"{of_head:,} local steps of the head and {made.steps(1) - of_head:,} of the body in each"
        drawn = [
            ("batch size", f"{made.divisor:g}", f"{made.unit}s in a step's batch, on average"),
            ("records", f"{made.units:,}", f"{made.unit}s of a peer, about: others may know it"),
            ("sampling rate", f"{made.sampling_rate:g}", f"probability that a {made.unit} is in a step's batch"),
        ]
        each = [("rounds", f"{rounds:,}", local), ("steps", f"{steps:,}", "each is charged")]
    else:
        found |= {"mode": "client", "adversary": "neighbor", "adjacency": "replace"}
    rows = [
        ("epsilon", _short(epsilon), protects),
        ("noise multiplier", _upwards(made.noise_multiplier), f"{noise} / clip norm, rounded up"),
        ("noise std", _upwards(made.noise_std), f"on each coordinate of {whole}, clip norm {made.clip_norm:g}"),
        *drawn,
        ("delta", f"{made.delta:g}", "probability that epsilon does not hold"),
        *each,
        ("accountant", method, _MEANT[method]),
    ]
    if size is None or parameters is None:
        return found, rows, []
    ratio, left = made.noise_ratio(parameters), made.noise_over_way(parameters, size, rounds)
    found |= {"size": size, "parameters": parameters}
    found |= {"noise_norm_over_clip_norm": ratio, "noise_over_longest_way": left, "survives": left <= 1.0}
    compared = (
        f"the noise left in the average of {size:,} bodies after {rounds:,} rounds is {_short(left)} times as long as "
        f"the furthest way that clipped {moved} could go"
    )
    if left <= 1.0:
        return found, rows, [f"Training may survive this: {compared}; well below 1 is what it needs."]
    return found, rows, [f"Training cannot survive this: {compared}; {made.advice}."]


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
    up = accounting.round_up(value * (1.0 - 1e-12), 5)
    return f"{up:.5g}" if up < 1e5 else f"{up:.0f}"
