"""Which connections a listener that knows its peers by keys has, and which of them to end. Bookkeeping; no I/O.

A stranger can open a connection without any key. Until it has proved one, libzmq keeps for it a file descriptor, some
kilobytes, and a first frame of the length that it announces. So how many such connections there are is bounded, and how
long they last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dpeer.peer.core.limits import MOST_UNPROVED, PROVE_WITHIN
from dpeer.peer.transports.keys import Identity


@dataclass
class Connection:
    """One accepted connection.

    Attributes:
        place: From where it came: a host's address.
        since: Clock time at which it was accepted.
        identity: Who has proved a key on it and has said something; None until then.
        ending: Whether it is to be ended, which takes a moment.
    """

    place: str
    since: float
    identity: Identity | None = None
    ending: bool = False


class Connections:
    """All connections that were accepted, by the number of their file descriptor.

    Every method that may have made them too many returns those that are to be ended.
    """

    def __init__(self) -> None:
        self._all: dict[int, Connection] = {}

    def accepted(self, number: int, place: str, now: float) -> list[int]:
        """Note a new connection.

        If too many have not proved a key, the oldest one is ended that came from where most of them came from: who
        floods from one host displaces itself.
        """
        self._all.pop(number, None)
        self._all[number] = Connection(place, now)
        unproved = {number: one for number, one in self._all.items() if one.identity is None and not one.ending}
        if len(unproved) <= MOST_UNPROVED:
            return []
        busiest, _ = Counter(one.place for one in unproved.values()).most_common(1)[0]
        return self._end([next(number for number, one in unproved.items() if one.place == busiest)])

    def spoke(self, number: int, identity: Identity, now: float) -> list[int]:
        """Note that a message has come whose sender has proved to be this one: its newest connection stays."""
        one = self._all.get(number)
        if one is not None and one.identity == identity:
            return []
        if one is None:  # the word that it was accepted comes later than its first message
            one = self._all[number] = Connection("", now)
        one.identity = identity
        return self._end(
            [older for older, other in self._all.items() if other.identity == identity and older != number]
        )

    def closed(self, number: int) -> None:
        """Note that a connection has ended."""
        self._all.pop(number, None)

    def _end(self, numbers: list[int]) -> list[int]:
        for number in numbers:
            self._all[number].ending = True
        return numbers

    def overdue(self, now: float) -> list[int]:
        """Those that have had long enough to prove a key."""
        return [number for number, one in self._all.items() if one.identity is None and now - one.since >= PROVE_WITHIN]

    def __len__(self) -> int:
        return len(self._all)
