"""Long messages of `dpeer check --connect`: a path that loses long packets passes short messages and no hello.

The end that has dialled leads. Each message waits for the one before, as a packet may carry two:

    leader      short               long              turn                got
    the other           short               got               long

A running peer answers as it answers any stranger, by `Unknown`, once in `ASK_AGAIN` seconds; what it says first on a
link of its own is a hello, which is long. All messages begin with `wire.PROBE`, so no round is disturbed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import ASK_AGAIN, Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Arrival, Link, Transport
from dpeer.results.units import duration, size

LONG = 2**14
"""Bytes of a long message, as of a hello with some hundred parameter tensors: more than any packet has."""

SILENT = 8.0
"""Seconds after which what has not come is lost."""

_LATER = ASK_AGAIN + 0.5
"""Seconds after which a running peer answers again."""

_MOST = 5
"""Long messages to one neighbor, at most, however often it asks or connects."""

_WORD = 400
"""The most bytes of a message beside its filler."""


@dataclass
class _Line:
    """What has passed between this end and a neighbor.

    Attributes:
        link: The link to write on; None while none is known.
        leads: Whether this end has dialled.
        since: Clock time at which it was connected.
        short: Whether a message has come.
        long: Whether a long one has come.
        confirmed: Whether the neighbor has this end's long one.
        runs: Whether a peer runs there, and no check.
        again: Clock time at which a running peer is asked again; None for not at all.
        sent: How many long messages were sent.
        broken: Whether the connection broke while messages were awaited.
    """

    link: Link | None
    leads: bool
    since: float
    short: bool = False
    long: bool = False
    confirmed: bool = False
    runs: bool = False
    again: float | None = None
    sent: int = 0
    broken: bool = False

    @property
    def passed(self) -> bool:
        """Whether long messages pass, as far as this can be seen: a running peer sends none to who dials it."""
        return self.confirmed and (self.long or (self.runs and self.leads))


class LongMessages:
    """Exchanges short and long messages with neighbors, while its owner receives the transport's events.

    Args:
        transport: What carries the messages.
        rank: This peer.
        neighbors: Its neighbors; others get no answer.
    """

    def __init__(self, transport: Transport, rank: int, neighbors: frozenset[int]) -> None:
        self._transport, self._rank, self._neighbors = transport, rank, neighbors
        self._lines: dict[int, _Line] = {}
        self._filler = os.urandom(LONG)  # which no line compresses

    def met(self, rank: int, link: Link | None = None) -> None:
        """Note that a neighbor is connected, on this link if this end has dialled it, perhaps once more."""
        before = self._lines.get(rank)
        if before is not None and (link is None or before.passed):
            return
        sent = 0 if before is None else before.sent
        self._lines[rank] = line = _Line(link, link is not None, time.monotonic(), sent=sent)
        if line.leads:
            self._say(line, "short")

    def came(self, arrival: Arrival, rank: int | None) -> int | None:
        """Take a message.

        Args:
            arrival: The message.
            rank: Its sender, if the link or a key shows it; None takes the sender's word.

        Returns:
            The sender, if it is a neighbor.
        """
        word = _decode(arrival.frames) if wire.is_probe(arrival.frames) else _of_run(arrival.frames)
        if word is None or (rank is not None and word["rank"] != rank) or word["rank"] not in self._neighbors:
            return None
        sender: int = word["rank"]
        self.met(sender)
        line = self._lines[sender]
        line.link, line.short, line.broken = arrival.link, True, False
        match word["say"]:
            case "short" if not line.leads:
                line.since = time.monotonic()  # it has connected, perhaps once more
                self._say(line, "short")
            case "short":
                self._say_long(line)
            case "long" if wire.size(arrival.frames[1:]) == LONG:
                line.long = True
                self._say(line, "got")
            case "got":
                line.confirmed = True
                if line.leads:
                    self._say(line, "turn")
            case "turn":
                self._say_long(line)
            case "hello":
                line.runs = line.long = True
                if not line.confirmed:
                    self._say_long(line)
            case "unknown" if line.runs or not line.leads:  # asked again behind the long message
                line.runs, line.confirmed = True, line.sent > 0
            case "unknown":
                line.runs, line.again = True, time.monotonic() + _LATER
                self._say_long(line)
        return sender

    def broke(self, link: Link) -> None:
        """A link is broken: what was on its way is lost. Late, the neighbor has given up what did not come, too."""
        now = time.monotonic()
        for line in self._lines.values():
            line.broken |= line.link == link and now - line.since < SILENT / 2

    def look(self) -> None:
        """Ask running peers again that answer by now."""
        now = time.monotonic()
        for line in self._lines.values():
            if line.again is not None and now >= line.again:
                line.again = None
                self._say(line, "short")

    def settled(self, rank: int) -> bool:
        """Whether it is known if long messages pass to and from a neighbor that is connected."""
        line = self._lines.get(rank)
        waits = SILENT + (_LATER if line is not None and line.runs else 0.0)
        return line is None or line.passed or time.monotonic() - line.since > waits

    def passed(self, rank: int) -> str | None:
        """Where long messages pass, in words; None if they do not, or it is unknown."""
        line = self._lines.get(rank)
        if line is None or not line.passed:
            return None
        return "long messages pass in both directions" if line.long else "it has a long message of this peer"

    def lost(self, rank: int) -> str | None:
        """In which direction short messages pass and long ones do not, in words; None if that is not known."""
        line = self._lines.get(rank)
        if line is None or line.passed or line.broken or not line.short:
            return None
        way = "from it" if not line.long and (line.confirmed or not line.leads) else "to it"
        return (
            f"short messages pass, and none of {size(LONG)} {way}: its path loses long packets: look at the MTU of the "
            "VPN, or of a tunnel"
        )

    def silent(self, rank: int) -> str:
        """Why it is unknown whether long messages pass."""
        line = self._lines.get(rank)
        if line is not None and line.broken:
            return "the connection broke meanwhile: check again"
        return (
            f"no message came within {duration(SILENT)}: check again, or its path loses long packets (look at the MTU "
            "of the VPN)"
        )

    def _say(self, line: _Line, say: str, *filler: Any) -> None:
        if line.link is not None:
            word = wire.PROBE + json.dumps({"rank": self._rank, "say": say}).encode()
            self._transport.send(line.link, [word, *filler])  # of a link that is full or gone nothing comes, either

    def _say_long(self, line: _Line) -> None:
        if line.sent < _MOST:
            line.sent += 1
            self._say(line, "long", self._filler)


def _decode(frames: Frames) -> Mapping[str, Any] | None:
    """A message of another check; None for what is none."""
    head = bytes(frames[0][: _WORD + 1])
    if len(head) > _WORD:
        return None
    try:
        word = json.loads(head[len(wire.PROBE) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(word, dict) or type(word.get("rank")) is not int or not isinstance(word.get("say"), str):
        return None
    return word


def _of_run(frames: Frames) -> Mapping[str, Any] | None:
    """A message of a running peer in the same form; None for one that says nothing of the line."""
    try:
        message = wire.decode(frames, Limits())
    except ProtocolError:
        return None
    return {"rank": message.rank, "say": message.kind} if isinstance(message, wire.Hello | wire.Unknown) else None
