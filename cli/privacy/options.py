"""The options of the commands of `dpeer privacy`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import click

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import planning
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant
from dpeer.privacy.guarantee import Adjacency, Adversary, Guarantee, check_delta, default_delta, uniform_share
from dpeer.privacy.soundness import check_adversary

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = {"noise_multiplier": "5", "target_epsilon": "10", "rounds": "20", "size": "8", "parameters": "60000"}

DELTA = 1e-5
"""The delta where no --size is given: right for up to 10,000 peers. With --size it is `default_delta`."""

_MOST = 10**12


def number(option: str, example: str, least: float = 1e-6, most: float = 1e12) -> Callable[[str], float]:
    """A parser of numbers above 0 and within these bounds, beyond which they must be slips of the keyboard."""

    def read(text: str) -> float:
        try:
            value = float(text)
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


_OPTIONS = {
    "privacy": click.option(
        "--privacy", type=click.Choice(["client"]), default="client", show_default=True,
        help="What is protected; client: a peer's whole data set.",
    ),
    "noise_multiplier": click.option(
        "--noise-multiplier", type=number("--noise-multiplier", "5"), metavar="SIGMA",
        help="Noise standard deviation over clip norm, whatever the adjacency.",
    ),
    "target_epsilon": click.option(
        "--target-epsilon", type=number("--target-epsilon", "10"), metavar="EPS", help="Epsilon after all rounds."
    ),
    "rounds": click.option(
        "--rounds", type=count("--rounds", 20), metavar="T", help="Rounds, with one release of every peer in each."
    ),
    "delta": click.option(
        "--delta", type=number("--delta", "1e-5", 1e-300, 0.5), metavar="D",
        help="The probability that epsilon does not hold.  [default: 1e-5; 1 / (10 N) above 10,000 peers or records]",
    ),
    "clip_norm": click.option(
        "--clip-norm", type=number("--clip-norm", "1"), metavar="C", default="1", show_default=True,
        help="The largest L2 norm of an update.",
    ),
    "dp_adversary": click.option(
        "--dp-adversary", type=click.Choice(get_args(Adversary)), default="neighbor", show_default=True,
        help="neighbor sees every message; aggregate is an outsider that sees averages only.",
    ),
    "dp_adjacency": click.option(
        "--dp-adjacency", type=click.Choice(get_args(Adjacency)), default="replace", show_default=True,
        help="A peer's data set against any other, or against sending a zero update.",
    ),
    "dp_min_honest": click.option(
        "--dp-min-honest", type=count("--dp-min-honest", 16, least=2), metavar="M",
        help="Honest peers, equally weighted, in every average that an outsider sees; for --dp-adversary aggregate.",
    ),
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default=True,
        help="exact: closed form; pld, rdp: those of dp-accounting, to compare.",
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


@dataclass(frozen=True)
class Asked:
    """The values of the options as they were typed."""

    dp_adversary: Adversary
    dp_adjacency: Adjacency
    accountant: Accountant
    privacy: Literal["client"] = "client"
    clip_norm: float = 1.0
    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    rounds: int | None = None
    delta: float | None = None
    dp_min_honest: int | None = None
    size: int | None = None
    parameters: int | None = None

    def require(self, command: str, *names: str) -> None:
        """Refuse a missing value, with the whole command as it would be right.

        Args:
            command: Its name.
            names: What must be given; `a|b` means one of the two or both.

        Raises:
            ConfigurationError: Something is missing.
        """
        require(self, command, EXAMPLES, *names)

    @property
    def releases(self) -> int:
        """The number of planned releases: one in each round."""
        assert self.rounds is not None
        return self.rounds

    @property
    def chosen_delta(self) -> float:
        """The delta that was given, else the default for this size."""
        if self.delta is not None:
            return self.delta
        return DELTA if self.size is None else default_delta(self.size)

    def warnings(self) -> list[str]:
        """Warnings about the delta.

        Raises:
            ConfigurationError: It is too large to mean anything.
        """
        warning = None if self.size is None else check_delta(self.chosen_delta, self.size)
        return [] if warning is None else [warning]

    def guarantee(self) -> Guarantee:
        """The guarantee with the noise multiplier that was given, else with the least noise for the target epsilon.

        Raises:
            ConfigurationError: The options contradict each other.
        """
        share = self._share()
        multiplier = 1.0 if self.noise_multiplier is None else self.noise_multiplier
        asked = Guarantee(multiplier, self.clip_norm, self.chosen_delta, self.dp_adversary, self.dp_adjacency, share)
        if self.noise_multiplier is not None:
            return asked
        assert self.target_epsilon is not None
        return planning.calibrated(asked, self.target_epsilon, self.releases, self.accountant)

    def _share(self) -> float:
        check_adversary(self.dp_adversary, self.dp_min_honest)
        if self.dp_min_honest is None:
            return 1.0
        if self.size is not None and self.dp_min_honest > self.size:
            raise ConfigurationError(
                f"--dp-min-honest {self.dp_min_honest}: there are {self.size} peers (--size): choose at most that"
            )
        return uniform_share(self.dp_min_honest)


def require(given: object, command: str, examples: Mapping[str, str], *names: str) -> None:
    """Refuse a missing value, with the whole command as it would be right.

    Args:
        given: Has the values as attributes, None where one is missing.
        command: Its name, with what always stands behind it.
        examples: A value for each name.
        names: As in `Asked.require`.

    Raises:
        ConfigurationError: Something is missing.
    """
    missing = [name for name in names if all(getattr(given, one) is None for one in name.split("|"))]
    if missing:
        flags = [" or ".join(flag(one) for one in sorted(name.split("|"))) for name in missing]
        firsts = [name.split("|")[-1] for name in names]
        whole = " ".join(f"{flag(name)} {examples[name]}" for name in firsts)
        raise ConfigurationError(f"{', '.join(flags)} must be given, for example dpeer privacy {command} {whole}")


def flag(name: str) -> str:
    """An option as it is typed, from its name in Python."""
    return f"--{name.replace('_', '-')}"
