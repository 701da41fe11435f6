"""`dpeer init`: a new federation's file and keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from dpeer.cli.options import GroupedCommand, GroupedOption, setting_options
from dpeer.federation.config import DEFAULT_FILE
from dpeer.federation.new_federation import KEYS, plan, read_hosts, write
from dpeer.federation.run_settings import FaultSettings, SpeedSettings
from dpeer.federation.settings import default_of, option_names

_LEFT_OUT = (*SpeedSettings.model_fields, "secret", "insecure", "rank")
_SETTINGS = tuple(name for name in option_names(FaultSettings) if name not in _LEFT_OUT)


_option = partial(click.option, cls=GroupedOption, group="The files")


@click.command(cls=GroupedCommand, short_help="Write a federation file and keys.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="[FOLDER]")
@_option(
    "--hosts", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="A line for each rank: HOST, HOST:PORT, a whole address, or - for one that only dials out; then the name of "
    "its site. Without it all peers run on one host.",
)  # fmt: skip
@_option(
    "--keys", is_flag=True,
    help="Make the keys of all ranks here. Without it each site makes its own, which is safer.",
)  # fmt: skip
@_option(
    "--operator", is_flag=True,
    help="Make the key of an operator, and list it in the file.",
)  # fmt: skip
@_option(
    "--bind-all", is_flag=True,
    help="Each rank listens at all interfaces of its host: for containers, and where its address is a router's.",
)  # fmt: skip
@setting_options(*_SETTINGS, listed=False)
def init(folder: Path, hosts: Path | None, keys: bool, operator: bool, bind_all: bool, **flags: Any) -> None:
    """Write a commented federation file to FOLDER, and keys.

    Settings that are given go into the file. They are checked as `dpeer start` checks them, and what is written starts
    as it is. Nothing is overwritten.

    \b
    Examples:
      dpeer init trial --size 3
      dpeer init ward-study --hosts hosts.txt --operator --name ward-study-1
      dpeer init ward-study --hosts hosts.txt --keys --task csv --task-option path=visits.csv --schema schema.toml
    """  # noqa: D301 - \b is click's
    port = flags.get("base_port") or default_of("base_port")
    planned = plan(flags, None if hosts is None else read_hosts(hosts, port), folder, operator=operator)
    made = write(planned, folder, keys=keys, operator=operator, bind_all=bind_all)
    size, file = len(planned.sites), made[0]
    click.echo(f"{file}: {size} peers, {planned.settings.topology}{', with the keys of all' if keys else ''}")
    if keys:
        click.echo(f"{folder / KEYS / 'rank-0.secret'} to rank-{size - 1}.secret: each for the host of its rank alone")
    if operator:
        click.echo(f"{folder / KEYS / 'operator.secret'}: the operator's; keep it off the hosts that train")
    click.echo("")
    if planned.apart:
        click.echo(f"Read {file} next. Each site then types, in its copy of this folder:")
    else:
        click.echo("To try it on this host, type in a terminal for each rank R:")
    named = "" if planned.apart or folder == Path() else f" --federation {folder / DEFAULT_FILE}"
    rank = "ITS RANK" if planned.apart else "R"
    if planned.apart and not keys:
        click.echo(f"    dpeer keygen --rank {rank} --out {KEYS}")
    click.echo(f"    dpeer check{named} --rank {rank}")
    click.echo(f"    dpeer start{named} --rank {rank}")
    click.echo('docs/running.md, "What a site does", has every step: files, keys, firewall, data.')
