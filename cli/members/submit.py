"""Submission of a member list: made, printed, signed, handed over and followed until it counts."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from dpeer.cli.members.options import Order
from dpeer.cli.terminal import say
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation import config
from dpeer.federation.addresses import unanswered
from dpeer.federation.control_client import NoAnswer, NotRunning
from dpeer.federation.member_changes import Change, Situation, described, differences, in_short, next_list
from dpeer.federation.member_client import ask_again, asked, hand, write_list
from dpeer.federation.member_zero import named_graph
from dpeer.federation.operators import read_operator, signers_of
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import MemberList

_EVERY = 0.5
"""Seconds between two looks at a list that does not count yet."""

DIALS_OUT = "-"
"""In place of the address of a member that only dials out, as in a hosts file."""


def address_of(given: str) -> str | None:
    """The address that an option gives."""
    return None if given == DIALS_OUT else given


def submit(order: Order, change: Change) -> int:
    """Make the list of a change, print what it changes, sign it, and hand it over or write it to a file.

    Returns:
        The exit code.

    Raises:
        ConfigurationError: The change cannot be made.
    """
    found = asked(order.place, order.federation)
    before, settings = found.there.counts, found.settings
    signers = signers_of(settings)
    secret = None if order.operator is None else read_operator(order.operator, signers.keys)
    if found.folder is None and not (order.dry_run or order.out):
        raise ConfigurationError(
            f"{str(order.place)!r} is a list: give --out FILE for the next one, or the folder of a running peer"
        )
    if secret is None and not (order.dry_run or order.out):
        raise ConfigurationError(
            "--operator is missing: name the file of an operator's secret key, or give --out FILE, for an operator to "
            "sign (dpeer members sign)"
        )
    one = next_list(found.there, change, partial(named_graph, settings))
    if change.rounds or one.edges != before.edges:
        _check_training(settings, one)
    for line in differences(before, one):
        click.echo(line)
    kept = [rank for rank, member in one.members.items() if before.members.get(rank) == member]
    for rank in kept if before.version == 0 else ():
        click.echo(f"as in the federation file there: rank {rank}: {described(one.members[rank])}")
    for rank, member in one.members.items():
        where = member.address
        new = rank not in before.members or before.members[rank].address != where
        if new and where is not None and (why := unanswered(where)) is not None:
            say(f"WARNING: rank {rank}: nothing answers at {where} yet ({why}): its neighbors dial it from now on")
    one = one if secret is None else one.signed(secret)
    if order.dry_run:
        say(f"dpeer: --dry-run: this would be member list {one.version}; nothing is changed")
        return 0
    lacking = max(0, signers.needed - len(one.signatures))
    if order.out is not None:
        write_list(order.out, one)
        more = f"{lacking} more must sign it (dpeer members sign {order.out}), then" if lacking else "then"
        say(f"dpeer: wrote member list {one.version} to {order.out}: {more} dpeer members hand RUN {order.out}")
        return 0
    if lacking:
        raise ConfigurationError(
            f"{signers.needed} operators must sign a list of this federation: give --out FILE, which the others sign "
            "(dpeer members sign) and one hands over (dpeer members hand)"
        )
    assert found.folder is not None, "checked above"
    if joiners := [f"--rank {rank}" for rank in one.members.keys() - before.members.keys()]:
        file = Path(f"members-{one.version}.json")
        write_list(file, one)
        say(f"dpeer: wrote {file}: the new site types dpeer start {' '.join(joiners)} --members {file}")
    return hand_over(found.folder, before, one)


def _check_training(settings: Settings, one: MemberList) -> None:
    """Refuse a graph or a number of rounds that does not go with how the run trains."""
    from dpeer.federation.checks import check_list  # torch, which takes seconds: other mistakes show at once

    graph = named_graph(settings, one.graph, one.members)
    check_list(config.resolve(settings.of_rank(0), 0), graph, one.rounds)


def hand_over(folder: Path, before: MemberList, one: MemberList) -> int:
    """Hand a list to a running peer, and wait until it counts.

    Returns:
        The exit code.

    Raises:
        ConfigurationError: The peer does not take it, or another list counts in its place.
    """
    hand(folder, one)
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
    """Wait until a list counts, and print who has it."""
    while True:
        with suppress(NoAnswer):
            try:
                there = ask_again(folder)
            except NotRunning as error:
                raise DpeerError(
                    f"{error}; the list goes on if another member has it: dpeer members show, at that member, says"
                ) from error
            if one.digest in (there.counts.digest, there.counts.previous):
                click.echo(f"member list {one.version} counts: {progress(there, before, one)}")
                return
            if there.waits is None or there.waits.key != one.key:
                other = there.waits or there.counts
                raise DpeerError(
                    f"member list {one.version} does not count: {folder.name} has list {other.version} "
                    f"({other.digest.hex()[:16]}) in its place: look at it with dpeer members show, then make the "
                    "change anew"
                )
        time.sleep(_EVERY)


def progress(there: Situation, before: MemberList, one: MemberList) -> str:
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
