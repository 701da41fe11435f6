"""Error messages of operators' keys."""

from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.federation.operators import check_operators, write_operator
from dpeer.federation.settings import Settings
from tests.messages.message import Message

ONE, TWO = "ab" * 32, "cd" * 32


def operators(*keys: Any, **more: Any) -> Any:
    return lambda _: check_operators(Settings(operators=list(keys), **more))


def twice(folder: Path) -> None:
    write_operator(folder)
    write_operator(folder)


MESSAGES = {
    "no key": Message(
        operators(ONE, "ab"), ConfigurationError,
        "operators.1 = 'ab': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them",
    ),
    "capital letters": Message(
        operators(ONE.upper()), ConfigurationError,
        f"operators.0 = '{ONE.upper()}': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them",
    ),
    "an operator twice": Message(
        operators(ONE, TWO, ONE), ConfigurationError, f"operators.2 = '{ONE}' stands twice: list each operator once"
    ),
    "more signers than operators": Message(
        operators(ONE, signers=2), ConfigurationError,
        "signers = 2: the federation file lists 1 operators: list as many keys, or ask for fewer signers",
    ),
    "signers without operators": Message(
        lambda _: check_operators(Settings(signers=2)), ConfigurationError,
        "signers = 2: the federation file lists 0 operators: list as many keys, or ask for fewer signers",
    ),
    "operators of a run without a name": Message(
        operators(ONE), ConfigurationError,
        'operators: give the run a name of its own, too, such as name = "ward-study-1"',
    ),
    "a long name of a run": Message(
        lambda _: Settings(name="a" * 65), ConfigurationError,
        "name = '…': expected 1 to 64 printable characters, such as ward-study-1",
    ),
    "many operators": Message(
        operators(*(f"{number:064x}" for number in range(65))), ConfigurationError, "operators: 65 keys, at most 64"
    ),
    "an operator's secret that exists": Message(
        twice, ConfigurationError,
        "--out '{folder}': {folder}/operator.secret exists: a secret is never overwritten; remove it first if nothing "
        "uses it any more",
    ),
}  # fmt: skip
