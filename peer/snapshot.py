"""Answers of a running peer: a snapshot for `dpeer status` (no loss, accuracy or row count), and its member lists."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeer.exceptions import ConfigurationError
from dpeer.peer.config import PeerConfig
from dpeer.peer.core.member_list import NO_KEY, Key, MemberListError, of_document
from dpeer.peer.core.membership import Neighbor, Status
from dpeer.peer.core.protocol import Core
from dpeer.peer.driver import Driver
from dpeer.peer.rank_folder import RankFolder

Phase = Literal["starting", "meet", "pause", "work", "collect", "adopt", "settle", "linger", "part", "ended"]
"""What a peer does.

"starting": it reads its data. "work": it trains, evaluates, mixes or saves. "ended": its rounds are over.

Waits: "meet" for its neighbors, "pause" for a quorum, "collect" for bodies, "settle" for the end of a round, "linger"
for neighbors that need it after its last round, "part" for those that need it before it leaves.
"""


@dataclass(frozen=True)
class NeighborSnapshot:
    """A neighbor, as the peer sees it.

    Attributes:
        liveness: unseen, alive, suspect, dead or gone.
        completed: Rounds that it has completed, as far as is known; None before the first hello.
        silent_seconds: Since its last message; None before the first one.
        why: Why it is away, overdue, cannot be dialled or cannot train; else empty.
        bytes_sent: Bytes of messages to it since the process began.
    """

    rank: int
    liveness: str
    completed: int | None
    silent_seconds: float | None
    why: str = ""
    bytes_sent: int = 0
    bytes_received: int = 0


@dataclass(frozen=True)
class Awaited:
    """A rank that the peer waits for, and why."""

    rank: int
    why: str


@dataclass(frozen=True)
class Snapshot:
    """One peer at one moment: rounds, times, liveness, and what follows from releases; no loss, accuracy or row count.

    Attributes:
        rounds: How many rounds the run has; None while it starts.
        quorum: How many a quorum is known to have completed; None where every peer by itself is one.
        waiting_seconds: For how long; 0 where it does not wait.
        why: Why a pause holds the next round; else empty.
        sits_out: Whether it sits rounds out, because the others went on without it.
        drains: Whether it leaves when the round is complete.
        members: By rank, the rounds that it has completed, at least; None: it was never there.
        member_list: The number of the member list in use; 0 is the federation file.
        next_list: The number of a list that waits for votes; None without one.
        mixed: Ranks whose bodies were mixed in the last completed round.
        missed: Ranks whose bodies that mix lacked.
        checkpoint_seconds: Age of the last checkpoint; None without one.
        mixes: Whether it mixes in rounds to come: it has neighbors.
        mixed_round: The last round in which it mixed a neighbor's body and released its own; None before one.
        mixed_seconds: Since that round was complete.
        round_seconds: How long its last rounds took, in the mean; None before the second round of the process.
        left_seconds: How long the rounds that are left will take at that pace.
        epsilon: The privacy loss so far; None without privacy.
        disagreement: Relative distance of the own released body to the mix, in the last completed round; None where it
            was not measured.
        disk_free: Bytes that the folder's disk had left when a round was last saved.
        withheld: Ranks whose `why` is for this host alone, because it may name an address, or a setting.
    """

    rank: int
    pid: int
    phase: Phase
    rounds: int | None = None
    completed: int = 0
    quorum: int | None = None
    waits_for: tuple[Awaited, ...] = ()
    waiting_seconds: float = 0.0
    why: str = ""
    sits_out: bool = False
    drains: bool = False
    members: Mapping[int, int | None] = field(default_factory=dict)
    member_list: int = 0
    next_list: int | None = None
    mixed: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()
    checkpoint_seconds: float | None = None
    neighbors: tuple[NeighborSnapshot, ...] = ()
    mixes: bool = True
    mixed_round: int | None = None
    mixed_seconds: float | None = None
    round_seconds: float | None = None
    left_seconds: float | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    disagreement: float | None = None
    disk_free: int | None = None
    withheld: tuple[int, ...] = ()


def take_snapshot(config: PeerConfig, core: Core, now: float, files: RankFolder, *, ended: bool) -> Snapshot:
    """The snapshot of a peer."""
    wait, last = core.waiting.present(now), files.progress.last or {}
    seconds, rounds = files.recent_seconds, core.schedule.rounds
    clock = core.round_clock
    there = {*clock.there}
    left = None if seconds is None or ended else seconds * max(rounds - files.progress.completed, 0)
    return Snapshot(
        rank=config.rank,
        pid=os.getpid(),
        phase="ended" if ended else "work" if wait is None else wait.kind,
        rounds=rounds,
        completed=files.progress.completed,
        quorum=None if config.quorum == "any" else clock.quorum,
        waits_for=tuple(Awaited(rank, why) for rank, why in wait.ranks.items()) if wait else (),
        waiting_seconds=wait.seconds if wait else 0.0,
        why=wait.why if wait else "",
        sits_out=core.entry.since is not None,
        drains=core.waiting.drains,
        member_list=core.lists.lists.counts.version,
        next_list=None if core.lists.waiting is None else core.lists.waiting.version,
        members={rank: clock[rank] if rank in there else None for rank in clock.members},
        mixed=tuple(last.get("heard") or ()),
        missed=tuple(last.get("missed") or ()),
        checkpoint_seconds=None if files.saved_at is None else max(0.0, time.time() - files.saved_at),
        neighbors=tuple(_neighbor(one, now) for one in core.members.all()),
        mixes=bool(core.members.all()),
        mixed_round=files.progress.mixed_round,
        mixed_seconds=None if files.progress.mixed_at is None else max(0.0, time.time() - files.progress.mixed_at),
        round_seconds=seconds,
        left_seconds=left,
        dropped=dict(core.reports.counts + core.exchange.inbox.dropped),
        epsilon=last.get("epsilon"),
        delta=last.get("delta"),
        disagreement=last.get("disagreement"),
        disk_free=files.disk_free,
        withheld=tuple(one.rank for one in core.members.all() if one.trouble or one.trouble_dialling),
    )


def _neighbor(one: Neighbor, now: float) -> NeighborSnapshot:
    met = one.status is not Status.UNSEEN
    why = one.trouble or (one.why_away if one.away else one.overdue) or ("" if met else one.trouble_dialling)
    return NeighborSnapshot(
        one.rank, one.status.value, one.current_round if met else None, now - one.heard_at if met else None, why,
        one.bytes_sent, one.bytes_received,
    )  # fmt: skip


def answer_members(request: Mapping[str, Any], driver: Driver, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Show the member lists ({"members": "show"}), or take one ({"members": "hand", "list": DOCUMENT}).

    `about` is that of the peer's checkpoints. It holds the settings of the run, by which a list's graph is built.

    Raises:
        ConfigurationError: The request is neither, or this run has no member lists.
    """
    if driver.core.state.config.lists is None:
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
