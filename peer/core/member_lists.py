"""Member lists of one peer: the one that counts, at most one that waits for votes, and when that one counts; no I/O.

A peer has voted for the list that waits: it is on its disk. It counts once a quorum of the members of the list in use
has it on disk; from then on, or by another list that counts, nothing waits any more. The peer uses a list that counts
from the next round that it begins.

A rank's `Stamp` says which lists it has on disk. It only grows, so it travels in the presence table beside the rank's
completed rounds, and an old one is merely low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dpeer.peer.core.member_list import NO_KEY, Key, MemberList, is_quorum


class Stamp(NamedTuple):
    """What a rank has on disk: the list that counts there, and the one that waits (`NO_KEY` without one)."""

    counts: Key = NO_KEY
    waits: Key = NO_KEY


class Word(NamedTuple):
    """The lists of another peer, verified: the one that counts there, and the one that waits, if any."""

    counts: MemberList
    waits: MemberList | None = None


class Change(NamedTuple):
    """What was decided about a peer's lists, and why; `why` is a sentence for the log."""

    one: MemberList
    why: str


class MemberLists:
    """The two lists of a peer.

    Args:
        counts: The list that counts.
        waits: The list that it has voted for, and that does not count yet.

    Attributes:
        counts: As given, and as it changes.
        waits: Likewise; None without one.
    """

    def __init__(self, counts: MemberList, waits: MemberList | None = None) -> None:
        self.counts, self.waits = counts, waits

    @property
    def stamp(self) -> Stamp:
        """What to say once both are on disk."""
        return Stamp(self.counts.key, NO_KEY if self.waits is None else self.waits.key)

    @property
    def newest(self) -> MemberList:
        """The list that waits, or the one that counts."""
        return self.waits or self.counts

    def take(self, word: Word) -> list[Change]:
        """Take in another peer's lists, by the rules of `RULES`; returns what has changed.

        The caller puts both lists on disk if anything has, and raises its own stamp after that.
        """
        changes = []
        for rule in RULES:
            if (one := rule.takes(self, word)) is not None:
                changes.append(Change(one, rule.then))
                if rule.counts:
                    self.counts, self.waits = one, None
                else:
                    self.waits = one
        return changes

    def review(self, stamps: Mapping[int, Stamp]) -> Change | None:
        """Whether the list that waits counts, now that ranks have these stamps: it is used from now on.

        A newcomer's list may follow one that the newcomer lacks, of other members: their votes it cannot count.
        """
        one = self.waits
        if one is None or one.previous != self.counts.digest or not is_quorum(self.counts.members, self.voters(stamps)):
            return None
        voters, members = len(self.voters(stamps)), len(self.counts.members)
        self.counts, self.waits = one, None
        return Change(one, f"{voters} of {members} members have it on disk")

    def knows(self, rank: int, stamp: Stamp) -> bool:
        """Whether a stamp is of lists that this peer has, and its rank is in one of them.

        A stamp of other lists proves nothing: they may not exist.
        """
        held = [one for one in (self.counts, self.waits) if one is not None]
        listed = any(rank in one.members or rank in one.former for one in held)
        return listed and {*stamp} <= {*self.stamp, NO_KEY}

    def voters(self, stamps: Mapping[int, Stamp]) -> set[int]:
        """The members of the list that counts which have the one that waits on disk."""
        if self.waits is None:
            return set()
        return {rank for rank, stamp in stamps.items() if self.waits.key in stamp and rank in self.counts.members}


def _counts_there(ours: MemberLists, word: Word) -> MemberList | None:
    """A list counts at the other peer, and its key is higher."""
    return word.counts if word.counts.key > ours.counts.key else None


def _is_forced(ours: MemberLists, word: Word) -> MemberList | None:
    """A list is forced, and its key is higher."""
    one = word.waits
    return one if one is not None and one.force and one.key > ours.counts.key else None


def _is_voted_for(ours: MemberLists, word: Word) -> MemberList | None:
    """A list follows the one that counts; none waits here, or one of a lower version."""
    one = word.waits
    if one is None or one.force or one.why_not_after(ours.counts) is not None:
        return None
    return one if ours.waits is None or one.version > ours.waits.version else None


class Rule(NamedTuple):
    """One way in which a list is taken.

    Attributes:
        then: What happens, as docs/design.md prints it.
        counts: Whether the list counts from now on; otherwise it waits.
        takes: The list; None where the condition does not hold, which the docstring says.
    """

    then: str
    counts: bool
    takes: Callable[[MemberLists, Word], MemberList | None]


RULES = (
    Rule("it counts here, too", True, _counts_there),
    Rule("it counts at once", True, _is_forced),
    Rule("the peer votes for it", False, _is_voted_for),
)
"""When a peer takes a list that comes, in the order in which the rules are asked."""


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
