"""Follower of epochs: brings a peer's graph, neighbors, links and messages in step with its chain of epochs; no I/O."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from dpeer.exceptions import ProtocolError
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Admit, Effect, Keep
from dpeer.peer.core.epoch import Epoch, EpochSetup, Member, SignedEpoch, operator_lines
from dpeer.peer.core.epoch_chain import ChainRecord, EpochChain, Turn
from dpeer.peer.core.membership import Membership, Status
from dpeer.peer.core.round_clock import NO_QUORUM, RoundClock
from dpeer.peer.core.schedule import Schedule
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.transport import RELAY, Link
from dpeer.topology import Graphs, temporal_diameter

AHEAD = 3
"""Rounds after the diameter from which on an epoch may begin: in one its documents leave, in one new edges are dialled,
and its first one has not begun."""


def dials(rank: int, other: int, addresses: Mapping[int, str | None]) -> bool:
    """Whether of two neighbors `rank` dials `other`.

    Only one with an address is dialled: of two one that needs no relay, else the higher rank.
    """
    here, there = (_directness(addresses.get(one)) for one in (rank, other))
    return there > here or (there == here > 0 and rank < other)


def _directness(address: str | None) -> int:
    if address is None:
        return 0
    return 1 if address.startswith(RELAY) else 2


class EpochFollower:
    """Follows the chain of a peer.

    Args:
        config: The peer's place in the federation.
        setup: The first epoch, and the graphs of each.
        topology: The graphs of the first epoch.
        clock: Presence.
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.

    Attributes:
        chain: What this peer knows of the epochs, and has decided.
        addresses: Where ranks are dialled, by the federation file.
        contacts: The ranks through which a joiner hears of the epoch that lets it in.
        listens: Whether this peer can be dialled.
        admitted: The ranks that are let in, and may be dialled: where keys are used no other one has a key here.
    """

    def __init__(
        self, config: PeerConfig, setup: EpochSetup, topology: Graphs, clock: RoundClock, log: Callable[..., None]
    ) -> None:
        self.chain = EpochChain(setup, config.rank, clock, topology)
        self.addresses: dict[int, str] = {}
        self.contacts: set[int] = set()
        self.listens = True
        self.admitted: Collection[int] = ()
        self._rank, self._clock, self._log = config.rank, clock, log
        self._liveness = config.liveness
        self._said: set[tuple[str, str]] = set()
        self._leavers: dict[int, Member] = {}
        self.slack = 0
        """How many rounds a message takes to reach all members, in the present epoch or the next one."""

    def join_up(
        self,
        schedule: Schedule,
        members: Membership,
        send_queues: SendQueues,
        reached: Callable[[Iterable[int]], None],
        hang_up: Callable[[int], list[Effect]],
        dial: Callable[[Iterable[int]], list[Effect]],
    ) -> None:
        """Take the parts of the core that follow.

        Args:
            schedule: The neighbors of each round.
            members: The neighbors.
            send_queues: Where documents wait to be written.
            reached: Sends heartbeats to ranks.
            hang_up: Closes the dialled links of a rank that is no neighbor any more, and forgets what it was to get.
            dial: Dials ranks, but those that are dialled already.
        """
        self._schedule, self._members, self._send_queues = schedule, members, send_queues
        self._send_heartbeats, self._hang_up, self._begin_to_dial = reached, hang_up, dial
        self._follow()

    # -- the chain ---------------------------------------------------------------------------------------------

    @property
    def joins(self) -> bool:
        """Whether this peer has never been a member, as far as is known."""
        return not self.chain.listed

    @property
    def entry(self) -> int:
        """The round before that of this peer's entry, in which it begins; 0 for a member of the first epoch."""
        listed = (self.chain.pending or self.chain.current).members.get(self._rank)
        return 0 if listed is None else max(listed.since - 1, 0)

    @property
    def let_in(self) -> bool:
        """Whether an accepted epoch lists this peer, or did."""
        return self.chain.removed or any(self._rank in epoch.members for epoch in self.chain.line)

    def take_up(self, record: ChainRecord) -> None:
        """Take up what is on disk, before the first round.

        Raises:
            ProtocolError: It is not valid.
        """
        self.chain.take_up(record)
        self._follow()

    def start(self, number: int) -> list[Effect]:
        """Begin with round `number`, before any message."""
        self.chain.start(number)
        effects = self._follow()
        for one in self._members.all():
            one.expected = one.rank in self._around(self.chain.current)
            if one.rank not in self.neighbors() | self.contacts:
                effects += self._hang_up(one.rank)
        return effects + self.review()

    def to_dial(self) -> dict[int, str]:
        """Where this peer dials when it begins: the neighbors that it has to dial, or all that a joiner knows of."""
        if self.joins and not self.let_in:
            self.contacts = self.addresses.keys() & {*self.admitted} - {self._rank}
            self._members.add(self.contacts)
            ranks = self.contacts
        else:
            ranks = {rank for rank in self.neighbors() if self.is_to_dial(rank)}
        return {rank: self.addresses[rank] for rank in sorted(ranks)}

    def is_to_dial(self, rank: int) -> bool:
        """Whether this peer dials the rank, and not the other way round: a joiner dials all its contacts."""
        return rank in self.admitted and (rank in self.contacts or self._dials(rank))

    def _dials(self, rank: int) -> bool:
        """Whether this peer dials a neighbor; if it listens nowhere, whatever address an epoch has for it."""
        own = {} if self.listens else {self._rank: None}
        return dials(self._rank, rank, {**self.addresses, **own})

    def holds(self, number: int) -> str | None:
        """Why round `number` may not begin yet on account of epochs; None if it may."""
        if self.chain.undecided(number) is not None:
            epoch = self.chain.undecided(number)
            assert epoch is not None
            return f"epoch {epoch.number} begins, and no quorum is known to have accepted it"
        if number > self.chain.quorum_then(number) + self.slack and not self.joins:
            return NO_QUORUM
        if self.is_early(number):
            return f"the others are not in round {number + 1} yet, before that of its entry"
        return None

    def is_early(self, number: int) -> bool:
        """Whether this peer is a joiner, and the others have yet to come to the round in which it begins."""
        return self.joins and number > self._clock.quorum + self.slack

    def neighbors(self) -> set[int]:
        """The ranks to which this peer has a link, by the present epoch and the next one."""
        return self._around(self.chain.current) | self._around(self.chain.pending)

    def _around(self, epoch: Epoch | None) -> set[int]:
        if epoch is None or self._rank not in epoch.members:
            return set()
        return set(self.chain.graphs(epoch).connections(self._rank, epoch.rounds))

    def review(self) -> list[Effect]:
        """Decide anew, because something is known that was not; what has to be on disk first."""
        record = self.chain.consider()
        self._say_void()
        self._do_without()
        return [] if record is None else [Keep(record)]

    def _do_without(self) -> None:
        """Wait not to meet neighbors that have left, if this peer was away and the others are in the next epoch."""
        pending = self.chain.pending
        if pending is None or self._clock.quorum < max(pending.begins, self._members.current_round + self.slack + 2):
            return
        for rank in self._around(self.chain.current) - pending.members.keys():
            if self._members[rank].status is Status.UNSEEN:
                self._members[rank].expected = False

    def kept(self, record: ChainRecord, now: float) -> list[Effect]:
        """Note that a record is on disk, and say so to all."""
        before = self.chain.line
        self.chain.kept(record)
        effects = self._follow()
        for epoch in [one for one in self.chain.line if one not in before]:
            self._log("info", "epoch-accepted", f"{describe(epoch)}: known here and on disk", round=epoch.begins)
            self._say_operators(epoch)
        self._say_address()
        self._say_void()
        pending = self.chain.pending
        soon = pending is not None and (pending.forced or self._members.current_round >= pending.begins - 1)
        if self.joins or soon:  # a forced one may find the others apart
            effects += self._dial(self.neighbors(), now)
        self._send_heartbeats(one.rank for one in self._members.all())
        return effects + self.review()

    def _say_operators(self, epoch: Epoch) -> None:
        before = self.chain.epoch(epoch.previous)
        changes = [] if before is None else operator_lines(before, epoch)
        if changes:
            text = f"epoch {epoch.number} changes who signs: {'; '.join(changes)}"
            self._log("warning", "operators-changed", text, round=epoch.begins)

    def _say_address(self) -> None:
        own = self.chain.line[-1].members.get(self._rank)
        if own is None or own.address is None or self.listens or ("address", own.address) in self._said:
            return
        self._said.add(("address", own.address))
        self._log(
            "warning", "no-address",
            f"by its epoch neighbors dial this peer at {own.address}, and it listens nowhere: start it again with "
            f"--resume, and with that address as rank.{self._rank}.address in its federation file; until then it dials "
            "them",
        )  # fmt: skip

    def _say_void(self) -> None:
        for epoch in self.chain.void:
            if ("void", epoch.digest) in self._said:
                continue
            self._said.add(("void", epoch.digest))
            twins = len([one for one in self.chain.void if one.number == epoch.number]) > 1
            why = (
                "two epochs of this number are signed: see which operator's key was used twice"
                if twins
                else "a quorum had gone past its round before it knew it: hand it over anew, with a later round"
            )
            self._log(
                "warning", "epoch-void", f"epoch {epoch.number} does not begin: {why}; the federation stays as it was",
                round=epoch.begins, reason="twins" if twins else "late",
            )  # fmt: skip

    def _follow(self) -> list[Effect]:
        """Have the graph and the list of neighbors follow the chain."""
        chain = self.chain
        self._schedule.follow(chain.pieces(), chain.rounds)
        self._members.add(self.neighbors() | self.contacts)
        epochs = [epoch for epoch in (chain.current, chain.pending) if epoch is not None]
        self.slack = max(temporal_diameter(chain.graphs(epoch), epoch.rounds) for epoch in epochs)
        listed = dict(chain.current.members) | dict(chain.pending.members if chain.pending is not None else {})
        self.addresses.update({rank: one.address for rank, one in listed.items() if one.address is not None})
        return [self._admit()]

    def _admit(self) -> Admit:
        """Let in the members of the present epoch and the next one, and those that leave."""
        chain = self.chain
        listed = self._leavers | dict(chain.current.members) | dict(chain.pending.members if chain.pending else {})
        order = sorted(listed, key=lambda rank: (listed[rank].since, rank))  # no joiner takes over a member's key
        keys = {rank: tuple(map(bytes.fromhex, listed[rank].keys)) for rank in order}
        self.admitted = keys.keys()
        return Admit(keys, dict(self.addresses))

    # -- rounds ------------------------------------------------------------------------------------------------

    def begin(self, number: int, now: float) -> list[Effect]:
        """Make ready for round `number`, which this peer has reached: dial new neighbors, drop those that were."""
        effects: list[Effect] = []
        pending = self.chain.pending
        if pending is not None and number >= pending.begins - 1:
            effects += self._dial(self._around(pending), now)
        if number > self.chain.current.begins:
            if self._leavers:
                self._leavers = {}
                effects.append(self._admit())
            self.contacts &= self.chain.current.members.keys() if self.joins else set()
            for one in self._members.all():
                guest = self.chain.lists(one.rank) and bool(one.links.all) and not one.expected
                if one.rank not in self.neighbors() | self.contacts and not guest:
                    effects += self._hang_up(one.rank)
        return effects

    def enter(self, number: int, now: float) -> tuple[Turn | None, list[Effect]]:
        """Begin round `number`, which nothing holds up; the change of epoch, if it brings one."""
        turn = self.chain.enter(number)
        if turn is None:
            return None, []
        self._part(turn)
        effects = [*self._follow(), *self._dial(self._around(turn.now), now)]
        if self.chain.removed:
            since, kept = f"from round {turn.now.begins + 1} on", f"({describe(turn.now)}): its model is kept"
            if self.chain.evicted:
                text = f"is no member {since}, taken out by an operator {kept}"
                self._log("warning", "evicted", text, round=number)
            else:
                self._log("info", "left", f"is no member {since} {kept}", round=number)
        else:
            wrong = "; some rounds before ran in another one, and this peer comes back" if turn.wrong else ""
            self._log("info", "epoch-began", f"{describe(turn.now)}: has begun{wrong}", round=number)
        return turn, effects

    def _part(self, turn: Turn) -> None:
        """Begin to do without the ranks that are no members any more.

        One that leaves has a body on its way here, or needs this peer's last one, and says when it is done: its links
        last until this peer has completed a round without it. For one that an operator takes out nothing waits.
        """
        gone = {rank: one for rank, one in turn.before.members.items() if rank not in turn.now.members}
        if turn.wrong:
            gone = {}
        evicted = gone.keys() if turn.now.forced else gone.keys() & {*turn.now.evicted}
        self._leavers = {rank: one for rank, one in gone.items() if rank not in evicted}
        for rank in evicted:
            if rank in self._members:
                self._members[rank].expected = False

    def elsewhere(self, rank: int, number: int) -> bool:
        """Whether a rank is known to run round `number` in another epoch than this peer.

        One that has not begun the first round in which the epochs differ may still accept this peer's.
        """
        parted, one = self.chain.parted(rank), self._members[rank]
        return parted <= number and one.current_round >= parted + one.paused

    def changed(self, turn: Turn) -> set[int]:
        """The ranks to which an edge began or ended."""
        return self._around(turn.before) ^ self._around(turn.now)

    def _dial(self, ranks: Iterable[int], now: float) -> list[Effect]:
        """Begin to expect these neighbors, and dial those that this peer dials."""
        new: list[int] = []
        since = {rank: one.since for rank, one in (self.chain.pending or self.chain.current).members.items()}
        for rank in sorted(ranks):
            neighbor = self._members[rank]
            if neighbor.expected:
                continue
            joins = since.get(rank, 0) > self.chain.current.begins or self.joins
            self._members.expect(rank, now, joins=joins)
            if not neighbor.links.all and rank not in self.contacts and self._dials(rank):
                new.append(rank)
        return self._begin_to_dial(new)

    # -- documents ---------------------------------------------------------------------------------------------

    def hear(self, document: bytes, source: Link) -> None:
        """Take in a document that came on a link, and pass it on.

        Raises:
            ProtocolError: It is not valid.
        """
        epoch = self.chain.learn(document)
        if epoch is not None:
            self._spread(epoch, source)

    def hand(self, document: bytes, number: int) -> str | None:
        """Take a document from this peer's own user, while it works on round `number`; why not, if it is refused."""
        chain = self.chain
        if self._rank not in chain.current.members:
            return f"rank {self._rank} is no member of the federation: hand it to a member"
        try:
            signed = chain.check(document)
        except ProtocolError as error:
            return str(error).removeprefix("epoch: ")
        epoch = signed.epoch
        if chain.epoch(epoch.digest) is not None:
            return None
        newest = chain.line[-1]
        twin = next((one for one in chain.children(epoch.previous) if one not in chain.void), None)
        if twin is not None:
            return f"epoch {twin.number} is known here, and begins with round {twin.begins + 1}: a change follows it"
        if epoch.previous != newest.digest:
            return f"epoch {epoch.number} does not follow the newest one, epoch {newest.number}"
        if unknown := chain.unknown(epoch):
            return f"epoch {epoch.number} says that epoch {unknown[0]} is void, which is not known here"
        earliest = max(number + self.diameter(number) + AHEAD, newest.begins + 1)
        if epoch.begins < earliest:
            return (
                f"epoch {epoch.number} begins with round {epoch.begins + 1}: expected round {earliest + 1} or a later "
                "one, so that all know it before"
            )
        if chain.learn(document) is None:
            return f"epoch {epoch.number} is one more than a peer keeps: start the federation anew from its models"
        self._spread(epoch, None)
        return None

    def _spread(self, epoch: Epoch, source: Link | None) -> None:
        """Send an epoch on all links but that on which it came, before the next body."""
        for one in self._members.all():
            if one.link is not None and one.link != source:
                self.send(one.link, self.chain.document(epoch))

    def send_lacking(self, link: Link, known: bytes) -> None:
        """Send the documents that the other side lacks."""
        for document in self.chain.lacking(known):
            self.send(link, document)

    def send(self, link: Link, document: bytes) -> None:
        """Send a document on a link, before the next body."""
        message = wire.EpochMessage(rank=self._rank, document=document)
        self._send_queues[link].add(f"epoch {hashlib.sha256(document).hexdigest()}", wire.encode(message))

    def diameter(self, number: int) -> int:
        """In how many rounds a message of this peer reaches all members, counted from round `number` + 1."""
        epoch = self.chain.current
        return temporal_diameter(self.chain.graphs(epoch), epoch.rounds, first=number + 1)

    def membership(self, number: int) -> dict[str, Any]:
        """What an operator's command has to know: plain JSON values."""
        chain = self.chain
        newest = chain.line[-1]
        signed = chain.signed(newest) or SignedEpoch(epoch=newest)
        return {
            "document": base64.b64encode(signed.encode()).decode(),
            "round": number,
            "diameter": self.diameter(number),
            "void": [[one.number, one.digest] for one in chain.void if one.previous == newest.digest],
            "addresses": {str(rank): address for rank, address in self.addresses.items()},
            "completed": {str(rank): self._clock[rank] for rank in newest.ranks if rank < len(self._clock)},
            "begun": chain.current.number,
        }


def describe(epoch: Epoch) -> str:
    """An epoch in a few words."""
    return f"epoch {epoch.number} of {len(epoch.members)} members, from round {epoch.begins + 1} on"
