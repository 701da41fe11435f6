"""Membership: each neighbor's liveness (`TRANSITIONS`) and round, whether rounds wait for it, links dialled; no I/O.

Dead and gone together are called *away*. The other words for a peer's progress and absence are in the glossary of
docs/design.md, which prints the table of transitions.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dpeer.peer.config import LivenessConfig
from dpeer.peer.core.effects import Dial, Effect
from dpeer.peer.transport import RELAY, Link

NOT_APPEARED = "did not appear"
"""Why a neighbor is away that has never been there."""

_LONGEST = 60.0
"""Seconds between two attempts to dial a rank that stays silent, at most."""


class Status(enum.Enum):
    """A neighbor's state of liveness."""

    UNSEEN = "unseen"  # no handshake yet
    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    GONE = "gone"


Sign = Literal[
    "hello", "any other message", "silent for `suspect_after`", "silent for `dead_after`", "given up at the start",
    "goodbye",
]  # fmt: skip
"""What is known of a neighbor, of which its state follows."""

_EVERY = (Status.UNSEEN, Status.ALIVE, Status.SUSPECT, Status.DEAD, Status.GONE)

TRANSITIONS: Mapping[Sign, Mapping[Status, Status]] = {
    "hello": dict.fromkeys(_EVERY, Status.ALIVE),
    "any other message": dict.fromkeys((Status.ALIVE, Status.SUSPECT, Status.DEAD), Status.ALIVE),
    "silent for `suspect_after`": {Status.ALIVE: Status.SUSPECT},
    "silent for `dead_after`": dict.fromkeys((Status.ALIVE, Status.SUSPECT), Status.DEAD),
    "given up at the start": dict.fromkeys(_EVERY, Status.DEAD),
    "goodbye": dict.fromkeys((Status.ALIVE, Status.SUSPECT, Status.DEAD), Status.GONE),
}
"""By sign, a neighbor's next state in each of its states; it keeps a state that is not listed."""


@dataclass
class Neighbor:
    """One neighbor as this peer sees it.

    Attributes:
        link: Where to send to; None before the handshake, and where a hello has to be answered first. For a moment
            messages may come on another one, too, where both ends have dialled.
        heard_at: Clock time of its last message.
        gone_at: Clock time of its goodbye.
        grace: Seconds from then for which rounds wait for it, if it was stopped.
        current_round: Its current round, the highest in its messages; it may be further by now.
        mentioned: The highest round it mentioned since its last handshake; at first the round before the one that it
            named then. A body of an earlier round can no longer arrive, because links keep order.
        why_away: Why it is away, or was the last time: "silent for 15 s", or the reason of its goodbye.
        trouble: Why it cannot take part as it is, such as a setting that differs; else empty.
        trouble_dialling: Why it cannot be dialled at present, or does not answer; else empty.
        left_behind: Whether it was away, so that rounds may have gone on without it, and has not caught up since. (A
            neighbor that is merely slow is not left behind: it can be many rounds back where graphs change, and is
            waited for.)
        paused: Whether it pauses, by its last message.
        enters: The round from which on it is waited for again, by its own word, if it has sat rounds out; else 0.
        released: Of how many rounds it may have released bodies, by the last that it has sent here.
        overdue: Why a round has gone on without it although it is there (`--deadline`), until it has gone past that
            round and reached the one before this peer's current one; else empty.
        overdue_in: That round.
        listed: Whether it is a member by a list that is of use here; others get nothing but lists.
        near: Whether the graphs that are in use have an edge to it. Others are members that were dialled, or that are
            neighbors by a list that does not count yet.
        uses: What names the member list with which it began its current round; empty if that is not known.
        expected_until: Clock time until which one that a list has made a neighbor is waited for; infinity for others.
        bytes_sent: Bytes of messages to it, by this process.
        bytes_received: Bytes of its messages.
    """

    rank: int
    link: Link | None = None
    status: Status = Status.UNSEEN
    heard_at: float = 0.0
    gone_at: float = 0.0
    grace: float = 0.0
    current_round: int = 0
    mentioned: int = -1
    why_away: str = ""
    trouble: str = ""
    trouble_dialling: str = ""
    left_behind: bool = False
    paused: bool = False
    enters: int = 0
    released: int = 0
    overdue: str = ""
    overdue_in: int = -1
    listed: bool = True
    near: bool = True
    uses: bytes = b""
    expected_until: float = math.inf
    bytes_sent: int = 0
    bytes_received: int = 0

    def turn(self, sign: Sign) -> None:
        """Take the state that follows from a sign."""
        self.status = TRANSITIONS[sign].get(self.status, self.status)

    @property
    def away(self) -> bool:
        """Whether it is dead or gone."""
        return self.status in (Status.DEAD, Status.GONE)

    @property
    def sits_out(self) -> bool:
        """Whether it sits its current round out, by its own word."""
        return self.enters > self.current_round


class Membership:
    """The neighbors of one peer, and how far each of them and the peer itself has come.

    Attributes:
        current_round: The round that this peer works on.
        passed: Whether a quorum of the federation is known to have completed a round.
        lost: Ranks that a round has gone on without because they were away, and why; for good, even if they came back.
    """

    def __init__(
        self, ranks: Iterable[int], config: LivenessConfig, passed: Callable[[int], bool] = lambda number: True
    ) -> None:
        self._config = config
        self.passed = passed
        self._neighbors = {rank: Neighbor(rank) for rank in sorted(ranks)}
        self._all = [*self._neighbors.values()]
        self._links: dict[Link, Neighbor] = {}
        self._last_tick: float | None = None
        self.current_round = 0
        self.lost: dict[int, str] = {}

    def __getitem__(self, rank: int) -> Neighbor:
        return self._neighbors[rank]

    def __contains__(self, rank: int) -> bool:
        return rank in self._neighbors

    def all(self) -> list[Neighbor]:
        """Every neighbor, by rank; not to be changed."""
        return self._all

    def every(self) -> list[Neighbor]:
        """Every neighbor, and the other members to which this peer has a link, by rank."""
        if len(self._all) == len(self._neighbors):
            return self._all
        return [one for one in self._neighbors.values() if one.near or one.link is not None]

    def follow(self, near: Collection[int], members: Iterable[int], keep_up: Mapping[int, int], *, began: bool) -> None:
        """Another list is in use: these are the neighbors now, among these members.

        Once rounds have begun, a new neighbor that keeps up is waited for until it has been dialled, or has dialled,
        and no other. Before, the start waits for all.

        Args:
            near: The neighbors.
            members: All whom this peer knows and may link with.
            keep_up: The rounds that each rank has completed which takes part, as far as presence tells.
            began: Whether rounds have begun.
        """
        now = self._last_tick if began else None
        for rank in [*near, *members]:
            if rank not in self._neighbors:
                self._neighbors[rank] = Neighbor(rank, near=False)
        for rank, one in self._neighbors.items():
            if rank in near and not one.near and now is not None:
                one.heard_at = max(one.heard_at, now)  # until now it had no reason to speak
            if rank in near and not one.near and one.status is Status.UNSEEN and now is not None:
                there = keep_up.get(rank)
                one.current_round, one.expected_until = there or 0, now + self._config.dead_after
                if there is None:
                    self.give_up(rank)
            one.near, one.listed = rank in near, rank in members
        self._neighbors = dict(sorted(self._neighbors.items()))
        self._all = [one for one in self._neighbors.values() if one.near]

    def missing(self) -> list[int]:
        """Ranks that have not completed a handshake, cannot take part, or have left before the end of their run."""
        return [
            neighbor.rank
            for neighbor in self.all()
            if neighbor.status is Status.UNSEEN
            or neighbor.trouble
            or (neighbor.status is Status.GONE and neighbor.why_away != "done")
        ]

    def give_up(self, rank: int) -> None:
        """Take a neighbor that has not appeared for dead: the others do without it."""
        neighbor = self._neighbors[rank]
        neighbor.turn("given up at the start")
        neighbor.left_behind, neighbor.trouble = True, ""
        neighbor.why_away = neighbor.why_away or NOT_APPEARED

    def by_link(self, link: Link) -> Neighbor | None:
        """The neighbor that completed a handshake on this link; None without one."""
        return self._links.get(link)

    def greet(self, rank: int, link: Link, number: int, now: float) -> bool:
        """Note a handshake on a link, in which the neighbor named its current round; return whether it was away."""
        neighbor = self._neighbors[rank]
        away = neighbor.away
        if self.comes_back(rank, now) and number >= neighbor.current_round:
            neighbor.left_behind = False  # rounds have waited for it, and it has lost none
        if self.is_done(rank):
            neighbor.current_round = number  # it had not run all rounds: another process spoke for it
        self._links[link] = neighbor
        neighbor.link = link
        neighbor.turn("hello")
        neighbor.heard_at = now
        # It still has the bodies of its current round and of the one before, and no others.
        neighbor.mentioned = max(number - 1, -1)
        neighbor.trouble, neighbor.enters = "", 0
        # It may be a process that was restarted and has lost rounds: its hello counts, not its past.
        neighbor.current_round, neighbor.uses = number, b""
        self._reached(neighbor, number)
        return away

    def parted(self, link: Link) -> Neighbor | None:
        """Note that a link is broken; return the neighbor that spoke on it, which may have another one."""
        neighbor = self._links.pop(link, None)
        if neighbor is not None and neighbor.link == link:
            neighbor.link = None
        return neighbor

    def heard(self, neighbor: Neighbor, number: int, now: float) -> bool:
        """Note that the neighbor mentioned a round; return whether it was dead."""
        back = neighbor.status is Status.DEAD
        neighbor.turn("any other message")
        neighbor.heard_at = now
        neighbor.mentioned = max(neighbor.mentioned, number)
        self._reached(neighbor, number)
        return back

    def _reached(self, neighbor: Neighbor, number: int) -> None:
        neighbor.current_round = max(neighbor.current_round, number)
        if neighbor.status is Status.ALIVE and neighbor.current_round + 1 >= self.current_round:
            neighbor.left_behind = False
        # Where edges have a direction this peer may wait for no other one, and a neighbor that hears of it over a chain
        # of others is always a little later: it would never be in the same round, however quick it is by now.
        if neighbor.current_round >= max(self.current_round - 1, neighbor.overdue_in + 1):
            neighbor.overdue = ""

    def goodbye(self, neighbor: Neighbor, reason: str, now: float, back_within: float = 0.0) -> None:
        """Note the neighbor's goodbye, and that it has announced to be back within so many seconds."""
        neighbor.turn("goodbye")
        neighbor.why_away = reason
        neighbor.gone_at = now
        neighbor.grace = max(self._config.stop_grace, back_within)
        neighbor.left_behind = True

    def tick(self, now: float) -> list[Neighbor]:
        """Let time pass; return the neighbors that have died of it.

        Time in which this process itself stood still (a suspended laptop, a stopped container) is no silence of theirs.
        """
        stall = 0.0 if self._last_tick is None else now - self._last_tick - self._config.heartbeat
        self._last_tick = now
        died = []
        for neighbor in self.every():
            if neighbor.status is Status.UNSEEN and now >= neighbor.expected_until:
                self.give_up(neighbor.rank)
            if neighbor.status not in (Status.ALIVE, Status.SUSPECT):
                continue
            if stall > self._config.suspect_after / 2:
                # Messages that came meanwhile may have been read before this: `heard_at` is never in the future.
                neighbor.heard_at = min(neighbor.heard_at + stall, now)
            silence = now - neighbor.heard_at
            if silence >= self._config.dead_after:
                neighbor.turn("silent for `dead_after`")
                neighbor.left_behind = True
                neighbor.why_away = f"silent for {silence:.0f} s"
                died.append(neighbor)
            elif silence >= self._config.suspect_after:
                neighbor.turn("silent for `suspect_after`")
        return died

    def is_there(self, rank: int) -> bool:
        """Whether the rank has shaken hands and is not away, as far as is known."""
        return self._neighbors[rank].status in (Status.ALIVE, Status.SUSPECT)

    def is_done(self, rank: int) -> bool:
        """Whether the rank has left because it has completed all rounds, by its own word."""
        neighbor = self._neighbors[rank]
        return neighbor.status is Status.GONE and neighbor.why_away == "done"

    def reachable(self, rank: int) -> bool:
        """Whether the rank is there and its link is not broken, so that sending to it makes sense."""
        one = self._neighbors[rank]
        return one.listed and one.link is not None and self.is_there(rank)

    def note_lost(self, rank: int) -> str | None:
        """Note that a round has gone on without the rank: if it is away or overdue, it is lost.

        Returns:
            Why it is; None if it is not, or was lost for that very reason before.
        """
        neighbor = self._neighbors[rank]
        why = neighbor.why_away if neighbor.away else neighbor.overdue or None
        if why is None or self.lost.get(rank) == why:
            return None
        self.lost[rank] = why
        return why

    def comes_back(self, rank: int, now: float) -> bool:
        """Whether the rank was stopped so lately, or has announced its return, that rounds wait for it.

        Of a time in the past: whether a round that began then has waited for it since, or would have.
        """
        neighbor = self._neighbors[rank]
        stopped = neighbor.status is Status.GONE and neighbor.why_away == "stopped"
        return stopped and now - neighbor.gone_at < neighbor.grace

    def waited_for(self, rank: int, number: int, now: float) -> bool:
        """Whether round `number` should wait for this rank if it needs something of it.

        A neighbor that was away and is more than one round back is not waited for if a quorum has passed its round: it
        sits out the rounds in between, whose bodies are of no use any more. If no quorum has, it runs them, and
        neighbors ahead wait. One that has announced in which round it enters is waited for from then on.

        A neighbor that was stopped is waited for a moment longer. When a whole federation is being stopped, each peer's
        own stop must come before the peer concludes anything from its neighbors' stops. One that has announced its
        return is waited for until then.
        """
        neighbor = self._neighbors[rank]
        if neighbor.status is Status.GONE:
            return self.comes_back(rank, now)
        if neighbor.status is Status.DEAD or neighbor.overdue:
            return False
        if neighbor.sits_out:
            return number >= neighbor.enters
        if not neighbor.left_behind or neighbor.current_round + 1 >= number:
            return True
        return not self.passed(neighbor.current_round)

    def awaited(self, rank: int, number: int, now: float, uses: Collection[bytes] = ()) -> bool:
        """Whether round `number`'s body of this rank, which is not here yet, may still come and is waited for.

        One that has begun the round with another list than those of `uses` is not: it may have no edge here.
        """
        neighbor = self._neighbors[rank]
        if uses and neighbor.current_round == number and neighbor.uses not in uses:
            return False
        may_come = neighbor.status is Status.GONE or neighbor.mentioned <= number
        return may_come and self.waited_for(rank, number, now)

    def holds_up(self, rank: int, number: int, now: float) -> bool:
        """Whether the rank has not reached round `number` and is waited for."""
        return self._neighbors[rank].current_round < number and self.waited_for(rank, number, now)


class Place(NamedTuple):
    """Where a rank is by the member lists: a rank at another place is dialled anew.

    Attributes:
        address: Its address; None for that at the start.
        keys: The public keys of which it has one, hexadecimal.
    """

    address: str | None = None
    keys: tuple[str, ...] = ()


@dataclass
class Dialled:
    """A link that this peer has dialled.

    Attributes:
        rank: The rank that should answer.
        since: Clock time at which it was dialled.
        patience: Seconds of silence after which the rank is dialled again.
        place: Where the rank was when it was dialled.
        unanswered: Clock time at which the hello is repeated, because no answer has come since the link was
            established; infinity while it is not established; None once it was answered.
    """

    rank: int
    since: float
    patience: float
    place: Place
    unanswered: float | None = math.inf


def dials(rank: int, other: int, addresses: Mapping[int, str]) -> bool:
    """Whether of two neighbors this rank is the one that dials.

    It does if the other one alone has an address; if both have one, the lower rank does. An address behind a relay
    counts only where the other end has no direct one.
    """
    here, there = (_directness(addresses.get(one)) for one in (rank, other))
    return there > here or (there == here > 0 and rank < other)


def _directness(address: str | None) -> int:
    if address is None:
        return 0
    return 1 if address.startswith(RELAY) else 2


class Dialling(dict[Link, Dialled]):
    """All dialled links.

    A connection can die without a word, for example because a box on the way that translates addresses has forgotten
    it, and the operating system may take a quarter of an hour to notice. And a rank's name may stand for another
    address by now. So a rank that has been silent for long is dialled anew.

    Args:
        patience: Seconds of silence after which a rank is dialled again, the first time.
        where: Where the member lists say that a rank is.
    """

    def __init__(self, patience: float, where: Callable[[int], Place] = lambda rank: Place()) -> None:
        super().__init__()
        self._patience, self._where = patience, where
        self._waits: dict[int, float] = {}
        self._begun: set[int] = set()

    def begin(self, ranks: Iterable[int]) -> list[Effect]:
        """Dial these ranks, except those that are dialled already.

        Of two links to one rank each new connection would end the other's.
        """
        found = sorted({*ranks} - self._begun - {one.rank for one in self.values()})
        self._begun.update(found)
        return [Dial(rank, self._where(rank).address) for rank in found]

    def add(self, rank: int, link: Link, now: float) -> None:
        """Note that the rank is dialled on this link."""
        self._begun.discard(rank)
        self[link] = Dialled(rank, now, self._waits.get(rank, self._patience), self._where(rank))

    def answered(self, link: Link) -> None:
        """Note the hello of the other side."""
        if link in self:
            self[link].unanswered = None

    def welcome(self, rank: int) -> None:
        """Note that the rank takes part: the next silence is judged like the first one."""
        self._waits.pop(rank, None)

    def overdue(self, link: Link, neighbor: Neighbor, now: float) -> bool:
        """Whether the rank of this link is to be dialled anew; if so, forgets the link.

        A rank that a list has given another address or key has it once it is not heard by the old one any more.
        """
        one = self[link]
        if one.place != self._where(one.rank) and (neighbor.link != link or neighbor.away):
            del self[link]
            return True
        if now - max(one.since, neighbor.heard_at) < one.patience:
            return False
        self._waits[one.rank] = min(2 * one.patience, max(_LONGEST, self._patience))
        del self[link]
        return True
