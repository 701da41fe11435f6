"""Member lists: the signed document of who takes part, the two lists of a peer, and when one counts; no I/O.

Operators sign the canonical bytes of a list. Its digest is their SHA-256, so a list is named by what it says. List 0 is
the federation file: it has no signatures, and each site has it already.

A peer has two lists at most: the one that counts, and one that waits for votes. It has voted for that: it is on its
disk. It counts once a quorum of the members of the list in use has it on disk; from then on, or by another list that
counts, nothing waits any more. The peer uses a list that counts from the next round that it begins. A rank's `Stamp`
says which lists it has on disk. It only grows, so it travels in the presence table beside the rank's completed rounds,
and an old one is merely low.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from dpeer.exceptions import DpeerError

_DOMAIN = b"dpeer member list 1\n"
"""What is signed begins with it, so that no signature of another document fits."""

MOST_BYTES = 2**19
"""The most bytes of a document: some two thousand members. Two of them are one message."""

_MOST_RANKS = 2**16 - 1
MOST_ROUNDS = 2**31 - 2

Gone = Literal["left", "evicted"]


def _printable(text: str) -> str:
    if not text.isprintable():  # an escape would hide what an operator reads
        raise ValueError(text)
    return text


_Rank = Annotated[int, Field(ge=0, lt=_MOST_RANKS)]
_Text = Annotated[str, AfterValidator(_printable)]
_Hex = Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MemberListError(DpeerError):
    """A member list cannot be read, is not signed as it must be, or does not follow the one before it."""


class Key(NamedTuple):
    """What orders lists: of two that count the one with the higher key is newer."""

    version: int
    digest: Annotated[bytes, Field(max_length=32)]


NO_KEY = Key(-1, b"")
"""Below the key of every list."""


class Signers(NamedTuple):
    """The operators of a federation.

    Attributes:
        keys: Their public keys, hexadecimal.
        needed: How many of them must sign a list.
    """

    keys: tuple[str, ...] = ()
    needed: int = 1


@dataclass(frozen=True)
class Member:
    """A member.

    Attributes:
        address: Where neighbors dial it; None for one that only dials out.
        keys: Its public keys, hexadecimal; none in a federation without keys.
        weight: What it brings, where weights are declared.
    """

    address: _Text | None = None
    keys: tuple[_Hex, ...] = ()
    weight: Annotated[int, Field(gt=0, lt=2**63)] | _Weight | None = None


@dataclass(frozen=True)
class Former:
    """A rank that was a member: its keys, with which it may still ask for the lists, and how it went."""

    keys: tuple[_Hex, ...]
    gone: Gone


@dataclass(frozen=True)
class MemberList:
    """A list.

    Attributes:
        federation: The hash of the fingerprint, hexadecimal.
        version: Its number; of two lists that count the higher one is used.
        previous: The digest of the list that it follows; empty for list 0.
        members: By rank.
        former: Ranks that were members, which no other peer gets.
        rounds: How many the run has.
        graph: The topology's name, with its parameters.
        edges: A digest of the graph's edges and weights over the members in the order of their ranks.
        force: Whether it counts at once, without a quorum: the operators vouch that those it takes out do not run on.
        signatures: By operator's public key, hexadecimal.
    """

    federation: _Hex
    version: Annotated[int, Field(ge=0, lt=2**31)]
    previous: bytes
    members: Mapping[_Rank, Member]
    former: Mapping[_Rank, Former]
    rounds: Annotated[int, Field(ge=0, le=MOST_ROUNDS)]
    graph: _Text
    edges: _Hex
    force: bool = False
    signatures: Mapping[_Hex, bytes] = field(default_factory=dict, compare=False)

    __pydantic_config__ = ConfigDict(strict=True, val_json_bytes="hex", ser_json_bytes="hex")

    @cached_property
    def canonical(self) -> bytes:
        """The bytes that are signed: JSON with sorted keys and without blanks, behind a fixed line.

        Of list 0 they have the ranks alone: each site has a federation file of its own, in which a member may have
        another address, or the next one of two keys already.
        """
        ranks = {} if self.version else {"members": sorted(self.members)}
        return _DOMAIN + _packed({key: value for key, value in self.document.items() if key != "signatures"} | ranks)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical).digest()

    @property
    def key(self) -> Key:
        """What orders it among lists."""
        return Key(self.version, self.digest)

    @property
    def next_rank(self) -> int:
        """The lowest rank that none has ever had."""
        return max((*self.members, *self.former), default=-1) + 1

    @property
    def document(self) -> dict[str, Any]:
        """The document, as plain JSON values."""
        found: dict[str, Any] = _LIST.dump_python(self, mode="json")
        return found

    def encode(self) -> bytes:
        """The document, as it travels."""
        return _packed(self.document)

    def signed(self, secret: Ed25519PrivateKey) -> MemberList:
        """The list with this operator's signature, too."""
        operator = secret.public_key().public_bytes_raw().hex()
        return replace(self, signatures={**self.signatures, operator: secret.sign(self.canonical)})

    def verify(self, federation: str, signers: Signers) -> None:
        """Refuse a list of another federation, one that too few operators have signed, or with another signature.

        Args:
            federation: The hash of this peer's fingerprint, hexadecimal.
            signers: Those of the federation file.

        Raises:
            MemberListError: Says which list, and what it lacks.
        """
        if self.federation != federation:
            raise MemberListError(
                f"member list {self.version}: it is of federation {self.federation[:16]}, and this run is "
                f"{federation[:16]}: hand over a list of this run"
            )
        if len(self.signatures) < max(1, signers.needed):
            raise MemberListError(
                f"member list {self.version}: {len(self.signatures)} operators have signed it, expected "
                f"{signers.needed}: sign it with `dpeer members sign`"
            )
        for operator in self.signatures:  # one that is not checked would be passed on all the same
            if operator not in signers.keys or not self.has_signed(operator):
                raise MemberListError(
                    f"member list {self.version}: the signature of {operator[:16]}… is none of an operator in the "
                    "federation file: make the list anew"
                )

    def why_not_after(self, before: MemberList) -> str | None:
        """The reason why this list may not be voted for where `before` counts; None if it may be."""
        stay = self.members.keys() & before.members.keys()
        gone = before.members.keys() - stay
        fresh = self.members.keys() - stay
        kept = {rank: one for rank, one in self.former.items() if rank in before.former}
        if self.previous != before.digest:
            return f"it follows another list than the one in use, {before.version}"
        if self.version <= before.version:
            return f"its version is not above {before.version}"
        if self.rounds < before.rounds:
            return f"it has {self.rounds} rounds, fewer than {before.rounds}"
        if len(self.members) < 2:
            return "it has fewer than two members"
        if kept != before.former or not gone <= self.former.keys() or self.former.keys() & self.members.keys():
            return "`former` lacks a rank that was a member, or names one that still is"
        if {*self.former} - {*before.former} != gone:
            return "`former` names a rank that never was a member"
        if fresh != {*range(before.next_rank, before.next_rank + len(fresh))}:
            return f"its new ranks are {', '.join(map(str, sorted(fresh)))}: the next free one is {before.next_rank}"
        if not is_quorum(self.members, stay):
            return f"{len(fresh)} newcomers outnumber the {len(stay)} members that stay"
        return None

    def has_signed(self, operator: str) -> bool:
        """Whether the signature in this name is one of this list."""
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator)).verify(
                self.signatures[operator], self.canonical
            )
        except (InvalidSignature, ValueError):
            return False
        return True


_LIST = TypeAdapter(MemberList)


def is_quorum(members: Collection[int], ranks: Iterable[int]) -> bool:
    """Whether these ranks are more than half of the members, or exactly half with the lowest rank."""
    found = {rank for rank in ranks if rank in members}
    return 2 * len(found) > len(members) or (2 * len(found) == len(members) and min(members, default=0) in found)


def decode(document: bytes) -> MemberList:
    """The list of a document that came from anywhere; its signatures are not verified.

    Raises:
        MemberListError: It is not one, or not written as `encode` writes it.
    """
    if len(document) > MOST_BYTES:
        raise MemberListError(f"member list: {len(document):,} bytes, expected at most {MOST_BYTES:,}")
    try:
        found = _LIST.validate_json(document)
    except ValueError:
        raise MemberListError(
            f"member list of {len(document):,} bytes: the document is damaged, or not a list"
        ) from None
    if found.encode() != document:  # two documents of one list would have two digests
        raise MemberListError(f"member list {found.version}: the document is damaged: dpeer writes it otherwise")
    return found


def of_document(document: Any) -> MemberList:
    """The list of a document that was read as JSON from a file, or from a control socket; errors as of `decode`."""
    try:
        return decode(_packed(document))
    except (TypeError, ValueError) as error:
        raise MemberListError(f"member list: no JSON ({error})") from error


def _packed(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


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
    """The two lists of a peer: the one that counts, and the one that it has voted for, None without one."""

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


@lru_cache(maxsize=8)
def unsigned(size: int, rounds: int) -> MemberList:
    """List 0 of a federation without operators: so many ranks, of which only the numbers count."""
    return MemberList("", 0, b"", dict.fromkeys(range(size), Member()), {}, rounds, "", "")


class StampTable(dict[int, Stamp]):
    """The table of one peer. Only a rank itself raises its entry; all others take the maximum of what comes.

    Ranks that have list 0 alone, as all have in a run without lists, have no entry.

    Attributes:
        table: All entries, as they travel.
    """

    def __init__(self, rank: int) -> None:
        super().__init__()
        self._rank = rank
        self.table: Stamps = []

    def reached(self, rank: int, stamp: Stamp) -> bool:
        """Note that a rank itself says that it has these lists on disk; returns whether that is news."""
        if stamp <= self.get(rank, Stamp()):
            return False
        self[rank] = stamp
        self.table = _by_stamp(self)
        return True

    def merge(self, table: Stamps, knows: Callable[[int, Stamp], bool]) -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Stamps that `knows` does not believe are left out, and come again with the next message.
        """
        if table == self.table:  # as in almost every message
            return False
        news = False
        for rank, stamp in by_rank(table).items():
            if rank != self._rank and stamp > self.get(rank, Stamp()) and knows(rank, stamp):
                self[rank], news = stamp, True
        if news:
            self.table = _by_stamp(self)
        return news


def by_rank(table: Stamps) -> dict[int, Stamp]:
    """The stamp of each rank in a table."""
    return {rank: stamp for stamp, ranks in table for rank in ranks}


def _by_stamp(found: Mapping[int, Stamp]) -> Stamps:
    ranks: dict[Stamp, list[int]] = {}
    for rank in sorted(found):
        ranks.setdefault(found[rank], []).append(rank)
    return sorted(ranks.items())
