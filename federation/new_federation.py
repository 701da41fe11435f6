"""A new federation for `dpeer init`: hosts file and settings, checked as a start does, then its files and keys."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError, OutputError, not_written
from dpeer.federation.addresses import addresses, all_on_this_host, check_address
from dpeer.federation.config import BESIDE_FILE, DEFAULT_FILE, from_flags, resolve
from dpeer.federation.keys import (
    OPERATOR_FILE,
    keyrings,
    secret_file,
    write_operator,
    write_secret,
)
from dpeer.federation.policy import check_graph
from dpeer.federation.settings import Settings
from dpeer.peer.peer import dialled
from dpeer.sections import in_words
from dpeer.toml_text import comment, value_text
from dpeer.topology.mixing_matrix import DECLARED
from dpeer.topology.settings import build_graph
from dpeer.training.data.tables.schema import read_schema

KEYS = "keys"
"""Folder of secrets, below the federation's."""

_TO_BE_MADE = "0" * 64
"""In place of an operator's public key while the others are checked."""

_WAIT = "7d"
"""How long peers on several hosts wait for each other, unless the user states it."""

DIALS_OUT = "-"
"""In place of an address: the rank only dials out."""

_WITH_PORT = re.compile(r"(\[[^\]]+\]|[^:]+):\d+")
_EXAMPLE = "expected HOST, HOST:PORT, a whole address, or - for a rank that only dials out; then the site's name"


@dataclass(frozen=True)
class Site:
    """A rank of a new federation.

    Attributes:
        address: Where its neighbors reach it; None where it only dials out, or all are on one host.
        site: The name of its site; empty for none.
        weight: What it brings, where weights are declared.
    """

    address: str | None
    site: str = ""
    weight: float | None = None


def read_hosts(path: Path, port: int) -> list[Site]:
    """The ranks of a file, in their order.

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
    return [Site(_address(where, word, port, taken), site) for where, word, site in found]


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


_LISTED = {
    "The federation: equal at all sites": ("name", "size", "topology", "weights", "algorithm", "rounds", "seed"),
    "Data and model": ("task", "task_options", "schema"),
    "Privacy: equal at all sites (docs/privacy.md)": ("privacy", "target_epsilon"),
    "Sites that come and go (docs/running.md)": ("wait", "quorum", "deadline"),
    "Operators: equal at all sites (docs/security.md)": ("operators", "signers"),
    "Each host: may stand in [rank.N], too": ("out", "device"),
}
"""By heading, the settings that a new file has, given or not."""

_EXAMPLES: Mapping[str, Any] = {
    "name": "ward-study-1",
    "task_options": {"path": "site-{rank}.csv", "target": "outcome"},
    "schema": "schema.toml",
    "target_epsilon": 8.0,
    "deadline": "auto",
    "operators": ["0123456789abcdef" * 4],
}
"""Of settings whose default is none, what they look like."""

_BESIDES = {
    "task_options": 'Options of the task. With task = "csv" each site has a table of its own; {rank} is its number.',
    "wait": "How long a peer waits for the others, before the first round and while it is cut off: seconds, 2h, 7d.",
}
"""Words in place of a setting's own, where a whole federation's file needs others."""

_HEAD = """\
# Federation file: every site has the same one, and starts its own rank in this file's folder, here rank 3:
#
#     dpeer check --rank 3     # whether this host can take part, and what a round will take
#     dpeer start --rank 3
#     dpeer start --rank 3 --resume-or-start     # in a service, which begins it again after a reboot
#
# A line such as #rounds = 20 is a default, or an example: without the # it counts. `dpeer start --help` has them all.
"""


def federation_file(
    values: Mapping[str, Any],
    sites: Sequence[Site],
    public: Mapping[int, str],
    *,
    apart: bool,
    bind_all: bool = False,
) -> str:
    """The text of the file; `public` has the ranks' keys (hexadecimal), unless the sites make their own."""
    values = {"size": len(sites), **values}
    lines = _HEAD.splitlines()
    listed = {name for names in _LISTED.values() for name in names}
    others = tuple(name for name in values if name not in listed)
    for heading, names in {**_LISTED, **({"Further settings": others} if others else {})}.items():
        lines += ["", f"# -- {heading} {'-' * (112 - len(heading))}", ""]
        for name in names:
            lines += _setting(name, values)
    lines += ["", f"# -- The ranks: address, public key, and what is a site's own {'-' * 55}", "", *_about_ranks(apart)]
    for rank, one in enumerate(sites):
        lines += ["", *_table(rank, one, public.get(rank), apart=apart, bind_all=bind_all)]
    return "\n".join(lines) + "\n"


def _setting(name: str, values: Mapping[str, Any]) -> list[str]:
    field = Settings.model_fields[name]
    words = comment(_BESIDES.get(name) or in_words(field))
    if name in values:
        return [*words, f"{name} = {value_text(values[name])}"]
    default = _EXAMPLES.get(name, field.default)
    return [*words, f"#{name} = {value_text(default)}"]


def _about_ranks(apart: bool) -> list[str]:
    if apart:
        return comment(
            "Of two neighbors at least one has an address. A host whose own address differs from it (a router, a "
            'container) sets bind = "tcp://*:PORT" beside it. With keys no other host gets in (docs/security.md).'
        )
    return comment("Without addresses all peers run on one host, and rank R listens at port 7700 + R.")


def _table(rank: int, one: Site, key: str | None, *, apart: bool, bind_all: bool) -> list[str]:
    secret = f"{KEYS}/{secret_file(rank)}"
    lines = [*comment(one.site)] if one.site else []
    lines.append(f"[rank.{rank}]")
    if one.weight is not None:
        lines.append(f"weight = {value_text(one.weight)}")
    if one.address is not None:
        lines.append(f"address = {value_text(one.address)}")
        if bind_all and one.address.startswith("tcp://"):
            lines.append(f"bind = {value_text('tcp://*:' + one.address.rpartition(':')[2])}")
    if key is None:
        lines += [f'#key = "64 digits, as `dpeer keygen --rank {rank} --out {KEYS}` prints them"']
        # Between hosts no peer starts before the keys are there, and then each needs its secret.
        lines += [f"{'' if apart else '#'}secret = {value_text(secret)}"]
    else:
        lines += [f"key = {value_text(key)}", f"secret = {value_text(secret)}"]
    return lines


@dataclass(frozen=True)
class NewFederation:
    """What is to be written.

    Attributes:
        values: The settings that the federation file states, plain; paths count from its folder.
        settings: The same, validated, with the address of each rank and keys for it.
        sites: The ranks.
        schema: The schema of the tables, of which a copy goes beside the federation file; None for none.
        apart: Whether ranks are on several hosts.
    """

    values: Mapping[str, Any]
    settings: Settings
    sites: tuple[Site, ...]
    schema: Path | None
    apart: bool


def plan(flags: Mapping[str, Any], hosts: Sequence[Site] | None, folder: Path, *, operator: bool) -> NewFederation:
    """Check the settings of a new federation.

    Args:
        flags: The settings that were given, by name; None means not given.
        hosts: Where the ranks are; None for all on this host.
        folder: Where the federation file will be.
        operator: Whether an operator's key will be made.

    Raises:
        ConfigurationError: No peer could be started with them; names the setting.
    """
    values = {name: value for name, value in flags.items() if value is not None and value != {}}
    if hosts is not None and values.setdefault("size", len(hosts)) != len(hosts):
        raise ConfigurationError(f"--size {values['size']}: --hosts has {len(hosts)} ranks: leave --size out")
    listed = [one.strip() for one in values.pop("operators", "").split(",") if one.strip()]
    if listed:
        values["operators"] = listed
    if operator:
        values.setdefault("name", f"run-{secrets.token_hex(4)}")
        listed = [*listed, _TO_BE_MADE]
    places = {rank: {"address": one.address} for rank, one in enumerate(hosts or ()) if one.address is not None}
    size = from_flags({**values, "operators": listed or None, "rank": places}).size
    # The sites have their keys later, perhaps; with any keys what needs them can be checked now.
    keyed = {rank: {**places.get(rank, {}), "key": ring.public.hex()} for rank, ring in enumerate(keyrings(size))}
    settings = from_flags({**values, "operators": listed or None, "rank": keyed})
    everyone = addresses(settings, size)
    check_graph(settings.topology, settings.secret)
    graph = build_graph(settings)
    for rank in range(size):
        dialled(
            rank, graph.connections(rank, settings.rounds), everyone
        )  # refuses those of whom neither can be dialled
    apart = bool(places) and not all_on_this_host(settings, size)
    if apart:
        values.setdefault("wait", _WAIT)
    brought = dict(enumerate(graph.declared))
    if brought:
        values["weights"] = DECLARED  # the numbers stand with the ranks
    ranks = hosts or [Site(None)] * size
    sites = tuple(replace(one, weight=brought.get(rank)) for rank, one in enumerate(ranks))
    _check_run(settings)
    schema = values.get("schema")
    if schema is not None:
        read_schema(schema)
        values["schema"] = Path(schema).name
    for name in BESIDE_FILE:
        if name != "schema" and values.get(name) is not None:
            values[name] = os.path.relpath(values[name], folder)
    return NewFederation(values, settings, sites, None if schema is None else Path(schema), apart)


def _check_run(settings: Settings) -> None:
    """Refuse settings with which rank 0 would end before it reads its data."""
    # torch, which takes seconds: mistakes in hosts and addresses show at once.
    from dpeer.federation.checks import check_settings
    from dpeer.training.loading import check_task_name

    config = resolve(settings.of_rank(0), 0)
    check_task_name(config.data.task)
    check_settings(config)


def write(planned: NewFederation, folder: Path, *, keys: bool, operator: bool, bind_all: bool = False) -> list[Path]:
    """Write all files of a new federation into a folder, and return them; nothing is overwritten.

    Args:
        planned: What is to be written.
        folder: Made where it is missing.
        keys: Whether the keys of all ranks are made here, and not by each site.
        operator: Whether an operator's key is made.
        bind_all: Whether each rank listens at all interfaces of its host.
    """
    sites, file = planned.sites, folder / DEFAULT_FILE
    secret_files = [folder / KEYS / secret_file(rank) for rank in range(len(sites))] if keys else []
    of_operator = [folder / KEYS / OPERATOR_FILE] if operator else []
    schema = planned.schema
    copied = schema is not None and schema.resolve().parent != folder.resolve()
    copies = {folder / schema.name: read_text(schema)} if schema is not None and copied else {}
    made = [file, *copies, *secret_files, *of_operator]
    if found := [path for path in made if os.path.lexists(path)]:
        raise OutputError(f"{str(found[0])!r} exists, and nothing is overwritten: name another folder")
    listed = dict(planned.values)
    public = {rank: write_secret(rank, folder / KEYS)[1].hex() for rank in range(len(sites))} if keys else {}
    if operator:
        listed["operators"] = [*listed.get("operators", ()), write_operator(folder / KEYS)[1]]
    texts = copies | {file: federation_file(listed, sites, public, apart=planned.apart, bind_all=bind_all)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise not_written(f"{str(folder)!r}", error) from error
    return made
