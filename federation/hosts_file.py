"""Hosts file of `dpeer init`: a line for each rank, with its address and the name of its site."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError
from dpeer.federation.addresses import check_address

DIALS_OUT = "-"
"""In place of an address: the rank only dials out."""

_WITH_PORT = re.compile(r"(\[[^\]]+\]|[^:]+):\d+")
_EXAMPLE = "expected HOST, HOST:PORT, a whole address, or - for a rank that only dials out; then the site's name"


@dataclass(frozen=True)
class Host:
    """The place of a rank.

    Attributes:
        address: Where its neighbors reach it; None where it only dials out.
        site: The name of its site; empty for none.
    """

    address: str | None
    site: str = ""


def read_hosts(path: Path, port: int) -> list[Host]:
    """The hosts of a file, by rank.

    Args:
        path: The file. Empty lines, and what follows a `#`, are left out.
        port: The port of a host without one; of several ranks on one host each takes the next.

    Raises:
        ConfigurationError: The file cannot be read, is empty, or a line has no address; names the line.
    """
    try:
        lines = read_text(path).splitlines()
    except OSError as error:
        raise ConfigurationError(f"--hosts {str(path)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--hosts {str(path)!r}: no text in UTF-8") from error
    found: list[tuple[str, str, str]] = []
    for number, line in enumerate(lines, 1):
        words = re.sub(r"(^|\s)#.*", "", line).split(maxsplit=1)
        if words:
            site = "".join(letter for letter in words[1].strip() if letter.isprintable()) if len(words) > 1 else ""
            found.append((f"line {number} of {path}", words[0], site))
    if len(found) < 2:
        raise ConfigurationError(f"--hosts {str(path)!r}: {len(found)} hosts: {_EXAMPLE}; a line for each rank")
    taken = {place for _, word, _ in found if _WITH_PORT.fullmatch(place := word.partition("://")[2] or word)}
    return [Host(_address(where, word, port, taken), site) for where, word, site in found]


def _address(where: str, word: str, port: int, taken: set[str]) -> str | None:
    if word == DIALS_OUT:
        return None
    address = word
    if "://" not in word:
        host = f"[{word}]" if _is_bare_ipv6(word) else word
        if not _WITH_PORT.fullmatch(host):
            while f"{host}:{port}" in taken:
                port += 1
            host = f"{host}:{port}"
            taken.add(host)
        address = f"tcp://{host}"
    try:
        check_address(address, where)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {word!r}: {error.__cause__ or _EXAMPLE}") from error
    return address


def _is_bare_ipv6(word: str) -> bool:
    try:
        return ipaddress.ip_address(word.partition("%")[0]).version == 6
    except ValueError:
        return False
