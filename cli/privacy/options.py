"""Options of the `dpeer privacy` commands by level (client, sample), and the plan that they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from dpeer.cli.click_from_setting import F, flag, stated
from dpeer.exceptions import ConfigurationError
from dpeer.privacy.accounting import ACCOUNTANTS
from dpeer.privacy.plan import ClientPlan, SamplePlan
from dpeer.privacy.settings import CLIENT_ONLY, SAMPLE_ONLY, PrivacySettings

Option = Callable[[Any], Any]

_OF_CLIENT = {"noise_multiplier": "5", "target_epsilon": "10", "rounds": "20", "size": "8", "parameters": "60000"}
_OF_SAMPLE = {
    "noise_multiplier": "1", "target_epsilon": "8", "sampling_rate": "0.05", "steps": "20", "rounds": "20",
    "records": "2000", "size": "8", "parameters": "60000",
}  # fmt: skip
"""By level the values of an error's example."""

_MOST = 10**12


def number(option: str, example: str, least: float = 1e-6, most: float = 1e12) -> Callable[[str], float]:
    """A parser of numbers above 0 and within these bounds, beyond which they must be slips of the keyboard."""

    def read(text: str) -> float:
        try:
            value = float(text) if str(text).isascii() and "_" not in str(text) else math.nan
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ConfigurationError(
                f"{option} {text!r}: write a number from {least:g} to {most:g}, for example {example}"
            )
        return value

    return read


def count(option: str, example: int, least: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= _MOST):
            raise ConfigurationError(f"{option} {text!r}: write a whole number from {least} on, for example {example}")
        return int(text)

    return read


_SHARED: dict[str, Option] = {
    "noise_multiplier": stated(
        PrivacySettings, "noise_multiplier", type=number("--noise-multiplier", "5"), metavar="SIGMA"
    ),
    "target_epsilon": stated(PrivacySettings, "target_epsilon", type=number("--target-epsilon", "10"), metavar="EPS"),
    "rounds": click.option(
        "--rounds", type=count("--rounds", 20), metavar="T", help="Rounds, with one release of every peer in each."
    ),
    "delta": stated(PrivacySettings, "delta", type=number("--delta", "1e-5", 1e-300, 0.5), metavar="D"),
    "clip_norm": stated(PrivacySettings, "clip_norm", type=number("--clip-norm", "1"), metavar="C"),
    "dp_adversary": stated(PrivacySettings, "dp_adversary"),
    "dp_adjacency": stated(PrivacySettings, "dp_adjacency"),
    "dp_min_honest": stated(PrivacySettings, "dp_min_honest", type=count("--dp-min-honest", 16, least=2), metavar="M"),
}

_CLIENT: dict[str, Option] = {
    "privacy": click.option(
        "--privacy", type=click.Choice(["client"]), default="client", show_default=True, expose_value=False,
        help="What is protected; client: a peer's whole data set.",
    ),
    **_SHARED,
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default=True,
        help="exact: a closed form; pld and rdp: those of dp-accounting, to compare with.",
    ),
}  # fmt: skip
"""Options of a command that knows client level alone."""

_BOTH: dict[str, Option] = {
    "privacy": click.option(
        "--privacy", type=click.Choice(["client", "sample"]), default="client", show_default=True,
        help="What is protected; client: a peer's whole data set; sample: one record.",
    ),
    **_SHARED,
    "size": click.option(
        "--size", type=count("--size", 8), metavar="N",
        help="Number of peers, which are what is protected: for delta's default and limit.",
    ),
    "sampling_rate": stated(
        PrivacySettings, "sampling_rate", planned=True, type=number("--sampling-rate", "0.05", 1e-9, 1.0), metavar="Q"
    ),
    "steps": click.option(
        "--steps", type=count("--steps", 20), metavar="K",
        help="Sample: local steps of a peer in a round, with --dp-head alternate those of the body.",
    ),
    "dp_head": stated(PrivacySettings, "dp_head"),
    "head_steps": click.option(
        "--head-steps", type=count("--head-steps", 5), metavar="K",
        help="Sample: local steps of the head in a round; for --dp-head alternate.",
    ),
    "records": stated(PrivacySettings, "records", planned=True, type=count("--records", 2000), metavar="N"),
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default="exact; pld for sample",
        help="exact: a closed form, without sampling; pld: privacy loss distributions, with sampling; rdp: Renyi, an "
        "upper bound.",
    ),
}  # fmt: skip
"""Options of a command that knows both levels."""

patient_option = click.option(
    "--patient-records", type=count("--patient-records", 10), metavar="M",
    help="Sample: print the epsilon of a patient (or of any group) with M records, too.",
)  # fmt: skip

_SAMPLE_ONLY = (*SAMPLE_ONLY, "steps", "head_steps", "patient_records")
_CLIENT_ONLY = (*CLIENT_ONLY, "size")


def client_options(command: F) -> F:
    """The options of a command that knows client level alone."""
    return _with(command, _CLIENT.values())


def options_of_both(*left_out: str) -> Callable[[F], F]:
    """The options of a command that knows both levels, but these."""
    return lambda command: _with(command, [option for name, option in _BOTH.items() if name not in left_out])


def _with(command: F, options: Iterable[Option]) -> F:
    for option in reversed([*options]):
        command = option(command)
    return command


def planned(options: Mapping[str, Any], *both: str) -> ClientPlan | SamplePlan:
    """The plan of a command's values, at the level of privacy that was asked for.

    Args:
        options: All values of the command that is running.
        both: Options that this command has for both levels.

    Raises:
        ConfigurationError: An option was given that belongs to the other level only.
    """
    private = options["privacy"]
    others = [name for name in (_SAMPLE_ONLY if private == "client" else _CLIENT_ONLY) if name in options]
    others = [name for name in others if name not in both]
    for name in filter(_typed, others):
        _refuse(name, options[name], private)
    kept = {name: value for name, value in options.items() if name not in (*others, "privacy")}
    if private == "client":
        return ClientPlan(**kept)
    if not _typed("accountant"):
        kept.pop("accountant", None)
    return SamplePlan(**kept)


def require(
    plan: ClientPlan | SamplePlan, command: str, *names: str, examples: Mapping[str, str] | None = None
) -> None:
    """Refuse a plan that lacks a value, with the whole command as it would be right.

    Args:
        plan: None where a value is missing. At sample level sampling rate, steps and rounds are needed besides `names`.
        command: Its name.
        names: What must be given; `a|b` means one of the two or both.
        examples: A value for each name, in place of the usual ones.

    Raises:
        ConfigurationError: Something is missing.
    """
    usual = _OF_CLIENT
    if isinstance(plan, SamplePlan):
        command, usual = f"{command} --privacy sample", _OF_SAMPLE
        names = *(name for name in names if name != "rounds"), "sampling_rate", "steps", "rounds"
    missing = [name for name in names if all(getattr(plan, one) is None for one in name.split("|"))]
    if missing:
        flags = [" or ".join(flag(one) for one in sorted(name.split("|"))) for name in missing]
        firsts = [name.split("|")[-1] for name in names]
        whole = " ".join(f"{flag(name)} {(examples or usual)[name]}" for name in firsts)
        raise ConfigurationError(f"{', '.join(flags)} must be given, for example dpeer privacy {command} {whole}")


def _refuse(name: str, value: Any, private: str) -> None:
    option = f"{flag(name)} {value}"
    if private == "client":
        raise ConfigurationError(
            f"{option}: it belongs to --privacy sample, which protects one record: add --privacy sample"
        )
    if name == "size":
        raise ConfigurationError(
            f"{option}: with --privacy sample records are protected, not peers: give their number, for example "
            "--records 2000"
        )
    raise ConfigurationError(
        f"{option}: it belongs to --privacy client; for one record adversary and adjacency are fixed: leave it out"
    )


def _typed(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)
