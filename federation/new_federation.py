"""A new federation for `dpeer init`: its settings checked as a start checks them, then its files and keys."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError, OutputError, not_written
from dpeer.federation import operators
from dpeer.federation.addresses import addresses, all_on_this_host
from dpeer.federation.config import BESIDE_FILE, DEFAULT_FILE, from_flags, resolve
from dpeer.federation.hosts_file import Host
from dpeer.federation.keys import keyrings, public_keys, secret_file, write_secret
from dpeer.federation.new_federation_file import Site, federation_file
from dpeer.federation.settings import Settings
from dpeer.peer.peer import dialled
from dpeer.topology.declared import DECLARED
from dpeer.topology.settings import build_graph
from dpeer.training.data.tables.schema import read_schema

KEYS = "keys"
"""Folder of secrets, below the federation's."""

_WAIT = "7d"
"""How long peers on several hosts wait for each other, unless the user states it."""


@dataclass(frozen=True)
class NewFederation:
    """What is to be written.

    Attributes:
        values: The settings that the federation file states, plain; paths count from its folder.
        settings: The same, validated, with the address of each rank.
        sites: The ranks.
        schema: The schema of the tables, of which a copy goes beside the federation file; None for none.
        apart: Whether ranks are on several hosts.
    """

    values: Mapping[str, Any]
    settings: Settings
    sites: tuple[Site, ...]
    schema: Path | None
    apart: bool


def plan(flags: Mapping[str, Any], hosts: Sequence[Host] | None, folder: Path, *, operator: bool) -> NewFederation:
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
    if hosts is not None:
        if values.setdefault("size", len(hosts)) != len(hosts):
            raise ConfigurationError(f"--size {values['size']}: --hosts has {len(hosts)} ranks: leave --size out")
        _check_twice(hosts)
    if operator:
        values.setdefault("name", f"run-{secrets.token_hex(4)}")
    places = {rank: {"address": one.address} for rank, one in enumerate(hosts or ()) if one.address is not None}
    settings = from_flags({**values, "rank": places})
    if not operator:
        operators.check_operators(settings)
    # The sites have their keys later, perhaps; with any keys what needs them can be checked now.
    rings = enumerate(keyrings(settings.size))
    keyed = {rank: {**places.get(rank, {}), "key": ring.public.hex()} for rank, ring in rings}
    checked = from_flags({**values, "rank": keyed})
    everyone = addresses(checked, checked.size)
    public_keys(checked, checked.size)
    graph = build_graph(checked)
    neighbors = [graph.connections(rank, checked.rounds) for rank in range(checked.size)]
    for rank, others in enumerate(neighbors):
        dialled(rank, others, everyone)  # refuses neighbors of whom neither can be dialled
    apart = bool(places) and not all_on_this_host(checked, checked.size)
    if apart:
        values.setdefault("wait", _WAIT)
    brought = dict(enumerate(graph.declared))
    if brought:
        values["weights"] = DECLARED  # the numbers stand with the ranks
    sites = tuple(
        Site(rank, hosts[rank].site if hosts else "", places.get(rank, {}).get("address"), brought.get(rank))
        for rank in range(checked.size)
    )
    _check_run(checked)
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


def _check_twice(hosts: Sequence[Host]) -> None:
    names = [one.site for one in hosts if one.site]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"--hosts: two ranks are of the site {doubled!r}: give each line a name of its own")


def write(planned: NewFederation, folder: Path, *, keys: bool, operator: bool, bind_all: bool = False) -> list[Path]:
    """Write all files of a new federation; returns them.

    Nothing is overwritten.

    Args:
        planned: What is to be written.
        folder: Where to; made where it is missing.
        keys: Whether the keys of all ranks are made here, and not by each site.
        operator: Whether an operator's key is made.
        bind_all: Whether each rank listens at all interfaces of its host.

    Raises:
        OutputError: A file exists, or cannot be written.
    """
    sites, file = planned.sites, folder / DEFAULT_FILE
    secret_files = [folder / KEYS / secret_file(one.rank) for one in sites] if keys else []
    of_operator = [folder / KEYS / operators.FILE] if operator else []
    schema = planned.schema
    copied = schema is not None and schema.resolve().parent != folder.resolve()
    copies = {folder / schema.name: read_text(schema)} if schema is not None and copied else {}
    made = [file, *copies, *secret_files, *of_operator]
    if found := [path for path in made if os.path.lexists(path)]:
        raise OutputError(f"{str(found[0])!r} exists, and nothing is overwritten: name another folder")
    listed = dict(planned.values)
    public = {one.rank: write_secret(one.rank, folder / KEYS)[1].hex() for one in sites} if keys else {}
    if given := planned.settings.operators or []:
        listed["operators"] = given
    if operator:
        listed["operators"] = [*given, operators.write_operator(folder / KEYS)[1]]
    texts = copies | {file: federation_file(listed, sites, public, KEYS, apart=planned.apart, bind_all=bind_all)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise not_written(f"{str(folder)!r}", error) from error
    return made
