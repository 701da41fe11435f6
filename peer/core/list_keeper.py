"""List keeper: takes member lists from links and operators, has them written, and passes them on to who lacks them.

A stamp leaves only once both lists are on disk: a peer that claims more than it has after a crash would be counted for
a list that all may lack. On each link the lists go before the next message with a stamp, so who hears of a vote has
what was voted for. No I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from dpeer.exceptions import ConfigurationError, NoMember, ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Admit, Keep
from dpeer.peer.core.member_list import (
    Change,
    Former,
    Gone,
    Member,
    MemberList,
    MemberListError,
    MemberLists,
    Stamp,
    Stamps,
    Word,
    by_rank,
    decode,
)
from dpeer.peer.core.membership import Place, dials
from dpeer.peer.core.schedule import ListedGraph
from dpeer.peer.core.state import State
from dpeer.peer.transport import Link


class ListKeeper:
    """The member lists of one peer, on its disk and on its links, and what follows from them.

    The quorum goes by the list that counts at once, a round by the one with which it was begun. Links are kept to
    neighbors by both lists and by those of the last rounds: a leaver's last body is still mixed, and a list that comes
    to count finds its edges there.

    Attributes:
        lists: The two lists; without operators list 0 alone, which has all ranks.
        none: The stamp of a rank that has list 0 alone.
        since: The round that this peer was in when the list that counts began to; 0 for list 0.
        admitted: The ranks that are members by a list that is of use; all others get nothing but lists. None where no
            operator can sign any.
        to_dial: The ranks that this peer dials.
        dials_more: Whether ranks have come to these since they were last dialled; to be reset by who dials.
    """

    def __init__(self, state: State) -> None:
        self.since = 0
        self.admitted: Collection[int] | None = None
        self.to_dial: frozenset[int] = frozenset()
        self.dials_more = False
        self._state, self._rank, self._zero = state, state.rank, state.zero
        self._neighbors, self._schedule, self._round_clock = state.members, state.schedule, state.round_clock
        self._stamps, self._send_queues, self._log = state.round_clock.stamps, state.send_queues, state.log_free
        self._config, self._signed = state.lists, state.config.lists is not None
        self.lists = MemberLists(self._config.zero)
        first = self._config.zero.members if self._signed else {}
        self._graphs: dict[bytes, ListedGraph] = {}
        self._places = {rank: Place(keys=one.keys) for rank, one in first.items()}
        self._addresses: Mapping[int, str] = MappingProxyType({})
        self._dials_all = False
        self._was_member = not self.comes_anew
        self._on_disk = self.none = self.lists.stamp
        self._said: dict[Link, Stamp] = {}
        self._sent: dict[Link, Stamp] = {}
        self.follow()

    # -- what follows from the lists ---------------------------------------------------------------------------

    @property
    def used(self) -> ListedGraph:
        """The graph of the list that counts."""
        return self._graph(self.lists.counts)

    @property
    def near(self) -> set[int]:
        """The neighbors by the list that waits: they are dialled, so that it may count at once."""
        waits = self.lists.waits
        return set() if waits is None else {*self._graph(waits).connections(self._rank)}

    @property
    def members(self) -> set[int]:
        """The members by both lists."""
        return {*self.lists.counts.members, *(self.lists.waits.members if self.lists.waits else ())}

    @property
    def waiting(self) -> MemberList | None:
        """The list that waits for votes."""
        return self.lists.waits

    @property
    def gone(self) -> Gone | None:
        """How this peer went, if it is a member no more."""
        if self._rank in self.lists.counts.members:
            return None
        former = self.lists.counts.former.get(self._rank)
        if former is None:  # a list that its operators made without the one with this peer may lack it
            return "evicted" if self._was_member else None
        return former.gone

    @property
    def end(self) -> NoMember | None:
        """How the list that counts ends this peer's run; None where it does not."""
        if self.gone is not None:
            return NoMember(self.gone)
        why = self._why_forbidden(self.lists.counts)
        return None if why is None else NoMember("stopped", why)

    def _why_forbidden(self, one: MemberList) -> str | None:
        """Why this site's policy forbids a list; None where it does not."""
        if self._config.forbids is None or not one.version:  # the start has looked at list 0
            return None
        return self._config.forbids(one, self._graph(one).connections(self._rank))

    @property
    def joins(self) -> bool:
        """Whether this peer is no member yet: no list that counts here has ever had it."""
        return self._rank not in self.lists.counts.members and self.gone is None

    @property
    def comes_anew(self) -> bool:
        """Whether list 0 does not have this peer, so that it begins without a history."""
        return self._rank not in self._zero.members

    def place(self, rank: int) -> Place:
        """Where a rank is dialled, of a former member the last place; the address is None where it is as in list 0."""
        return self._places.get(rank, Place())

    def knows(self, rank: int) -> bool:
        """Whether a list that was ever of use here has, or had, this rank."""
        return rank in self._places or rank in self.lists.counts.former

    def _changed(self) -> None:
        """Have everything follow the lists."""
        first, keys = self._config.zero.members, self.keys
        self._was_member |= self._rank in self.lists.counts.members
        for one in (self.lists.waits, self.lists.counts):  # the list that counts has the last word
            if one is not None and one.version:
                for rank, member in one.members.items():
                    same = rank in first and member.address == first[rank].address  # a launcher may know a better one
                    self._places[rank] = Place(None if same else member.address, keys[rank])
        self.follow()

    def _graph(self, one: MemberList) -> ListedGraph:
        """The graph of a list.

        Raises:
            MemberListError: This host has no such graph.
        """
        if one.version == 0:
            return self._zero
        if one.digest not in self._graphs:
            uses = one.digest[: wire.USES_BYTES]
            try:
                self._graphs[one.digest] = ListedGraph(self._config.graph_of(one), one.members, one.rounds, uses)
            except ConfigurationError as error:
                raise MemberListError(f"member list {one.version}: {error}") from error
        return self._graphs[one.digest]

    # -- lists come --------------------------------------------------------------------------------------------

    def resume(self, counts: MemberList | None, waits: MemberList | None) -> None:
        """Take up the lists that are on disk, before the first message; list 0 counts where none does.

        A list that the operator gives at the start is taken as one that is handed over. Where none waits it does, too,
        if it follows a list that this peer lacks: so a newcomer's may.

        Raises:
            MemberListError: One of them is not of this federation, not signed as it must be, or without a graph here.
        """
        given = self._config.given
        for one, where in ((counts, "members.json: "), (waits, "members.json: "), (given, "")):
            try:
                if one is not None and one.version:
                    self._verify(one)
            except MemberListError as error:
                raise MemberListError(f"{where}{error}") from error
        self.lists = MemberLists(counts or self._config.zero, waits)
        self.kept(self.lists.stamp)
        first, used = self._config.zero.members, self.lists.counts
        if others := [rank for rank, one in used.members.items() if rank in first and first[rank].keys != one.keys]:
            self._log(
                "info",
                "member-list",
                f"member list {used.version} counts, in which rank {', '.join(map(str, others))} has other keys than "
                "in the federation file: dpeer members change --key changes them, not the file",
                version=used.version,
            )
        if given is not None:
            if waits is None and given.version > self.lists.counts.version:
                self.lists = MemberLists(self.lists.counts, given)
            self.lists.take(Word(self.lists.counts, given))
            if self.lists.stamp > self._on_disk:
                self._keep()
        self._changed()

    def hand(self, one: MemberList) -> str | None:
        """An operator hands over a list; returns the reason for which it is not taken, None if it is."""
        if not self._signed:
            return "the federation file lists no operators: no list can be signed"
        try:
            self._verify(one)
        except MemberListError as error:
            return str(error)
        known = self.lists
        if one.key in known.stamp:
            return f"member list {one.version} is here already"
        if (why := self._why_forbidden(one)) is not None:
            return why
        if not one.force and (why := one.why_not_after(known.counts)) is not None:
            return f"member list {one.version}: {why}"
        if not self._take(Word(known.counts, one)):
            waits = "" if known.waits is None else f", and list {known.waits.version} waits for votes"
            return f"member list {one.version}: list {known.counts.version} counts{waits}: give it a higher version"
        return None

    def on_lists(self, message: wire.Lists) -> None:
        """Another peer's lists came.

        Raises:
            ProtocolError: They are none that this peer could use.
        """
        if not self._signed:
            raise ProtocolError("lists", "member lists, and the federation file lists no operators")
        try:
            counts = self._decoded(message.counts) or self._config.zero
            waits = self._decoded(message.waits)
        except MemberListError as error:
            raise ProtocolError("lists", str(error)) from error
        if waits is not None and not waits.force and self._why_forbidden(waits) is not None:
            waits = None  # without this peer's vote
        self._take(Word(counts, waits))

    def _decoded(self, document: bytes) -> MemberList | None:
        if not document:
            return None
        one = decode(document)
        self._verify(one)
        return one

    def _verify(self, one: MemberList) -> None:
        """Refuse a list that this peer cannot use.

        Raises:
            MemberListError: Says why.
        """
        one.verify(self._config.zero.federation, self._config.signers)
        self._graph(one)

    def _take(self, word: Word) -> bool:
        changes = self.lists.take(word)
        for change in changes:
            self._has_changed(change)
        if changes:
            self._keep()
        return bool(changes)

    def take_stamps(self, table: Stamps) -> bool:
        """Take in which lists ranks have on disk, as another peer says; returns whether that has brought news."""
        news = self._stamps.merge(table, self.lists.knows)
        if news:
            self.review()
        return news

    def review(self) -> None:
        """See whether the list that waits counts by now; to be called after each change of stamps."""
        if (change := self.lists.review(self._stamps)) is not None:
            self._has_changed(change)
            self._keep()

    def _has_changed(self, change: Change) -> None:
        counts = self.lists.counts is change.one
        if counts:
            self.since = self._neighbors.current_round
        near = ", ".join(map(str, self._graph(change.one).connections(self._rank)))
        self._log(
            "info",
            "member-list",
            f"member list {change.one.version} {'counts' if counts else 'waits for votes'}: {change.why}; members "
            f"{', '.join(map(str, sorted(change.one.members)))}, {change.one.rounds} rounds, {change.one.graph}"
            f"{f' (neighbors {near})' if near else ''}",
            version=change.one.version,
        )
        self._changed()

    def _keep(self) -> None:
        """Have both lists written. They are passed on meanwhile: they do not say who has them."""
        self._state.effects.append(Keep(self.lists.counts, self.lists.waits, self.lists.stamp))
        for link in [*self._said]:
            self.send(link)

    def kept(self, stamp: Stamp) -> None:
        """The lists with this stamp are on disk: messages have it from now on."""
        self._on_disk = max(self._on_disk, stamp)
        if self._on_disk > self.none:
            self._stamps.reached(self._rank, self._on_disk)

    # -- lists go ----------------------------------------------------------------------------------------------

    def heard(self, link: Link, rank: int, table: Stamps) -> bool:
        """A rank states on this link what it has on disk: send the lists if it lacks some.

        Returns:
            Whether it has more than this peer, and takes this peer to have as much: it needs this peer's stamp.
        """
        said, before = by_rank(table).get(rank, self.none), self._said.get(link)
        self._said[link] = said
        self.send(link)
        return said > self._on_disk and said != before

    def send(self, link: Link) -> None:
        """Send the lists on this link before anything else, unless the other end has them, or will have."""
        if self._said.get(link, self.none) >= self.lists.stamp:
            return
        counts, waits = self.lists.counts, self.lists.waits
        if self._sent.get(link) == self.lists.stamp:
            return
        self._sent[link] = self.lists.stamp
        lists = wire.Lists(
            rank=self._rank,
            counts=counts.encode() if counts.version else b"",
            waits=b"" if waits is None else waits.encode(),
        )
        self._send_queues[link].add_first("lists", wire.encode(lists))

    def forget(self, link: Link) -> None:
        """A link is broken: the stamp that came on it does not count any more."""
        self._said.pop(link, None)
        self._sent.pop(link, None)

    def may_lack(self, rank: int) -> bool:
        """Whether no stamp of a rank shows that it has both lists of this peer: it may know another address of it."""
        return self._stamps.get(rank, self.none) < self.lists.stamp

    def has_to_tell(self, rank: int, link: Link) -> bool:
        """Whether a rank is a member no more, and no stamp of it, on this link or elsewhere, shows that it knows."""
        if rank not in self.lists.counts.former:
            return False
        said = max(self._said.get(link, self.none), self._stamps.get(rank, self.none))
        return said.counts < self.lists.counts.key

    @property
    def keys(self) -> dict[int, tuple[str, ...]]:
        """The public keys of all who may connect: members by both lists, and former ones, who hear that they are."""
        found: dict[int, tuple[str, ...]] = {}
        for one in (self.lists.waits, self.lists.counts):
            some: Mapping[int, Member | Former] = {} if one is None else {**one.former, **one.members}
            for rank, who in some.items():
                found[rank] = tuple(dict.fromkeys((*found.get(rank, ()), *who.keys)))
        return found

    # -- what follows from a change ----------------------------------------------------------------------------

    def open(self, to_dial: Collection[int], addresses: Mapping[int, str]) -> None:
        """Begin to dial these ranks, or those that follow from lists; `addresses` are those of the federation file."""
        self._addresses, self.to_dial, self.dials_more = addresses, frozenset(to_dial), True
        self.link()

    def follow(self) -> None:
        """Another list counts, or waits."""
        used = self.used
        self._schedule.use(used)
        slack = 0 if self._state.alone or not used.connections(self._rank) else used.diameter
        self._round_clock.use(used.members, used.rounds, slack)
        if self._signed:
            self._round_clock.know(self.lists.newest.next_rank)
            self.link()
            self._state.effects.append(Admit(self.keys))

    def dial_all(self, stuck: bool) -> None:
        """Dial all members while this peer is stuck: its neighbors may all have gone, or be as stuck as it is."""
        if self._dials_all != stuck:
            self._dials_all = stuck
            self.link()

    def link(self) -> None:
        """Find the neighbors, and whom to dial; without operators both stay as they were at the start."""
        if not self._signed:
            return
        rank = self._rank
        near = {*self.used.connections(rank)}.union(*(one.connections(rank) for one in self._schedule.begun))
        members = {*self.members, *near} - {rank}
        self.admitted = self.members.union(*(one.members for one in self._schedule.begun))
        self._neighbors.follow(near, self.admitted - {rank}, self._keep_up(), began=self._state.began)
        known = {one: self.place(one).address or self._addresses.get(one) for one in {*members, rank}}
        addresses = {one: address for one, address in known.items() if address is not None}
        if self._dials_all or self.joins:  # all of them: they may know nothing of this peer
            wanted = {one for one in members if one in addresses}
        else:
            some = {one for one in near | self.near if one in addresses}
            wanted = {one for one in some if self.may_lack(one) or dials(rank, one, addresses)}
        self.dials_more |= not wanted <= self.to_dial
        self.to_dial = frozenset(wanted)

    def _keep_up(self) -> dict[int, int]:
        """The rounds of each rank that takes part, as far as is known: a graph brings news within its diameter."""
        clock, here = self._round_clock, self._neighbors.current_round
        far = max(one.diameter for one in (self.used, *self._schedule.begun))
        return {rank: clock[rank] for rank in clock.there if clock[rank] + far + 1 >= here}
