"""Receive time: the seconds in which at least one neighbor's body is arriving; no I/O."""

from __future__ import annotations

from collections.abc import Callable

from dpeer.peer.transport import Link


class ReceiveTime:
    """Adds up the time in which at least one body is on its way to this peer, from its header to its last chunk.

    A body that travels in one message takes no time here.

    Args:
        is_coming: Whether a body is on its way on a link: one whose link broke is not.
    """

    def __init__(self, is_coming: Callable[[Link], bool]) -> None:
        self._is_coming = is_coming
        self._links: set[Link] = set()
        self._since = self._seconds = 0.0

    def begin(self, link: Link, now: float) -> None:
        """The header of a body came, and its chunks follow."""
        self._count(now)
        self._links.add(link)

    def end(self, link: Link, now: float) -> None:
        """The last chunk of a body came."""
        self._count(now)
        self._links.discard(link)

    def seconds(self, now: float) -> float:
        """All such seconds so far."""
        self._count(now)
        return self._seconds

    def _count(self, now: float) -> None:
        if self._links:
            self._seconds += now - self._since
            self._links = {link for link in self._links if self._is_coming(link)}
        self._since = now
