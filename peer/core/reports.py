"""Reports: counts unusable messages by reason, and logs them, neighbors' deaths and goodbyes, and trouble of links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import LINES_OF_STRANGERS
from dpeer.peer.core.membership import Dialling, Neighbor
from dpeer.peer.core.state import State
from dpeer.peer.core.wire import Goodbyes, printable
from dpeer.peer.transport import Link

_OTHERS = "see who dials this peer's address: it takes part in another run, or with other settings"
_VERSIONS = "see that both sides run the same version of dpeer, and that no other program reaches this peer's port"
_FLOOD = "it sends much more than a peer needs to: see what runs there"
_ITS_LOG = "see that peer's own log.jsonl"

_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("stranger", "other-federation", "not-a-neighbor", "mismatch", "wrong-rank"), _OTHERS),
    **dict.fromkeys(("malformed", "oversized", "incomplete", "stray", "short-piece", "unhandled"), _VERSIONS),
    **dict.fromkeys(("too-many", "endless"), _FLOOD),
}
"""The remedy, by reason; the other reasons are of bodies that arrived whole."""


class Reports:
    """Logs what becomes of messages, neighbors and links; trouble of a link is noted for its neighbor, too.

    Attributes:
        counts: How many messages were dropped, by reason.
    """

    def __init__(self, state: State, dialling: Dialling) -> None:
        self.counts: Counter[str] = Counter()
        self._members, self._dialling = state.members, dialling
        self._state, self._log = state, state.log
        self._relay_trouble: str | None = None
        self._logged: set[tuple[int, str]] = set()
        self._turned_away: set[tuple[str, str]] = set()
        self._strangers: set[tuple[Link, str]] = set()

    def drop(self, link: Link, error: ProtocolError, identity: int | None = None) -> None:
        """Count a message that came on a link and could not be used; arguments as of `count_stranger`."""
        neighbor = self._members.by_link(link)
        if neighbor is None:
            self.count_stranger(link, error, identity)
        else:
            self.count(neighbor.rank, error)

    def count(self, rank: int, error: ProtocolError) -> None:
        """Count a neighbor's message that was dropped, and log the first one for each reason."""
        self.counts[error.reason] += 1
        if (rank, error.reason) not in self._logged:
            self._logged.add((rank, error.reason))
            self._report(f"rank {rank}", error, neighbor=rank)

    def count_stranger(self, link: Link, error: ProtocolError, identity: int | None = None) -> None:
        """Count a message of a sender that is no neighbor yet; `identity` is the rank whose key it proved."""
        self.counts[error.reason] += 1
        if (link, error.reason) in self._strangers or len(self._strangers) >= LINES_OF_STRANGERS:
            return
        self._strangers.add((link, error.reason))
        last = "" if len(self._strangers) < LINES_OF_STRANGERS else " (further ones are only counted)"
        if identity is None:
            self._report("a stranger", error, last)
        else:
            self._report(f"rank {identity} (its key is proved)", error, last, neighbor=identity)

    def count_turned_away(self, place: str, reason: str, times: int) -> None:
        """Count connections from this host that did not prove a listed key."""
        self.counts[reason] += times
        if (place, reason) in self._turned_away or len(self._turned_away) >= LINES_OF_STRANGERS:
            return
        self._turned_away.add((place, reason))
        what = {"unlisted-key": "its key is not in the federation file", "no-key": "it proved no key"}[reason]
        self._state.log_free(
            "warning", "turned-away",
            f"turned away a connection{f' from {place}' if place else ''}: {what}; see who dials this peer's address: "
            "a peer with a new key, one without keys, or no peer of this federation",
            reason=reason, place=place,
        )  # fmt: skip

    def _report(self, who: str, error: ProtocolError, more: str = "", **fields: int) -> None:
        advice = _ADVICE.get(error.reason, _ITS_LOG)
        message = f"dropped a message from {who}: {printable(str(error))}; {advice}{more}"
        self._state.log_free("warning", "message-dropped", message, reason=error.reason, **fields)

    def endless(self, link: Link | None, place: str) -> None:
        """A connection was ended on which a message had no end; None if nothing had come on it before."""
        error = ProtocolError(
            "endless", f"it came from {place}, was longer than any may be and had no end: the connection was ended"
        )
        known = self._members.by_link(link) or self._dialling.get(link)
        if known is not None:
            self.count(known.rank, error)
        else:
            self.count_stranger(f"from {place}", error)

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
