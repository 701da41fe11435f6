"""Effects: actions (dial, write, wake, log, ...) that `Core` returns, and its driver executes in list order.

An effect names the action, never its means: the core knows no sockets, clocks, tasks or logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeer.peer.core.bodies import Received
from dpeer.peer.core.member_list import MemberList, Stamp
from dpeer.peer.transport import Link


@dataclass(frozen=True)
class Dial:
    """Connect to the rank, and pass the link to `Core.dialled`."""

    rank: int
    address: str | None = None
    """Where a member list says that it is; None for where it was at the start."""


@dataclass(frozen=True)
class Close:
    """Give up a dialled link for good."""

    link: Link


@dataclass(frozen=True)
class Write:
    """Write what `Core.outgoing` gives for the link, as long as it gives something and the link takes it."""

    link: Link


@dataclass(frozen=True)
class Keep:
    """Write both member lists, and pass the stamp to `Core.kept` once they are on disk."""

    counts: MemberList
    waits: MemberList | None
    stamp: Stamp


@dataclass(frozen=True)
class Admit:
    """Let in who has these public keys from now on, by rank."""

    keys: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Deliver:
    """End the round loop's wait with a round's bodies, by rank in rank order."""

    number: int
    bodies: Mapping[int, Received]


@dataclass(frozen=True)
class Wake:
    """End another wait of the round loop: neighbors are there, or a round may be completed."""

    bytes_sent: int = 0
    """Of the round that may be completed: the bytes of all copies of its body."""


@dataclass(frozen=True)
class Fail:
    """End the round loop's wait with an error: nothing that it waits for can come any more."""

    error: Exception


@dataclass(frozen=True)
class LogEvent:
    """Log an event.

    Attributes:
        level: How much it matters.
        event: A short name that stays the same from version to version.
        message: The whole sentence: peer, reason and remedy.
        fields: For programs that read the log: "neighbor", "round", "reason".
    """

    level: Literal["debug", "info", "warning"]
    event: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Throttle:
    """A sender is over its rate limit: after several of these, nothing is to be read for a moment."""


Effect = Dial | Close | Write | Keep | Admit | Deliver | Wake | Fail | LogEvent | Throttle
