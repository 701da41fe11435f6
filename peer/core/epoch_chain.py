"""Chain of epochs at one peer: decides from all ranks' presence which are accepted, begin, stand or are void; no I/O.

An epoch spreads as a signed document. A peer *accepts* it while the epoch's first round has not begun here, and says so
in its entry of presence once that is on disk. Every rank thus has one vote on an epoch: it completes the epoch's first
round either in it or in the one before it. (A leaver votes by leaving.) Two quorums of one epoch share a rank, so

- an epoch *begins* once quorums of the epoch before it and of itself have accepted it (`--force`: of itself alone),
- it *stands* once a quorum of the epoch before it has completed its first round in it,
- it is *void* once such a quorum has completed that round outside of it,

and it never stands and is void, as long as presence is true: entries are hearsay, which a hostile member can make up.
Of two epochs of one number, both signed and with one predecessor, (*twins*), none
begins: who has accepted one and has not completed its first round takes that back. A twin that comes once the other one
stands changes nothing.

Who finds that an epoch stands which it has not entered, or that its own is void, is in the wrong epoch: it goes over
before its next round, which it sits out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from dpeer.exceptions import AddressError, ProtocolError, TopologyError
from dpeer.peer.core.epoch import Epoch, EpochSetup, SignedEpoch, check_successor
from dpeer.peer.core.limits import ALL_EPOCHS_BYTES, DIGEST_BYTES, MOST_EPOCHS
from dpeer.peer.core.round_clock import Accepted, RoundClock
from dpeer.peer.core.schedule import Piece
from dpeer.peer.learner import Buffer
from dpeer.topology import Graphs

_TWINS = 16
"""Epochs of one number and one predecessor that are kept: two show that none of them begins, unless one stands."""


def short(digest: str) -> bytes:
    """The first bytes of a hash, as presence and headers carry it."""
    return bytes.fromhex(digest[: 2 * DIGEST_BYTES])


@dataclass(frozen=True)
class ChainRecord:
    """What a peer has on disk of its chain.

    Attributes:
        documents: The signed epochs that it knows, each after the one that it follows.
        line: The hashes of those that it has accepted and that are not void, in order.
        void: The hashes of those that are void.
        revision: How often the line has changed.
    """

    documents: tuple[bytes, ...] = ()
    line: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    revision: int = 0


@dataclass(frozen=True)
class Turn:
    """A change of epoch before a round.

    Attributes:
        before: The epoch of the round before.
        now: The epoch of the round that begins.
        wrong: Whether this peer has run rounds that the others have run in another epoch.
    """

    before: Epoch
    now: Epoch
    wrong: bool


@dataclass
class _Line:
    """The epochs that this peer has accepted, the first one included, as they are on disk."""

    epochs: tuple[Epoch, ...]
    void: frozenset[str] = frozenset()
    revision: int = 0


class EpochChain:
    """The epochs of one peer.

    Args:
        setup: The first epoch, and the graphs of each.
        rank: The peer.
        clock: Presence; its quorum counts the members of this peer's epoch from now on.
        topology: The graphs of the first epoch, if they have been built.

    Attributes:
        current: The epoch of the round that this peer runs.
        entered: The last round that this peer has begun; -1 before the first.
    """

    def __init__(self, setup: EpochSetup, rank: int, clock: RoundClock, topology: Graphs | None = None) -> None:
        self._setup, self._rank, self._clock = setup, rank, clock
        self._first = setup.first
        self._signed: dict[str, SignedEpoch] = {}
        self._bytes = 0
        self._names: dict[bytes, str] = {bytes(DIGEST_BYTES): self._first.digest}
        self._lines: dict[str, tuple[Epoch, ...]] = {self._first.digest: (self._first,)}
        self._graphs: dict[str, Graphs] = {} if topology is None else {self._first.digest: topology}
        self._kept = self._wished = _Line((self._first,))
        self._stands: set[str] = {self._first.digest}
        self.current = self._first
        self.entered = -1
        clock.grow(rank + 1)  # of a joiner
        clock.lenient = True
        clock.counted = self.counted

    # -- documents ---------------------------------------------------------------------------------------------

    def check(self, document: Buffer) -> SignedEpoch:
        """The signed epoch of a document that follows one that is known here.

        Raises:
            ProtocolError: It does not, or is not valid; says why.
        """
        signed = SignedEpoch.decode(document)
        epoch = signed.epoch
        previous = self.epoch(epoch.previous)
        if previous is None:
            raise ProtocolError("epoch", f"epoch {epoch.number} follows one that is not known here")
        check_successor(signed, previous)
        try:
            for rank in sorted(epoch.members.keys() - previous.members.keys()):
                self._check_member(epoch, rank)
            self.graphs(epoch)
        except (AddressError, TopologyError) as error:
            raise ProtocolError("epoch", f"epoch {epoch.number}: {error}") from error
        return signed

    def _check_member(self, epoch: Epoch, rank: int) -> None:
        if self._setup.keyed and not epoch.members[rank].keys:
            raise ProtocolError(
                "epoch", f"epoch {epoch.number} has rank {rank} join without a key, which all have here"
            )
        address = epoch.members[rank].address
        if address is not None and self._setup.check_address is not None:
            self._setup.check_address(address, f"members.{rank}.address")

    def learn(self, document: Buffer) -> Epoch | None:
        """Take in an epoch that came; None if it is known, of no use, or one too many to keep.

        Raises:
            ProtocolError: It is not valid.
        """
        signed = self.check(document)
        epoch = signed.epoch
        siblings = [one for one in self.children(epoch.previous) if one.number == epoch.number]
        full = len(self._signed) >= MOST_EPOCHS or self._bytes + len(document) > ALL_EPOCHS_BYTES
        if epoch.digest in self._signed:
            return None
        if len(siblings) >= _TWINS or full:
            del self._graphs[epoch.digest]
            return None
        self._add(signed)
        return epoch

    def _add(self, signed: SignedEpoch) -> None:
        epoch = signed.epoch
        self._signed[epoch.digest] = signed
        self._bytes += len(epoch.canonical)
        self._names[short(epoch.digest)] = epoch.digest
        self._lines[epoch.digest] = (*self._lines[epoch.previous], epoch)
        self._clock.grow(epoch.highest + 1)

    def epoch(self, digest: str) -> Epoch | None:
        """The epoch with this hash; None if it is not known."""
        if digest == self._first.digest:
            return self._first
        found = self._signed.get(digest)
        return None if found is None else found.epoch

    def graphs(self, epoch: Epoch) -> Graphs:
        """The graph of each round of an epoch, by rank.

        Raises:
            TopologyError: It cannot be built here.
        """
        if epoch.digest not in self._graphs:
            self._graphs[epoch.digest] = self._setup.graphs_of(epoch)
        return self._graphs[epoch.digest]

    @property
    def known(self) -> bytes:
        """The first bytes of the hash of each epoch that is known, the first one aside, one after the other."""
        return b"".join(short(digest) for digest in self._signed)

    def lacking(self, known: bytes) -> list[bytes]:
        """The documents that a peer with this `known` lacks, in the order in which it can take them."""
        there = {known[at : at + DIGEST_BYTES] for at in range(0, len(known), DIGEST_BYTES)}
        return [signed.encode() for digest, signed in self._signed.items() if short(digest) not in there]

    def document(self, epoch: Epoch) -> bytes:
        """The signed document of a known epoch."""
        return self._signed[epoch.digest].encode()

    def signed(self, epoch: Epoch) -> SignedEpoch | None:
        """A known epoch with its signatures; None of the first one, which has none."""
        return self._signed.get(epoch.digest)

    def lists(self, rank: int) -> bool:
        """Whether the rank is a member in the present epoch or in the next one."""
        return any(rank in epoch.members for epoch in (self.current, self.pending) if epoch is not None)

    def named(self, rank: int) -> bool:
        """Whether the rank was ever a member, as far as is known."""
        return any(rank in epoch.members for epoch in (self._first, *(one.epoch for one in self._signed.values())))

    # -- the line ----------------------------------------------------------------------------------------------

    @property
    def line(self) -> tuple[Epoch, ...]:
        """The accepted epochs on disk, the first one included."""
        return self._kept.epochs

    @property
    def pending(self) -> Epoch | None:
        """The epoch that is accepted, on disk, and has not begun here."""
        line = self.line
        if self.current not in line or line[-1] == self.current:
            return None
        return line[line.index(self.current) + 1]

    @property
    def void(self) -> list[Epoch]:
        """The void epochs, by number."""
        found = [one.epoch for one in self._signed.values() if one.epoch.digest in self._kept.void]
        return sorted(found, key=lambda epoch: (epoch.number, epoch.digest))

    @property
    def removed(self) -> bool:
        """Whether this peer was a member, and is none in the present epoch."""
        return self._rank in self.current.former

    @property
    def evicted(self) -> bool:
        """Whether it was taken out, and did not leave."""
        return self._rank in self.current.evicted

    @property
    def rounds(self) -> int:
        """How many rounds this peer has to run, as far as is known."""
        return self._took_out.begins if self.removed else self.line[-1].rounds

    def pieces(self) -> list[Piece]:
        """The graphs of all rounds; those of rounds that have begun do not change."""
        line, pending = self._ancestors(self.current), self.pending
        if pending is not None and pending.begins > self.entered:
            line = (*line, pending)
        return [
            Piece(
                one.begins, self.graphs(one), frozenset(one.members), b"" if one is self._first else short(one.digest)
            )
            for one in line
        ]

    # -- presence ----------------------------------------------------------------------------------------------

    def counted(self) -> list[int]:
        """The rounds that each member has completed in the epochs of this peer's line.

        Rounds of another epoch do not count: who runs them would take itself for the others.
        """
        pending = self.pending
        return self._counted(pending if pending is not None and pending.forced else self.current)

    def _counted(self, epoch: Epoch) -> list[int]:
        return [min(self._clock[rank], self.parted(rank)) for rank in epoch.ranks]

    def quorum_then(self, number: int) -> int:
        """The rounds that a quorum has completed of those who are members in round `number`."""
        pending = self.pending
        if pending is None or pending.begins > number or self._clock.anyone:
            return self._clock.quorum
        return self._clock.among(self._counted(pending))

    def parted(self, rank: int) -> int:
        """The first round that this rank runs in another epoch than this peer, as far as is known."""
        theirs, ours = self._line_of(rank), self.line
        if theirs is None or theirs[-1] is ours[-1]:
            return self._clock.bound
        return min(epoch.begins for epoch in {*ours} ^ {*theirs})

    def _line_of(self, rank: int) -> tuple[Epoch, ...] | None:
        """The epochs that a rank has accepted; None if it has accepted one that is not known here."""
        digest = self._names.get(self._clock.accepted(rank).epoch)
        return None if digest is None else self._lines[digest]

    def _ancestors(self, epoch: Epoch) -> tuple[Epoch, ...]:
        """The line that ends with this epoch."""
        return self._lines[epoch.digest]

    def _ranks(self, epoch: Epoch, *, within: bool, completed: int) -> set[int]:
        """The ranks known to have accepted the epoch, or not; of those that have completed so many rounds."""
        found = set()
        for rank in range(len(self._clock)):
            line = self._line_of(rank) if self._clock[rank] >= completed else None
            if line is not None and any(one is epoch for one in line) is within:
                found.add(rank)
        return found

    def agreed(self, epoch: Epoch) -> bool:
        """Whether quorums have accepted the epoch, so that it may begin."""
        accepted = self._ranks(epoch, within=True, completed=0)
        before = self._before(epoch)
        return self._clock.is_quorum(epoch.ranks, accepted) and (
            epoch.forced or self._clock.is_quorum(before.ranks, accepted)
        )

    def stands(self, epoch: Epoch) -> bool:
        """Whether a quorum of the epoch before it has completed its first round in it."""
        if epoch.digest not in self._stands:
            ranks = self._ranks(epoch, within=True, completed=epoch.begins + 1)
            members = epoch if epoch.forced else self._before(epoch)
            if ranks and self._clock.is_quorum(members.ranks, ranks):
                self._stands.add(epoch.digest)
        return epoch.digest in self._stands

    def _passed(self, epoch: Epoch) -> bool:
        """Whether a quorum of the epoch before it has completed its first round outside of it."""
        ranks = self._ranks(epoch, within=False, completed=epoch.begins + 1)
        return not self._clock.anyone and self._clock.is_quorum(self._before(epoch).ranks, ranks)

    def _before(self, epoch: Epoch) -> Epoch:
        found = self.epoch(epoch.previous)
        assert found is not None
        return found

    # -- decisions ---------------------------------------------------------------------------------------------

    def consider(self) -> ChainRecord | None:
        """Look at all that is known; what has to be on disk now, if that has changed, and is to be passed to `kept`."""
        wished = self._wish()
        if (wished.epochs, wished.void) == (self._wished.epochs, self._wished.void):
            return None
        revision = self._wished.revision + (wished.epochs != self._wished.epochs)
        self._wished = _Line(wished.epochs, wished.void, revision)
        return self.record

    @property
    def record(self) -> ChainRecord:
        """What is to be on disk."""
        wished = self._wished
        return ChainRecord(
            tuple(signed.encode() for signed in self._signed.values()),
            tuple(epoch.digest for epoch in wished.epochs[1:]),
            tuple(sorted(wished.void)),
            wished.revision,
        )

    def kept(self, record: ChainRecord) -> None:
        """Note that a record is on disk: from now on it counts."""
        if record.revision < self._kept.revision:
            return
        self._kept = self._line_from(record)
        self._say_accepted()
        self._watch()

    def _watch(self) -> None:
        """Go along with epochs of which this peer is no member yet: it has no round of them to run."""
        while (pending := self.pending) is not None and not self.listed and self._rank not in pending.members:
            self.current = pending

    @property
    def listed(self) -> bool:
        """Whether this peer is a member in the present epoch, or was one."""
        return self._rank in self.current.members or self.removed

    def _line_from(self, record: ChainRecord) -> _Line:
        epochs = [self.epoch(digest) for digest in record.line]
        assert all(epoch is not None for epoch in epochs)
        return _Line((self._first, *(one for one in epochs if one)), frozenset(record.void), record.revision)

    def _say_accepted(self) -> None:
        newest = self.line[-1]
        name = bytes(DIGEST_BYTES) if newest is self._first else short(newest.digest)
        self._clock.rounds = newest.rounds
        self._clock.accept(Accepted(self._kept.revision, name))

    def _wish(self) -> _Line:
        """The line as it should be, and the void epochs."""
        line, void = list(self._wished.epochs), set(self._wished.void)
        while len(line) > 1 and self._falls(line[-1]):
            fallen = line.pop()
            void |= {one.digest for one in self._twins(fallen)} | {fallen.digest}
        if line[-1] == self.current or self.current not in line:
            following = self._next(line[-1], void)
            if following is not None:
                line.append(following)
                void.discard(following.digest)
        return _Line(tuple(line), frozenset(void))

    def _falls(self, epoch: Epoch) -> bool:
        """Whether an accepted epoch is void after all."""
        if self.stands(epoch):
            return False
        if self._passed(epoch):
            return True
        return len(self._twins(epoch)) > 1 and self._clock[self._rank] <= epoch.begins

    def _next(self, last: Epoch, void: set[str]) -> Epoch | None:
        """The epoch to accept after the last one; epochs that turn out void are added to these."""
        number = last.number + 1
        while every := [one for one in self.children(last.digest) if one.number == number]:
            standing = [one for one in every if self.stands(one)]
            found = [one for one in every if one.digest not in void]
            if standing:
                return standing[0]  # perhaps one that twins made void here before it was known to stand
            if len(found) > 1 or any(self._passed(one) for one in found):
                void |= {one.digest for one in found}
            elif found:
                return found[0] if found[0].begins > self.entered else None
            number += 1
        return None  # a later one may say that this number is void: not before that is so here

    def unknown(self, epoch: Epoch) -> list[int]:
        """The numbers between the epoch and the one that it follows of which no epoch is known here."""
        known = {one.number for one in self.children(epoch.previous)}
        return sorted({one.number for one in epoch.void} - known)

    def children(self, digest: str) -> list[Epoch]:
        """The known epochs that follow the one with this hash."""
        return [one.epoch for one in self._signed.values() if one.epoch.previous == digest]

    def _twins(self, epoch: Epoch) -> list[Epoch]:
        """The epochs of its number and predecessor, itself included."""
        return [one for one in self.children(epoch.previous) if one.number == epoch.number]

    def undecided(self, number: int) -> Epoch | None:
        """The epoch for which round `number` may not begin yet: whether it begins is open, or not on disk."""
        if (self._wished.epochs, self._wished.void) != (self._kept.epochs, self._kept.void):
            return self._wished.epochs[-1]
        pending = self.pending
        if pending is None or pending.begins > number or self.stands(pending) or self.agreed(pending):
            return None
        return pending

    def enter(self, number: int) -> Turn | None:
        """Begin round `number`, which nothing is `undecided` for; the change of epoch, if it brings one."""
        before, line = self.current, self.line
        behind = self.entered
        self.entered = max(self.entered, number)
        begun = [epoch for epoch in line if epoch.begins <= number]
        if begun[-1] is before:
            return None
        self.current = begun[-1]
        self._leave()
        self._clock.update()
        news = [epoch for epoch in begun if epoch not in self._ancestors(before)]
        wrong = before not in line or any(epoch.begins <= behind for epoch in news)
        return Turn(before, self.current, wrong and self._rank in before.members)

    # -- from disk ---------------------------------------------------------------------------------------------

    def take_up(self, record: ChainRecord) -> None:
        """Take up what is on disk, before the first round.

        Raises:
            ProtocolError: It is not valid.
        """
        for document in record.documents:
            self._add(self.check(document))
        for digest in (*record.line, *record.void):
            if self.epoch(digest) is None:
                raise ProtocolError("epoch", f"epoch {digest[:16]} is accepted or void, and its document is missing")
        found = self._line_from(record)
        follows = all(one.previous == before.digest for before, one in itertools.pairwise(found.epochs))
        if not follows or not found.void.isdisjoint(record.line):
            raise ProtocolError("epoch", "the accepted epochs do not follow each other, or one of them is void")
        self._kept = self._wished = found
        self._say_accepted()

    def start(self, number: int) -> None:
        """Begin with round `number`: the rounds before it are complete, in the epochs that are accepted."""
        self.entered = number - 1
        self._clock.reached(self._rank, number)  # an epoch in which it has completed a round has no twins any more
        begun = [epoch for epoch in self.line if epoch.begins < number or self._removes(epoch, number)]
        self.current = begun[-1] if begun else self._first
        self._watch()
        self._leave()
        self._clock.update()

    def _removes(self, epoch: Epoch, number: int) -> bool:
        """Whether this peer, which has completed so many rounds, has left by this epoch."""
        return epoch.begins == number and self._rank in epoch.former

    def _leave(self) -> None:
        """If this peer is no member any more, its rounds end, and its vote on the epoch that took it out stands."""
        if self.removed:
            self._clock.reached(self._rank, self._took_out.begins + 1)

    @property
    def _took_out(self) -> Epoch:
        return next(epoch for epoch in self._ancestors(self.current) if self._rank in epoch.former)
