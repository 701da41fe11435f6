"""Which neighbors are there: alive, suspect, dead or gone. Bookkeeping with the time passed in; no I/O.

A neighbor is *alive* while it is heard. Silence makes it *suspect*, then *dead*: rounds go on without it. It is *gone*
when it said goodbye. Whoever is heard again is alive again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from dpeer.peer.config import LivenessConfig
from dpeer.peer.transports import Link


class Status(enum.Enum):
    """What is known of a neighbor."""

    UNSEEN = "unseen"  # no handshake yet
    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    GONE = "gone"


@dataclass
class Neighbor:
    """One neighbor as this peer sees it.

    Attributes:
        link: Where to send to; None before the handshake.
        heard_at: Clock time of its last message.
        progress: The round it is known to have reached (from anything it said).
        spoken_round: The highest round it mentioned since its last handshake. A body of an earlier round can no
            longer arrive: links keep order.
        departure: Why it is dead or gone.
        left_behind: It died or left, so rounds may have gone on without it, and it has not caught up since. (One that
            is merely slow can be many rounds behind where graphs change, and is waited for.)
    """

    rank: int
    link: Link | None = None
    status: Status = Status.UNSEEN
    heard_at: float = 0.0
    left_at: float = 0.0
    progress: int = 0
    spoken_round: int = -1
    departure: str = ""
    left_behind: bool = False


class Membership:
    """The neighbors of one peer and what has become of them.

    Attributes:
        own_round: The round this peer is at work on.
        lost: Ranks that a round had to go on without because they died or left, and why; ever, even if they came back.
    """

    def __init__(self, ranks: Iterable[int], config: LivenessConfig) -> None:
        self._config = config
        self._neighbors = {rank: Neighbor(rank) for rank in sorted(ranks)}
        self._links: dict[Link, Neighbor] = {}
        self._last_tick: float | None = None
        self.own_round = 0
        self.lost: dict[int, str] = {}

    def __getitem__(self, rank: int) -> Neighbor:
        return self._neighbors[rank]

    def __contains__(self, rank: int) -> bool:
        return rank in self._neighbors

    def all(self) -> list[Neighbor]:
        """Every neighbor, by rank."""
        return list(self._neighbors.values())

    def missing(self) -> list[int]:
        """Ranks that have not completed a handshake, or did and left before their rounds were done."""
        return [
            neighbor.rank
            for neighbor in self.all()
            if neighbor.status is Status.UNSEEN or (neighbor.status is Status.GONE and neighbor.departure != "done")
        ]

    def by_link(self, link: Link) -> Neighbor | None:
        """Who completed a handshake on this link."""
        return self._links.get(link)

    def greet(self, rank: int, link: Link, next_round: int, now: float) -> bool:
        """A handshake was completed. Returns whether the neighbor had been away (dead or gone)."""
        neighbor = self._neighbors[rank]
        away = neighbor.status in (Status.DEAD, Status.GONE)
        if neighbor.link is not None and neighbor.link != link:
            self._links.pop(neighbor.link, None)
        self._links[link] = neighbor
        neighbor.link = link
        neighbor.status = Status.ALIVE
        neighbor.heard_at = now
        neighbor.spoken_round = -1
        self._reached(neighbor, next_round)
        return away

    def heard(self, neighbor: Neighbor, number: int, now: float) -> bool:
        """The neighbor mentioned a round. Returns whether it is back from the dead."""
        back = neighbor.status is Status.DEAD
        if neighbor.status is not Status.GONE:
            neighbor.status = Status.ALIVE
        neighbor.heard_at = now
        neighbor.spoken_round = max(neighbor.spoken_round, number)
        self._reached(neighbor, number)
        return back

    def _reached(self, neighbor: Neighbor, number: int) -> None:
        neighbor.progress = max(neighbor.progress, number)
        if neighbor.status is Status.ALIVE and neighbor.progress + 1 >= self.own_round:
            neighbor.left_behind = False

    def left(self, neighbor: Neighbor, reason: str, now: float) -> None:
        """The neighbor said goodbye."""
        neighbor.status = Status.GONE
        neighbor.departure = reason
        neighbor.left_at = now
        neighbor.left_behind = True

    def tick(self, now: float) -> list[Neighbor]:
        """Let time pass; returns who has just been declared dead.

        If this process itself stood still (suspended laptop, stopped container), the silence was ours.
        """
        stall = 0.0 if self._last_tick is None else now - self._last_tick - self._config.heartbeat
        self._last_tick = now
        died = []
        for neighbor in self.all():
            if neighbor.status not in (Status.ALIVE, Status.SUSPECT):
                continue
            if stall > self._config.suspect_after / 2:
                neighbor.heard_at += stall
            silence = now - neighbor.heard_at
            if silence >= self._config.dead_after:
                neighbor.status = Status.DEAD
                neighbor.left_behind = True
                neighbor.departure = f"silent for {silence:.0f} s"
                died.append(neighbor)
            elif silence >= self._config.suspect_after:
                neighbor.status = Status.SUSPECT
        return died

    def reachable(self, rank: int) -> bool:
        """Whether sending to the rank makes sense."""
        neighbor = self._neighbors[rank]
        return neighbor.link is not None and neighbor.status in (Status.ALIVE, Status.SUSPECT)

    def given_up(self, rank: int) -> str | None:
        """A round has gone on without the rank: remember why, and return it if it is news; None if it is not lost."""
        neighbor = self._neighbors[rank]
        if neighbor.status not in (Status.DEAD, Status.GONE) or self.lost.get(rank) == neighbor.departure:
            return None
        self.lost[rank] = neighbor.departure
        return neighbor.departure

    def waited_for(self, rank: int, number: int, now: float) -> bool:
        """Whether round `number` should wait for this rank if it needs something of it.

        One that was left behind and is more than a round behind would hold up everybody while it runs the rounds in
        between, whose bodies nobody can use any more.

        One that was stopped is waited for a moment longer: when a whole federation is being stopped, everybody's own
        stop must come before they draw conclusions from their neighbors'.
        """
        neighbor = self._neighbors[rank]
        if neighbor.status is Status.GONE:
            return neighbor.departure == "stopped" and now - neighbor.left_at < self._config.departure_grace
        if neighbor.status is Status.DEAD:
            return False
        return not neighbor.left_behind or neighbor.progress + 1 >= number

    def awaited(self, rank: int, number: int, now: float) -> bool:
        """Whether round `number`'s body of this rank, not yet here, may still come and is worth waiting for."""
        neighbor = self._neighbors[rank]
        may_come = neighbor.status is Status.GONE or neighbor.spoken_round <= number
        return may_come and self.waited_for(rank, number, now)

    def settled(self, rank: int, number: int, now: float) -> bool:
        """Whether the rank has reached round `number`, or is not waited for."""
        return self._neighbors[rank].progress >= number or not self.waited_for(rank, number, now)
