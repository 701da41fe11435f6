"""Operators: their secret keys, and the public ones that a federation file lists."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.exceptions import ConfigurationError
from dpeer.federation.keys import read_secret, write_key
from dpeer.federation.run_settings import OperatorSettings
from dpeer.peer.core.member_list import Signers

FILE = "operator.secret"
"""The name of an operator's secret file."""

_KEY_BYTES = 32

_MOST = 64
"""The most operators of a federation: each signature takes a tenth of a millisecond to check."""


def write_operator(folder: Path) -> tuple[Path, str]:
    """Make an operator's secret key; returns its file and its public key, hexadecimal.

    Raises:
        ConfigurationError: The file exists and is left as it is, or it cannot be written.
    """
    secret = Ed25519PrivateKey.generate()
    words = (
        "The secret key of an operator of a dpeer federation:\n# keep it off the hosts that train, and never send it."
    )
    return write_key(folder / FILE, words, secret.private_bytes_raw()), secret.public_key().public_bytes_raw().hex()


def read_operator(path: Path, operators: Collection[str] | None) -> Ed25519PrivateKey:
    """An operator's secret key.

    Args:
        path: Its file.
        operators: The public keys of the federation's operators; None where they are unknown.

    Raises:
        ConfigurationError: It cannot be read, others can read its file, or the federation file does not list it.
    """
    secret = Ed25519PrivateKey.from_private_bytes(read_secret(path))
    public = secret.public_key().public_bytes_raw().hex()
    if operators is not None and public not in operators:
        listed = ", ".join(f"{one[:16]}…" for one in operators) or "none"
        raise ConfigurationError(
            f"--operator {str(path)!r}: the federation file does not list its public key {public[:16]}…; `operators` "
            f"has {listed}"
        )
    return secret


def signers_of(settings: OperatorSettings) -> Signers:
    """The operators who sign member lists.

    Raises:
        ConfigurationError: The federation file lists none.
    """
    if not settings.operators:
        raise ConfigurationError(
            "no `operators` stand in the federation file, and without one no member list can be signed: dpeer init "
            "--operator, or dpeer keygen --operator, before the start"
        )
    return Signers(tuple(settings.operators), settings.signers)


def check_operators(settings: OperatorSettings) -> None:
    """Refuse operators that a federation file cannot list.

    Raises:
        ConfigurationError: One is no key, stands twice, fewer are listed than must sign, or the run has no name.
    """
    listed, signers = settings.operators or [], settings.signers
    for number, key in enumerate(listed):
        if not _is_key(key):
            raise ConfigurationError(
                f"operators.{number} = {key!r}: expected {2 * _KEY_BYTES} hexadecimal digits, as `dpeer keygen "
                "--operator` prints them"
            )
        if key in listed[:number]:
            raise ConfigurationError(f"operators.{number} = {key!r} stands twice: list each operator once")
    if len(listed) > _MOST:
        raise ConfigurationError(f"operators: {len(listed)} keys, at most {_MOST}")
    if signers > len(listed) and (listed or signers > 1):
        raise ConfigurationError(
            f"signers = {signers}: the federation file lists {len(listed)} operators: list as many keys, or ask for "
            "fewer signers"
        )
    if listed and settings.name is None:
        raise ConfigurationError('operators: give the run a name of its own, too, such as name = "ward-study-1"')


def _is_key(text: str) -> bool:
    return len(text) == 2 * _KEY_BYTES and not set(text) - set("0123456789abcdef")
