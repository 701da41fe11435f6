"""Stamp table: the newest known stamp of each rank, merged by maximum, and the table as it travels; no I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.member_list import NO_KEY, Key
from dpeer.peer.core.member_lists import Stamp

_STAMP = struct.Struct("<i32si32sH")
"""Version and digest of the list that counts, the same of the one that waits, and how many ranks have this stamp."""

_RANK = np.dtype("<u2")


class StampTable(Mapping[int, Stamp]):
    """The table of one peer. Only a rank itself raises its entry; all others take the maximum of what comes.

    Ranks that have list 0 alone, as all have in a run without lists, have no entry.

    Args:
        rank: The peer.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._found: dict[int, Stamp] = {}
        self.table = b""
        """All entries, as they travel."""

    def __getitem__(self, rank: int) -> Stamp:
        return self._found[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def reached(self, rank: int, stamp: Stamp) -> bool:
        """Note that a rank itself says that it has these lists on disk; returns whether that is news."""
        if stamp <= self._found.get(rank, Stamp()):
            return False
        self._found[rank] = stamp
        self.table = _packed(self._found)
        return True

    def merge(self, table: bytes, knows: Callable[[int, Stamp], bool]) -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Args:
            table: As `table`.
            knows: Whether a rank's stamp may be believed: others are left out, and come again with the next message.

        Raises:
            ProtocolError: "malformed": it is not a table.
        """
        if table == self.table:  # as in almost every message
            return False
        news = False
        for rank, stamp in unpacked(table).items():
            if rank != self._rank and stamp > self._found.get(rank, Stamp()) and knows(rank, stamp):
                self._found[rank], news = stamp, True
        if news:
            self.table = _packed(self._found)
        return news


def unpacked(table: bytes) -> dict[int, Stamp]:
    """The entries of a table.

    Raises:
        ProtocolError: "malformed": it is none.
    """
    found: dict[int, Stamp] = {}
    at = 0
    while at < len(table):
        if len(table) - at < _STAMP.size:
            raise ProtocolError("malformed", "stamps of member lists end in the middle of one")
        counts, digest, waits, other, count = _STAMP.unpack_from(table, at)
        at += _STAMP.size
        ranks = table[at : at + count * _RANK.itemsize]
        if len(ranks) < count * _RANK.itemsize:
            raise ProtocolError("malformed", "stamps of member lists end in the middle of one")
        at += len(ranks)
        stamp = Stamp(_key(counts, digest), _key(waits, other))
        found |= dict.fromkeys(np.frombuffer(ranks, _RANK).tolist(), stamp)
    return found


def _key(version: int, digest: bytes) -> Key:
    return NO_KEY if version < 0 else Key(version, digest)


def _packed(found: Mapping[int, Stamp]) -> bytes:
    by_stamp: dict[Stamp, list[int]] = {}
    for rank in sorted(found):
        by_stamp.setdefault(found[rank], []).append(rank)
    return b"".join(
        _STAMP.pack(
            stamp.counts.version, stamp.counts.digest, stamp.waits.version, stamp.waits.digest, len(by_stamp[stamp])
        )
        + np.array(by_stamp[stamp], _RANK).tobytes()
        for stamp in sorted(by_stamp)
    )
