"""What a peer's core wants done. `Core` returns these; whoever runs it does them, in this order.

An effect says what, never how: the core knows no sockets, clocks, tasks or logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeer.peer.core.inbox import Received
from dpeer.peer.transports import Link


@dataclass(frozen=True)
class Dial:
    """Connect to the rank, and tell the core by `Core.dialled` which link that is."""

    rank: int


@dataclass(frozen=True)
class Close:
    """Give up a dialled link for good."""

    link: Link


@dataclass(frozen=True)
class Write:
    """Write what `Core.outgoing` gives for the link, as long as it gives something and the link takes it."""

    link: Link


@dataclass(frozen=True)
class Deliver:
    """A round's bodies, by rank in rank order, are what the round loop waits for."""

    number: int
    bodies: Mapping[int, Received]


@dataclass(frozen=True)
class Wake:
    """What else the round loop waits for has come: neighbors are there, or a round may be completed."""

    bytes_sent: int = 0
    """Of the round that may be completed: the bytes of all copies of its body."""


@dataclass(frozen=True)
class Fail:
    """What the round loop waits for cannot come any more."""

    error: Exception


@dataclass(frozen=True)
class Say:
    """Log something.

    Attributes:
        level: How much it matters.
        event: A short name that stays the same from version to version.
        message: The whole sentence: who, why and what to do.
        fields: What a program that reads the log wants to know: "neighbor", "round", "reason".
    """

    level: Literal["debug", "info", "warning"]
    event: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rest:
    """Its sender had nothing left for a message: after several of these, nothing is to be read for a moment."""


Effect = Dial | Close | Write | Deliver | Wake | Fail | Say | Rest
