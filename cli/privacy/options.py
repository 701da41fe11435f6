"""The options of the commands of `dpeer privacy`; those that are settings of a run, too, are stated there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import click

from dpeer.cli.click_from_setting import F, flag, stated
from dpeer.exceptions import ConfigurationError
from dpeer.privacy.accounting import ACCOUNTANTS
from dpeer.privacy.settings import PrivacySettings

EXAMPLES = {"noise_multiplier": "5", "target_epsilon": "10", "rounds": "20", "size": "8", "parameters": "60000"}

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
    """Reads a whole number."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= _MOST):
            raise ConfigurationError(f"{option} {text!r}: write a whole number from {least} on, for example {example}")
        return int(text)

    return read


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "privacy": click.option(
        "--privacy", type=click.Choice(["client"]), default="client", show_default=True, expose_value=False,
        help="What is protected; client: a peer's whole data set.",
    ),
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
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default=True,
        help="exact: a closed form; pld and rdp: those of dp-accounting, to compare with.",
    ),
    "size": click.option(
        "--size", type=count("--size", 8), metavar="N",
        help="Number of peers, which are what is protected: for delta's default and limit.",
    ),
}  # fmt: skip


def privacy_options(*left_out: str) -> Callable[[F], F]:
    """All options of the group but these."""
    names = [name for name in _OPTIONS if name not in left_out]

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _OPTIONS[name](command)
        return command

    return decorate


def require(given: object, command: str, examples: Mapping[str, str], *names: str) -> None:
    """Refuse a missing value, with the whole command as it would be right.

    Args:
        given: Has the values as attributes, None where one is missing.
        command: Its name, with what always stands behind it.
        examples: A value for each name.
        names: What must be given; `a|b` means one of the two or both.

    Raises:
        ConfigurationError: Something is missing.
    """
    missing = [name for name in names if all(getattr(given, one) is None for one in name.split("|"))]
    if missing:
        flags = [" or ".join(flag(one) for one in sorted(name.split("|"))) for name in missing]
        firsts = [name.split("|")[-1] for name in names]
        whole = " ".join(f"{flag(name)} {examples[name]}" for name in firsts)
        raise ConfigurationError(f"{', '.join(flags)} must be given, for example dpeer privacy {command} {whole}")
