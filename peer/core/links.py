"""Links to one neighbor: which connection is written on where both peers have dialled each other; no I/O.

Two peers that dial each other at once have two connections. Each reads both and writes on the one that the lower rank
has dialled, the rule by which BGP settles such a collision. Both ends know which of them has dialled, so they choose
alike whatever comes first. What comes late shows by the numbers of the hellos, and which connections are one process's
by its name: another process of the rank has connections of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dpeer.peer.transport import Link


class Taken(NamedTuple):
    """What a hello has changed."""

    late: bool
    """Whether a later hello of the process came before it: only the link may be news."""
    ended: list[Link]
    """The links that are of no use any more."""


@dataclass
class Links:
    """The links on which one process of a neighbor has shaken hands: at most one that either end has dialled.

    Attributes:
        process: The process, by the name in its hellos; empty if it has none.
        dialled: The link that this peer has dialled.
        accepted: The link that the neighbor has dialled.
        heard: The link of the neighbor's last message but hellos: there it writes.
    """

    process: bytes = b""
    dialled: Link | None = None
    accepted: Link | None = None
    heard: Link | None = None
    _latest: int = 0
    """The highest number of a hello."""
    _alone: bool = False
    """Whether its sender had no other link."""
    _serials: dict[Link, int] = field(default_factory=dict)
    """By link, the number of the last hello on it."""

    @property
    def all(self) -> list[Link]:
        """The links, one or two or none."""
        return [link for link in (self.dialled, self.accepted) if link is not None]

    def chosen(self, *, lower: bool) -> Link | None:
        """The link to write on; None without one. `lower`: whether this peer has the lower rank of the two."""
        dialled, accepted = self.dialled, self.accepted
        first, second = (dialled, accepted) if lower else (accepted, dialled)
        return second if first is None else first

    def is_of(self, process: bytes) -> bool:
        """Whether a hello's process is the one that has these links."""
        return bool(process) and process == self.process

    def take(self, link: Link, *, dialled: bool, process: bytes, serial: int, alone: bool) -> Taken:
        """Note a hello.

        Args:
            link: Where it came.
            dialled: Whether this peer has dialled that link.
            process: The process that has sent it.
            serial: Its number among the hellos of that process.
            alone: Whether the sender has no other link to this peer.
        """
        ended = []
        if not self.is_of(process):
            ended = [one for one in self.all if one != link]
            self.process, self.dialled, self.accepted, self.heard = process, None, None, None
            self._latest, self._serials = serial, {}
        late = serial < self._latest
        if late and self._alone:  # the sender has lost this link since
            return Taken(late, ended)
        same, other = (self.dialled, self.accepted) if dialled else (self.accepted, self.dialled)
        if same not in (None, link):  # of one dialler the new connection is the one that lasts
            if serial < self._serials[same]:
                return Taken(late, ended)
            ended.append(same)
        if not late:
            self._latest, self._alone = serial, alone
            if alone and other is not None:
                ended.append(other)
        for one in ended:
            self.lose(one)
        if dialled:
            self.dialled = link
        else:
            self.accepted = link
        self._serials[link] = serial
        return Taken(late, ended)

    def lose(self, link: Link) -> None:
        """Note that a link is broken."""
        self.dialled = None if self.dialled == link else self.dialled
        self.accepted = None if self.accepted == link else self.accepted
        self.heard = None if self.heard == link else self.heard
        self._serials.pop(link, None)
