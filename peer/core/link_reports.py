"""LinkReports: what the transport reports about links: noted for the neighbor, counted, and logged; no I/O."""

from __future__ import annotations

from collections.abc import Callable

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.drop_counter import DropCounter
from dpeer.peer.core.membership import Membership
from dpeer.peer.transport import Link


class LinkReports:
    """Logs each report with the neighbor's rank, and what an operator can do.

    Args:
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.
    """

    def __init__(self, members: Membership, dialling: Dialling, drops: DropCounter, log: Callable[..., None]) -> None:
        self._members = members
        self._dialling = dialling
        self._drops = drops
        self._log = log
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
