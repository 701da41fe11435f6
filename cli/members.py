"""`dpeer members`: who takes part in a running federation, shown and changed by signed member lists."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dpeer.cli.tables import filled, json_option, plain_table, print_table
from dpeer.cli.terminal import say
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation import config, member_changes
from dpeer.federation.control_client import NoAnswer, NotRunning, ranks_of
from dpeer.federation.keys import keys_of, read_operator, signers_of
from dpeer.federation.member_changes import (
    Change,
    Situation,
    described,
    differences,
    in_short,
    look,
    named_graph,
    next_list,
    read_list,
    settings_of,
    write_list,
)
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import MOST_ROUNDS, NO_KEY, Member, MemberList, Stamp
from dpeer.peer.member_files import read_lists

_EVERY = 0.5
"""Seconds between two looks at a list that does not count yet."""

_FILE = click.Path(dir_okay=False, path_type=Path)
_RANK = click.IntRange(0, 2**16 - 1)

_run_argument = click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
_file_argument = click.argument("file", type=_FILE, metavar="FILE")
_federation_option = click.option(
    "--federation", type=_FILE, metavar="FILE",
    help="The federation file, where no running peer is asked.  [default: ./dpeer.toml]",
)  # fmt: skip
_weight_option = click.option(
    "--weight", type=float, metavar="N", help="What it brings (rows, patients, votes), where weights are declared."
)


@click.group()
def members() -> None:
    """Show and change who takes part in a running federation, on which graph, for how many rounds.

    Each change is a new member list, which an operator signs and hands to any running peer. It counts once a quorum of
    the members has it on disk, and each peer uses it from the next round that it begins.
    """


@members.command()
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
        there = look(place)
    except NotRunning:
        _show_kept(place, as_json=as_json)
        return
    if as_json:
        click.echo(json.dumps(there.plain, indent=1))
        return
    _print_list(there.counts, there)
    if there.since is not None and there.round is not None:
        click.echo(f"in use here since round {there.since + 1}; rank {there.rank} works on round {there.round + 1}")
    if there.waits is not None:
        who = _progress(there, there.counts, there.waits)
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
        _print_list(counts)
    if waits is not None:
        click.echo("\nand waits for votes:")
        _print_list(waits)


def _print_list(one: MemberList, there: Situation | None = None) -> None:
    """Print a list, and which lists its members have as far as it is known."""
    known = {} if there is None else there.stamps
    click.echo(f"member list {one.version} ({one.digest.hex()[:16]}) of federation {one.federation[:16]}")
    weighed = any(member.weight is not None for member in one.members.values())
    names = ("rank", "address", "key", *(("weight",) if weighed else ()), *(("has",) if known else ()))
    rows = []
    for rank, member in one.members.items():
        cells = [str(rank), member.address or "dials out", _short(member.keys)]
        cells += [f"{member.weight:g}"] if member.weight is not None else []
        rows.append(cells + ([_has(known.get(rank), rank, there)] if there is not None and known else []))
    columns = {name: "right" if name in ("rank", "weight") else "words" for name in names}
    print_table(filled(plain_table(), columns, rows))
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


def _changing(make: Callable[..., Change]) -> click.Command:
    """A command that makes a change: with RUN, and the options that say who signs the list and where it goes."""

    @members.command()
    @_run_argument
    @click.option(
        "--operator",
        type=_FILE,
        metavar="FILE",
        help="Your secret key, which signs the list (dpeer keygen --operator).",
    )
    @click.option(
        "--settle", is_flag=True,
        help="Replace a list that waits and does not come to count, such as one of two that were made at a time.",
    )  # fmt: skip
    @click.option(
        "--out", type=_FILE, metavar="FILE",
        help="Write the list to a file, for other operators to sign (dpeer members sign); then dpeer members hand.",
    )  # fmt: skip
    @click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
    @_federation_option
    @wraps(make)
    def command(
        run: Path, operator: Path | None, settle: bool, out: Path | None, dry_run: bool, federation: Path | None,
        **given: Any,
    ) -> int:  # fmt: skip
        change = replace(make(**given), settle=settle)
        return _submit(change, run, operator=operator, out=out, dry_run=dry_run, federation=federation)

    return command


@_changing
@click.option("--rank", type=_RANK, required=True, metavar="R", help="Its rank: the lowest that none has ever had.")
@click.option(
    "--address", required=True, metavar="ADDRESS", help="Where its neighbors reach it; - for one that only dials out."
)
@click.option("--key", metavar="HEX", help="Its public key (dpeer keygen), where the federation has keys.")
@_weight_option
def add(rank: int, address: str, key: str | None, weight: float | None) -> Change:
    """Add a member to the federation of the peer that runs in RUN.

    The list is also written to members-N.json. The new site starts with it and the federation file, before or after
    the list counts:

    \b
      dpeer start --federation dpeer.toml --rank 8 --members members-1.json

    \b
    Example:
      dpeer members add dpeer-run --rank 8 --address tcp://10.8.0.18:7700 --key 77e0...5b3c --operator operator.secret
    """  # noqa: D301 - \b is click's
    keys = () if key is None else tuple(one.hex() for one in keys_of(rank, key))
    return Change(add={rank: Member(_address(address), keys, weight)})


@_changing
@click.option("--rank", "ranks", type=_RANK, multiple=True, required=True, metavar="R", help="The member; repeatable.")
@click.option(
    "--force", is_flag=True, help="Without a quorum: you vouch that the members that you remove do not run on anywhere."
)
def remove(ranks: tuple[int, ...], force: bool) -> Change:
    """Remove members from the federation of the peer that runs in RUN.

    One that answers leaves in good order, with its model; one that does not is out. A rank is never used again. To stop
    a peer for a while, use dpeer drain: it stays a member.

    \b
    Example:
      dpeer members remove dpeer-run --rank 3 --operator operator.secret
    """  # noqa: D301 - \b is click's
    return Change(remove=dict.fromkeys(ranks), force=force)


@_changing
@click.option("--rank", type=_RANK, metavar="R", help="The member whose address, key or weight changes.")
@click.option("--address", metavar="ADDRESS", help="Its new address; - for one that only dials out from now on.")
@click.option("--key", "keys", multiple=True, metavar="HEX", help="Its new key; twice for the old and the new one.")
@_weight_option
@click.option("--topology", metavar="NAME", help="Another graph: ring, exponential, fresh:4, ...")
def change(
    rank: int | None, address: str | None, keys: tuple[str, ...], weight: float | None, topology: str | None
) -> Change:
    """Give a member another address, key or weight, or the federation of the peer that runs in RUN another graph.

    A site that moves to another host copies its run folder there and starts with --resume. One that changes its key
    first lists both, and starts with the new secret; a second change leaves only the new one.

    \b
    Examples:
      dpeer members change dpeer-run --rank 3 --address tcp://10.8.0.33:7700 --operator operator.secret
      dpeer members change dpeer-run --topology exponential --operator operator.secret
    """  # noqa: D301 - \b is click's
    if (rank is None) != (address is None and weight is None and not keys):
        raise ConfigurationError(
            "--rank, and --address, --key or --weight go together: name the member and what changes"
        )
    fields: dict[str, Any] = {} if weight is None else {"weight": weight}
    if address is not None:
        fields["address"] = _address(address)
    if keys:
        fields["keys"] = tuple(one.hex() for one in keys_of(str(rank), list(keys)))
    return Change(move={} if rank is None else {rank: fields}, graph=topology)


@_changing
@click.option("--rounds", type=click.IntRange(1, MOST_ROUNDS), required=True, metavar="N", help="Of all rounds.")
def extend(rounds: int) -> Change:
    """Give the federation of the peer that runs in RUN more rounds.

    A peer whose privacy budget ends earlier goes on without releases.

    \b
    Example:
      dpeer members extend dpeer-run --rounds 200 --operator operator.secret
    """  # noqa: D301 - \b is click's
    return Change(rounds=rounds)


@members.command()
@_file_argument
@click.option(
    "--operator", type=_FILE, required=True, metavar="FILE", help="Your secret key (dpeer keygen --operator)."
)
@_federation_option
def sign(file: Path, operator: Path, federation: Path | None) -> None:
    """Print the member list in FILE, and add your signature to it.

    FILE is what another operator's command wrote with --out. A signature cannot be taken back: read what is printed.
    """
    one = read_list(file)
    settings = None if config.source(federation) is None else config.load(federation, {})
    secret = read_operator(operator, None if settings is None else settings.operators or [])
    _print_list(one)
    signed = one.signed(secret)
    write_list(file, signed)
    of = "" if settings is None else f" of {settings.signers}"
    say(f"dpeer: {file} has {len(signed.signatures)}{of} signatures; dpeer members hand RUN {file} hands it over")


@members.command()
@_run_argument
@_file_argument
def hand(run: Path, file: Path) -> int:
    """Hand the signed member list in FILE to the peer that runs in RUN, and wait until it counts."""
    one, there = read_list(file), look(run)
    if there.folder is None:
        raise ConfigurationError(f"{str(run)!r}: name the folder of a run of which a peer runs on this host")
    one.verify(there.counts.federation, signers_of(settings_of(run, there, None)))
    for line in differences(there.counts, one):
        click.echo(line)
    return _hand_over(there.folder, there.counts, one)


def _address(given: str) -> str | None:
    """The address that an option gives: - for a member that only dials out, as in a hosts file."""
    return None if given == "-" else given


def _submit(
    change: Change, place: Path, *, operator: Path | None, out: Path | None, dry_run: bool, federation: Path | None
) -> int:
    """Make the list of a change, print what it changes, sign it, and hand it over or write it to a file.

    Raises:
        ConfigurationError: The change cannot be made.
    """
    there = look(place)
    before, settings = there.counts, settings_of(place, there, federation)
    signers = signers_of(settings)
    secret = None if operator is None else read_operator(operator, signers.keys)
    if there.folder is None and not (dry_run or out):
        raise ConfigurationError(
            f"{str(place)!r} is a list: give --out FILE for the next one, or the folder of a running peer"
        )
    if secret is None and not (dry_run or out):
        raise ConfigurationError(
            "--operator is missing: name the file of an operator's secret key, or give --out FILE, for an operator to "
            "sign (dpeer members sign)"
        )
    one = next_list(there, change, settings)
    if change.rounds or one.edges != before.edges:
        _check_training(settings, one)
    for line in differences(before, one):
        click.echo(line)
    kept = [rank for rank, member in one.members.items() if before.members.get(rank) == member]
    for rank in kept if before.version == 0 else ():
        click.echo(f"as in the federation file there: rank {rank}: {described(one.members[rank])}")
    one = one if secret is None else one.signed(secret)
    if dry_run:
        say(f"dpeer: --dry-run: this would be member list {one.version}; nothing is changed")
        return 0
    lacking = max(0, signers.needed - len(one.signatures))
    if out is not None:
        write_list(out, one)
        more = f"{lacking} more must sign it (dpeer members sign {out}), then" if lacking else "then"
        say(f"dpeer: wrote member list {one.version} to {out}: {more} dpeer members hand RUN {out}")
        return 0
    if lacking:
        raise ConfigurationError(
            f"{signers.needed} operators must sign a list of this federation: give --out FILE, which the others sign "
            "(dpeer members sign) and one hands over (dpeer members hand)"
        )
    assert there.folder is not None, "checked above"
    if joiners := [f"--rank {rank}" for rank in one.members.keys() - before.members.keys()]:
        file = Path(f"members-{one.version}.json")
        write_list(file, one)
        say(f"dpeer: wrote {file}: the new site types dpeer start {' '.join(joiners)} --members {file}")
    return _hand_over(there.folder, before, one)


def _check_training(settings: Settings, one: MemberList) -> None:
    """Refuse a graph or a number of rounds that does not go with how the run trains."""
    from dpeer.federation.checks import check_list  # torch, which takes seconds: other mistakes show at once

    graph = named_graph(settings, one.graph, one.members)
    check_list(config.resolve(settings.of_rank(0), 0), graph, one.rounds)


def _hand_over(folder: Path, before: MemberList, one: MemberList) -> int:
    """Hand a list to a running peer, and wait until it counts.

    Raises:
        ConfigurationError: The peer does not take it, or another list counts in its place.
    """
    member_changes.hand(folder, one)
    say(
        f"dpeer: member list {one.version} is at {folder.name}, which tells the others; dpeer members show {folder} "
        "shows who has it"
    )
    try:
        _wait(folder, before, one)
    except KeyboardInterrupt:
        say(f"dpeer: the list goes on its way; dpeer members show {folder} shows it")
        return 130
    return 0


def _wait(folder: Path, before: MemberList, one: MemberList) -> None:
    """Wait until a list counts, and print its holders."""
    while True:
        with suppress(NoAnswer):
            try:
                there = look(folder)
            except NotRunning as error:
                raise DpeerError(
                    f"{error}; the list goes on if another member has it: dpeer members show, at that member, says"
                ) from error
            if one.digest in (there.counts.digest, there.counts.previous):
                click.echo(f"member list {one.version} counts: {_progress(there, before, one)}")
                return
            if there.waits is None or there.waits.key != one.key:
                other = there.waits or there.counts
                raise DpeerError(
                    f"member list {one.version} does not count: {folder.name} has list {other.version} "
                    f"({other.digest.hex()[:16]}) in its place: look at it with dpeer members show, then make the "
                    "change anew"
                )
        time.sleep(_EVERY)


def _progress(there: Situation, before: MemberList, one: MemberList) -> str:
    """Who of the members before a list has it on disk, and who is missing."""
    have = sorted(rank for rank in before.members if one.key in there.stamps.get(rank, ()))
    words = f"{len(have)} of {len(before.members)} members have it{f' ({in_short(have)})' if have else ''}"
    if not (missing := sorted(before.members.keys() - {*have})):
        return words
    living = missing if there.living is None else [rank for rank in missing if rank in there.living]
    silent = [rank for rank in missing if rank not in living]
    parts = [f"rank {in_short(living)}"] if living else []
    parts += [f"rank {in_short(silent)} (silent)"] if silent else []
    return f"{words}; missing: {', '.join(parts)}"
