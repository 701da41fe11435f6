"""Transports carry frames between peers; they know nothing of rounds, ranks or gossip."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from dpeer.peer.wire import Frames

Link = Hashable
"""One direction-less connection to a peer, as long as it lasts. After a reconnect the other side may be a new link."""


class Arrival(NamedTuple):
    """A message that came on a link, or the news that a dialled link is there."""

    link: Link
    frames: Frames | None
    """A whole message, or None when a dialled link has just been established, again or for the first time."""


class Transport(Protocol):
    """Moves whole messages, in order per link, each at most once; a broken link may lose messages."""

    @property
    def piece_bytes(self) -> int | None:
        """The most bytes of buffers that a message should have: a longer one is to be cut before; None for no bound."""

    async def listen(self, address: str) -> str:
        """Accept connections at the address; return it with the port that was really bound.

        Raises:
            AddressError: the address cannot be bound; names it.
        """

    def dial(self, address: str) -> Link:
        """Connect to a listener, again and again until it is there and whenever the connection breaks."""

    def send(self, link: Link, frames: Frames) -> bool:
        """Queue a message without waiting; False when the link is not there (any more). Buffers must not change."""

    async def receive(self) -> Arrival:
        """The next arrival of any link."""

    async def close(self, linger: float) -> None:
        """Deliver the queued messages, for at most `linger` seconds, and close every connection."""
