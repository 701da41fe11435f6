"""Answers what `dpeer members` asks a running peer at its control socket: which lists it has, and to take another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.peer.core.member_list import NO_KEY, Key, MemberListError, of_document
from dpeer.peer.driver import Driver


def answer_members(request: Mapping[str, Any], driver: Driver, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Show the member lists ({"members": "show"}), or take one ({"members": "hand", "list": DOCUMENT}).

    Args:
        request: The request.
        driver: The peer's.
        about: Of its checkpoints, among it the settings of the run: what a list's graph is built with.

    Raises:
        ConfigurationError: The request is neither, or this run has no member lists.
    """
    lists = driver.core.lists.lists
    if lists is None:
        raise ConfigurationError(
            f"rank {driver.core.rank}: the federation file lists no operators, so this run has no member lists"
        )
    match request.get("members"):
        case "show":
            return {**_shown(driver), "settings": about.get("settings", {})}
        case "hand":
            try:
                why = driver.hand(of_document(request.get("list")))
            except MemberListError as error:
                why = str(error)
            return {"taken": why is None, "why": why or ""}
        case other:
            raise ConfigurationError(f"members = {other!r}: expected show, or hand")


def _shown(driver: Driver) -> Mapping[str, Any]:
    core, keeper = driver.core, driver.core.lists
    lists, clock, members = keeper.lists, core.round_clock, core.members
    assert lists is not None, "asked before"
    rank = core.rank
    connected = {one.rank for one in members.every() if not one.away and one.link is not None}
    heard_of = {one for one in clock.there if one in members and not members[one].away}
    return {
        "list": lists.counts.document,
        "next": None if lists.waits is None else lists.waits.document,
        "stamps": {
            str(one): [_plain(key) for key in clock.stamps.get(one, keeper.none)]
            for one in sorted(keeper.members & {*clock.stamps, *clock.there})
        },
        "round": members.current_round,
        "rank": rank,
        "living": sorted(connected | heard_of | {rank}),
        "since": keeper.since,
    }


def _plain(key: Key) -> list[Any] | None:
    return None if key == NO_KEY else [key.version, key.digest.hex()]
