"""`dpeer members show`: the list in use, and one that waits."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import click
from rich.text import Text

from dpeer.cli.members.submit import progress
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.federation.control_client import NotRunning, ranks_of
from dpeer.federation.member_changes import Situation, differences, in_short
from dpeer.federation.member_client import look
from dpeer.peer.core.member_list import NO_KEY, MemberList
from dpeer.peer.core.member_lists import Stamp
from dpeer.peer.member_files import read_lists


@click.command()
@click.argument("place", type=click.Path(path_type=Path), metavar="RUN|FILE")
@json_option
def show(place: Path, as_json: bool) -> None:
    """Print the member list in use at the peer that runs in RUN, or has run there, and one that waits; or that in FILE.

    \b
    Examples:
      dpeer members show dpeer-run
      dpeer members show members-1.json
    """  # noqa: D301 - \b is click's
    try:
        there, answer = look(place)
    except NotRunning:
        _show_kept(place, as_json=as_json)
        return
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    print_list(there.counts, there)
    if there.since is not None and there.round is not None:
        click.echo(f"in use here since round {there.since + 1}; rank {there.rank} works on round {there.round + 1}")
    if there.waits is not None:
        who = progress(there, there.counts, there.waits)
        click.echo(f"\nmember list {there.waits.version} waits until a quorum has it: {who}")
        for line in differences(there.counts, there.waits):
            click.echo(f"  {line}")


def _show_kept(run: Path, *, as_json: bool) -> None:
    """Print the newest lists that are kept in a run's folder, of which no peer runs here."""
    kept = map(read_lists, ranks_of(run))
    counts, waits = max(kept, key=lambda lists: [NO_KEY if one is None else one.key for one in lists])
    if as_json:
        documents = {name: None if one is None else one.document for name, one in (("list", counts), ("next", waits))}
        click.echo(json.dumps(documents, indent=1))
        return
    if counts is None:
        click.echo("member list 0, the federation file, is in use")
    else:
        print_list(counts)
    if waits is not None:
        click.echo("\nand waits for votes:")
        print_list(waits)


def print_list(one: MemberList, there: Situation | None = None) -> None:
    """Print a list, and which lists its members have as far as it is known."""
    known = {} if there is None else there.stamps
    click.echo(f"member list {one.version} ({one.digest.hex()[:16]}) of federation {one.federation[:16]}")
    table = plain_table()
    weighed = any(member.weight is not None for member in one.members.values())
    names = ("rank", "address", "key", *(("weight",) if weighed else ()), *(("has",) if known else ()))
    for name in names:
        table.add_column(name, justify="right" if name in ("rank", "weight") else "left")
    for rank, member in one.members.items():
        cells = [str(rank), member.address or "dials out", _short(member.keys)]
        cells += [f"{member.weight:g}"] if member.weight is not None else []
        cells += [_has(known.get(rank), rank, there)] if there is not None and known else []
        table.add_row(*map(Text, cells))
    print_table(table)
    for gone in ("left", "evicted"):
        if ranks := [rank for rank, former in one.former.items() if former.gone == gone]:
            proved = {rank: _short(one.former[rank].keys) for rank in ranks if one.former[rank].keys}
            keys = "".join(f"; key of {rank}: {key}" for rank, key in proved.items())
            click.echo(f"{gone}: rank {in_short(ranks)}{keys}")
    click.echo(f"graph: {one.graph} of {len(one.members)}; {one.rounds} rounds{'; forced' if one.force else ''}")
    if one.version:
        signers = [by for by in sorted(one.signatures) if one.has_signed(by)]
        click.echo(f"signed by {_short(signers) if signers else 'no operator yet'}")


def _short(keys: Collection[str]) -> str:
    return ", ".join(f"{key[:16]}…" for key in keys) or "-"


def _has(stamp: Stamp | None, rank: int, there: Situation) -> str:
    """Which lists a member has on disk, as far as is known, and whether it is silent; list 0 is the federation file."""
    stamp = stamp or Stamp()
    words = f"list {max(stamp.counts.version, 0)}" + (
        f", votes for {stamp.waits.version}" if stamp.waits != NO_KEY else ""
    )
    silent = there.living is not None and rank != there.rank and rank not in there.living
    return f"{words} (silent)" if silent else words
