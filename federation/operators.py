"""Operators: the secret keys that sign changes of a federation, and the public ones that its file lists."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.exceptions import ConfigurationError
from dpeer.federation.keys import read_secret, write_key
from dpeer.federation.run_settings import MembershipSettings
from dpeer.peer.core.epoch import operator_of
from dpeer.peer.core.limits import MOST_OPERATORS

FILE = "operator.secret"
"""The name of an operator's secret file."""

_KEY_BYTES = 32

CANNOT_CHANGE = (
    "this federation cannot change: its file lists no operator's key, so members and rounds stay as they are "
    "(dpeer keygen --operator)"
)
"""What is so of a federation without operators."""


def changes(operators: int, signers: int) -> str:
    """The line at the start on who may change the federation."""
    if not operators:
        return CANNOT_CHANGE
    several = "any operator" if signers == 1 else f"{signers} of {operators} operators"
    who = "its operator" if operators == 1 else several
    return f"this federation can change: {who} may let members join and leave, and extend it"


def new_operator() -> bytes:
    """A new secret key of an operator, of 32 random bytes."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def write_operator(folder: Path) -> tuple[Path, str]:
    """Make an operator's secret key; returns its file and its public key, hexadecimal.

    Raises:
        ConfigurationError: The file exists and is left as it is, or it cannot be written.
    """
    secret = new_operator()
    words = (
        "The secret key of an operator of a dpeer federation. Its holder changes members and rounds:\n"
        "# keep it off the hosts that train, and never send it."
    )
    return write_key(folder / FILE, words, secret), operator_of(secret)


def read_operator(path: Path, operators: tuple[str, ...] | None = None) -> bytes:
    """An operator's secret key.

    Args:
        path: Its file.
        operators: The public keys of a federation's operators, of which it must be one; None where unknown.

    Raises:
        ConfigurationError: It cannot be read, others can read its file, or it is no operator's.
    """
    secret = read_secret(path)
    if operators is not None and operator_of(secret) not in operators:
        listed = ", ".join(f"{one[:16]}…" for one in operators)
        raise ConfigurationError(
            f"--operator {str(path)!r}: its public key {operator_of(secret)[:16]}… is not among the federation's "
            f"operators: {listed}"
        )
    return secret


def check_operators(settings: MembershipSettings) -> tuple[str, ...]:
    """The operators' public keys that the federation file lists; empty without any.

    Raises:
        ConfigurationError: One is no key, stands twice, fewer are listed than must sign, or the run has no name.
    """
    listed = settings.operators or []
    check_keys(listed, settings.signers, "signers =", "the federation file lists")
    if listed and settings.name is None:
        raise ConfigurationError('operators: give the run a name of its own, too, such as name = "ward-study-1"')
    return tuple(listed)


def check_keys(listed: list[str], signers: int, name: str, where: str) -> None:
    """Refuse public keys of operators that are none.

    Args:
        listed: The keys.
        signers: How many of them must sign.
        name: The name of that setting, for the error.
        where: Where the keys stand, for the error.

    Raises:
        ConfigurationError: One is no key, stands twice, or fewer are listed than must sign.
    """
    for number, key in enumerate(listed):
        if not _is_key(key):
            raise ConfigurationError(
                f"operators.{number} = {key!r}: expected {2 * _KEY_BYTES} hexadecimal digits, as `dpeer keygen "
                "--operator` prints them"
            )
        if key in listed[:number]:
            raise ConfigurationError(f"operators.{number} = {key!r} stands twice: list each operator once")
    if len(listed) > MOST_OPERATORS:
        raise ConfigurationError(f"operators: {len(listed)} keys, at most {MOST_OPERATORS}")
    if signers > len(listed) and (listed or signers > 1):
        raise ConfigurationError(
            f"{name} {signers}: {where} {len(listed)} operators: list as many keys, or ask for fewer signers"
        )


def _is_key(text: str) -> bool:
    return len(text) == 2 * _KEY_BYTES and not set(text) - set("0123456789abcdef")
