"""Transport: interface for messages over links; `transports/` implements it; no rounds, no gossip.

`dpeer.peer.transports` has the built-in ones, and takes others by address scheme.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from dpeer.peer.core.wire import Frames

Identity = int
"""The owner of a key that was proved; above transports this is a rank."""

RELAY = "relay://"
"""How the address of a rank begins that is reached through a relay at HOST:PORT."""

Link = Hashable
"""One direction-less connection to a peer. A dialled one stays the same when it is established again; for the listener
that is a new link."""


class Arrival(NamedTuple):
    """A whole message came on a link. A link that was not dialled is known from its first message on.

    Where keys are used, `identity` is the rank that the other end has proved; else it is None.
    """

    link: Link
    frames: Frames
    identity: Identity | None = None


class Opened(NamedTuple):
    """A dialled link has been established, again or for the first time."""

    link: Link


class Broken(NamedTuple):
    """A link's connection is broken; messages may be lost. The transport tries to establish a dialled one again."""

    link: Link


class Writable(NamedTuple):
    """A link that was full may take messages again."""

    link: Link


class Unreachable(NamedTuple):
    """A dialled link cannot be established at present, for this reason; the transport goes on trying."""

    link: Link
    reason: str
    unproved: bool = False
    """Whether a listener is there, and one side does not prove the key that the other expects."""


class TurnedAway(NamedTuple):
    """A connection was refused: "unlisted-key" or "no-key".

    `place` is the last one's host, if it is known; `times` is how often it happened.
    """

    place: str
    reason: str
    times: int


class Endless(NamedTuple):
    """A connection was ended because a message on it was longer than any may be, and its end had not come.

    `link` is the one that it was, None if no whole message had come on it; `place` the host at the other end.
    """

    link: Link | None
    place: str


class Relayed(NamedTuple):
    """This peer's relay cannot be used at present, for this reason, or can again (None)."""

    trouble: str | None


Event = Arrival | Opened | Broken | Writable | Unreachable | TurnedAway | Endless | Relayed


class Sent(enum.Enum):
    """Outcome of a `send`."""

    TAKEN = "taken"  # it is on its way
    FULL = "full"  # the other side does not keep up; to be tried again after a `Writable`
    GONE = "gone"  # the link is not there (any more)


class Transport(Protocol):
    """Moves whole messages, in order per link, each at most once; a broken link may lose messages.

    How many messages a link takes before the other side has read them is bounded.
    """

    @property
    def chunk_bytes(self) -> int | None:
        """The most bytes of buffers in a message: a longer body is sent in chunks; None for no bound."""

    async def listen(self, address: str) -> str:
        """Accept connections at the address; return it with the port that was really bound.

        Raises:
            AddressError: the address cannot be bound; names it.
        """

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect to a listener, again and again until it is there and whenever the connection breaks.

        This returns at once; a name is resolved elsewhere. `identity` is the rank that has to answer: where keys are
        used, no other gets a message.

        Raises:
            AddressError: this is no address.
        """

    def admit(self, keys: Mapping[Identity, tuple[str, ...]]) -> None:
        """Where keys are used, let in who has these public ones (hexadecimal) from now on, and dial them by these."""

    def drop(self, link: Link) -> None:
        """Give up a link for good; unsent messages are lost."""

    def send(self, link: Link, frames: Frames) -> Sent:
        """Send a message without waiting. Buffers must not change."""

    async def receive(self) -> Event:
        """The next event on any link; links take turns."""

    async def close(self, linger: float) -> None:
        """Deliver the messages that were taken, for at most `linger` seconds, and close every connection."""
