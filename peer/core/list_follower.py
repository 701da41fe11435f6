"""List follower: applies member lists, as they change, to quorum, schedule, neighbors and ranks to dial; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from dpeer.peer.core.dialling import dials
from dpeer.peer.core.effects import Admit, Effect
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.core.schedule import Schedule


class ListFollower:
    """Applies the lists as they change, and the list of each round as it begins.

    The quorum goes by the list that counts at once, a round by the one with which it was begun. Links are kept to
    neighbors by both lists and by those of the last rounds: a leaver's last body is still mixed, and a list that comes
    to count finds its edges there.

    Args:
        rank: The peer.
        began: Whether rounds have begun.
        alone: Whether it cannot be cut off.

    Attributes:
        admitted: The ranks that are members by a list that is of use; all others get nothing but lists. None where no
            operator can sign any.
        to_dial: The ranks that this peer dials.
        dials_more: Whether ranks have come to these since they were last dialled; to be reset by who dials.
        effects: What is to be done; to be emptied by its reader.
    """

    def __init__(
        self,
        rank: int,
        keeper: ListKeeper,
        round_clock: RoundClock,
        schedule: Schedule,
        members: Membership,
        began: Callable[[], bool],
        *,
        alone: bool,
    ) -> None:
        self.admitted: Collection[int] | None = None
        self.to_dial: frozenset[int] = frozenset()
        self.dials_more = False
        self.effects: list[Effect] = []
        self._rank, self._alone = rank, alone
        self._keeper = keeper
        self._round_clock = round_clock
        self._schedule = schedule
        self._members, self._began = members, began
        self._addresses: Mapping[int, str] = MappingProxyType({})
        self._dials_all = False

    def open(self, to_dial: Collection[int], addresses: Mapping[int, str]) -> None:
        """Begin to dial these ranks, or those that follow from lists; `addresses` are those of the federation file."""
        self._addresses, self.to_dial, self.dials_more = addresses, frozenset(to_dial), True
        self.link()

    def follow(self) -> None:
        """Another list counts, or waits."""
        used = self._keeper.used
        self._schedule.use(used)
        slack = 0 if self._alone or not used.connections(self._rank) else used.diameter
        self._round_clock.use(used.members, used.rounds, slack)
        if self._keeper.lists is not None:
            self._round_clock.know(self._keeper.next_rank)
            self.link()
            self.effects.append(Admit(self._keeper.keys))

    def dial_all(self, stuck: bool) -> None:
        """Dial all members while this peer is stuck: its neighbors may all have gone, or be as stuck as it is."""
        if self._dials_all != stuck:
            self._dials_all = stuck
            self.link()

    def link(self) -> None:
        """Find the neighbors, and whom to dial; without lists both stay as they were at the start."""
        if self._keeper.lists is None:
            return
        rank, keeper = self._rank, self._keeper
        near = {*keeper.used.connections(rank)}.union(*(one.connections(rank) for one in self._schedule.begun))
        members = {*keeper.members, *near} - {rank}
        self.admitted = keeper.members.union(*(one.members for one in self._schedule.begun))
        self._members.follow(near, self.admitted - {rank}, self._keep_up(), began=self._began())
        known = {one: keeper.place(one).address or self._addresses.get(one) for one in {*members, rank}}
        addresses = {one: address for one, address in known.items() if address is not None}
        if self._dials_all or keeper.joins:  # all of them: they may know nothing of this peer
            wanted = {one for one in members if one in addresses}
        else:
            some = {one for one in near | keeper.near if one in addresses}
            wanted = {one for one in some if keeper.may_lack(one) or dials(rank, one, addresses)}
        self.dials_more |= not wanted <= self.to_dial
        self.to_dial = frozenset(wanted)

    def _keep_up(self) -> dict[int, int]:
        """The rounds of each rank that takes part, as far as is known: a graph brings news within its diameter."""
        clock, here = self._round_clock, self._members.current_round
        far = max(one.diameter for one in (self._keeper.used, *self._schedule.begun))
        return {rank: clock[rank] for rank in clock.there if clock[rank] + far + 1 >= here}
