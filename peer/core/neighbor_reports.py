"""Neighbor reports: logs neighbors' deaths, goodbyes and second bodies; logs and notes trouble of links; no I/O."""

from __future__ import annotations

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.drop_counter import DropCounter
from dpeer.peer.core.membership import Neighbor
from dpeer.peer.core.state import State
from dpeer.peer.core.wire import Goodbyes
from dpeer.peer.transport import Link


class NeighborReports:
    """Logs what becomes of neighbors, and what the transport reports of links, which is noted for the neighbor, too."""

    def __init__(self, state: State, dialling: Dialling, drops: DropCounter) -> None:
        self._members, self._log = state.members, state.log
        self._dialling, self._drops = dialling, drops
        self._relay_trouble: str | None = None

    def endless(self, link: Link | None, place: str) -> None:
        """A connection was ended on which a message had no end; None if nothing had come on it before."""
        error = ProtocolError(
            "endless", f"it came from {place}, was longer than any may be and had no end: the connection was ended"
        )
        known = self._members.by_link(link) or self._dialling.get(link)
        if known is not None:
            self._drops.count(known.rank, error)
        else:
            self._drops.count_stranger(f"from {place}", error)

    def unreachable(self, link: Link, reason: str) -> None:
        """A dialled link cannot be established at present, for this reason."""
        one = self._dialling.get(link)
        if one is not None and self._members[one.rank].trouble_dialling != reason:
            self._members[one.rank].trouble_dialling = reason
            self._log(
                "warning", "neighbor-unreachable", f"rank {one.rank} cannot be dialled: {reason}; trying again",
                neighbor=one.rank, reason=reason,
            )  # fmt: skip

    def relayed(self, trouble: str | None) -> None:
        """The relay at which others reach this peer cannot be used, for this reason, or can again (None)."""
        if trouble != self._relay_trouble:
            self._relay_trouble = trouble
            if trouble is None:
                self._log("info", "relay-back", "this peer is connected to its relay again")
            else:
                message = f"no neighbor reaches this peer by its relay: {trouble}; trying again"
                self._log("warning", "relay-unreachable", message, reason=trouble)

    def died(self, dead: Neighbor, number: int, *, began: bool) -> None:
        """A neighbor has been silent for too long, in this peer's round `number`, or before rounds began."""
        then = "rounds go on without it" if began else "it has been there, and the start does not need it"
        advice = "see whether its process, its host and the network are well (--dead-after says how long is too long)"
        self._log(
            "warning", "neighbor-dead", f"rank {dead.rank} is {dead.why_away}: {then}; {advice}",
            neighbor=dead.rank, round=number, reason=dead.why_away,
        )  # fmt: skip

    def left(self, rank: int, reason: Goodbyes, back_within: int) -> None:
        """A neighbor leaves before the end of its run; it comes back within so many seconds, unless they are 0."""
        then = f"wait {back_within} s for it to be back" if back_within else "go on without it (its log.jsonl says why)"
        self._log(
            "info", "neighbor-gone", f"rank {rank} has left ({reason}): rounds {then}",
            neighbor=rank, reason=reason,
        )  # fmt: skip
