"""What libzmq holds of each connection of a socket because the end of a message has not come. Bookkeeping; no I/O.

libzmq keeps the frames of a message until the last one is there, however many there are. It says of each frame that it
hands out on which connection that came, and the operating system says how many bytes libzmq has taken from a
connection. What it has taken and not handed out is what it holds: whole messages that wait to be read, of which there
are `UNREAD` at most, and a part of one more. An honest peer's message has a greatest length, so both have a bound.

Lengths are counted as they are on the wire, to the byte: were it more, a hostile peer could save up the difference with
many short frames, and spend it on a long message; were it less, an honest one would use it up in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpeer.peer.core.limits import AROUND, UNREAD, Limits

_SEAL = 33
"""Bytes by which encryption makes a frame longer: 8 of a name, 8 of a number, 16 of a proof, 1 of flags."""

_SHORT = 255
"""The longest frame whose length is written in one byte; with the flags it takes 2 bytes more, a longer one 9."""


def on_the_wire(lengths: Iterable[int], *, sealed: bool) -> int:
    """How many bytes a connection carries for frames of these lengths, with encryption or without."""
    seal = _SEAL if sealed else 0
    return sum(length + seal + (2 if length + seal <= _SHORT else 9) for length in lengths)


def longest_message(limits: Limits, piece_bytes: int) -> int:
    """Bytes on the wire that an honest peer's longest message does not reach."""
    return limits.header_bytes + min(piece_bytes, limits.payload_bytes) + AROUND


@dataclass
class _Connection:
    """One connection.

    Attributes:
        delivered: Bytes of the messages that were handed out.
        noted: What had been taken when it was looked at last, if that was more than one message beyond `delivered`.
        ended: Whether it is to be ended, which takes a moment.
    """

    delivered: int = 0
    noted: int | None = None
    ended: bool = False


class Undelivered:
    """The connections of one socket, by the number of their file descriptor.

    Args:
        longest: Bytes that no honest message reaches.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._all: dict[int, _Connection] = {}
        self._early: dict[int, int] = {}

    @property
    def numbers(self) -> list[int]:
        """Those that are to be looked at."""
        return [number for number, one in self._all.items() if not one.ended]

    def opened(self, number: int) -> None:
        """Note a new connection. Its first message may have been handed out before this word of it came."""
        self._all[number] = _Connection(self._early.pop(number, 0))

    def closed(self, number: int) -> None:
        """Note that a connection has ended. Some of its messages may be handed out later."""
        self._all.pop(number, None)
        self._early.pop(number, None)

    def delivered(self, number: int, nbytes: int) -> None:
        """Note that a message of so many bytes on the wire was handed out."""
        one = self._all.get(number)
        if one is None:
            self._early[number] = self._early.get(number, 0) + nbytes
        else:
            one.delivered += nbytes

    def look(self, number: int, received: int, taken: int) -> bool:
        """Note what has come on a connection so far; returns whether that is endless for certain.

        It is if more is held than all that may wait to be read. If it is more than one message, `emptied` will tell.

        Args:
            number: Which connection.
            received: Bytes that have come.
            taken: How many of them libzmq has taken, at least.
        """
        one = self._all[number]
        # What was handed out of an earlier connection with this number must not count for the new one.
        one.delivered = min(one.delivered, received)
        held = taken - one.delivered
        one.noted = taken if held > self._longest else None
        one.ended = held > self._longest * (UNREAD + 2)
        return one.ended

    @property
    def doubtful(self) -> bool:
        """Whether `emptied` is waited for."""
        return any(one.noted is not None and not one.ended for one in self._all.values())

    def emptied(self) -> list[int]:
        """Note that no whole message waits to be read; returns the connections that turn out to be endless.

        Nothing but part of one message is left of what had been taken from them at the last look.
        """
        found = []
        for number, one in self._all.items():
            if one.noted is not None and not one.ended:
                one.ended = one.noted - one.delivered > self._longest
                one.noted = None
                if one.ended:
                    found.append(number)
        return found
