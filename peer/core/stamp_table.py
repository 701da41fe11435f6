"""Stamp table: the newest known stamp of each rank, merged by maximum, and the table as it travels; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dpeer.peer.core.member_lists import Stamp

Stamps = Sequence[tuple[Stamp, list[int]]]
"""A table as it travels: each stamp with the ranks that have it, both sorted."""


class StampTable(Mapping[int, Stamp]):
    """The table of one peer. Only a rank itself raises its entry; all others take the maximum of what comes.

    Ranks that have list 0 alone, as all have in a run without lists, have no entry.

    Args:
        rank: The peer.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._found: dict[int, Stamp] = {}
        self.table: Stamps = []
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
        self.table = _by_stamp(self._found)
        return True

    def merge(self, table: Stamps, knows: Callable[[int, Stamp], bool]) -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Args:
            table: As `table`.
            knows: Whether a rank's stamp may be believed: others are left out, and come again with the next message.
        """
        if table == self.table:  # as in almost every message
            return False
        news = False
        for rank, stamp in by_rank(table).items():
            if rank != self._rank and stamp > self._found.get(rank, Stamp()) and knows(rank, stamp):
                self._found[rank], news = stamp, True
        if news:
            self.table = _by_stamp(self._found)
        return news


def by_rank(table: Stamps) -> dict[int, Stamp]:
    """The stamp of each rank in a table."""
    return {rank: stamp for stamp, ranks in table for rank in ranks}


def _by_stamp(found: Mapping[int, Stamp]) -> Stamps:
    ranks: dict[Stamp, list[int]] = {}
    for rank in sorted(found):
        ranks.setdefault(found[rank], []).append(rank)
    return sorted(ranks.items())
