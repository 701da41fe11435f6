"""Schedule: graphs of member lists, neighbors of each round, and which rounds let two peers exchange bodies; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

from dpeer.topology import Graphs, Neighborhood, Row, temporal_diameter

_BEGUN = 2
"""Rounds before the present one whose list is still of use: their bodies may have to be sent."""

_GRAPHS = 64
"""Graphs that are kept: of a few rounds, as this peer and each of some neighbors see them."""


def cut_off(number: int, sender: int, receiver: int) -> bool:
    """Whether round `number`'s body cannot get to its receiver any more.

    A checkpoint holds the body of the last completed round only, so a receiver that needs an older one waits in vain.
    A receiver that has completed a round that the sender has not even reached went on without the sender.

    Args:
        number: The round.
        sender: The sender's current round.
        receiver: The receiver's current round.
    """
    return receiver <= number < sender - 1 or sender < number < receiver


class Schedule:
    """The graphs of a run as one peer sees them: each round has those of the list with which this peer begins it."""

    def __init__(self, graph: ListedGraph, rank: int) -> None:
        self._rank = rank
        self._graph = graph
        self._begun: dict[int, ListedGraph] = {}

    @property
    def rounds(self) -> int:
        """How many rounds the run has."""
        return self._graph.rounds

    def use(self, graph: ListedGraph) -> None:
        """Another list counts: its graph is that of all rounds that have not begun."""
        self._graph = graph

    def begin(self, number: int) -> None:
        """Round `number` begins, with the list that counts."""
        self._begun = {one: graph for one, graph in self._begun.items() if one >= number - _BEGUN}
        self._begun[number] = self._graph

    @property
    def begun(self) -> list[ListedGraph]:
        """The graphs of the last rounds that have begun."""
        return [*self._begun.values()]

    def uses(self, number: int) -> bytes:
        """What names the list with which round `number` was begun, or, after the last one, that; empty before."""
        begun = self._begun.get(number if number < self.rounds else self.rounds - 1)
        return b"" if begun is None else begun.uses

    def fitting(self, number: int) -> set[bytes]:
        """What a neighbor in round `number` may name of which a body is waited for; empty before this peer begins it.

        It is the list with which this peer has begun the round, or one that has no such round: then the neighbor has
        completed all, and begins this one once it has the list that adds some.
        """
        if number not in self._begun:
            return set()
        return {b"", self.uses(number)}.union(one.uses for one in self.begun if one.rounds <= number)

    def at(self, number: int) -> Neighborhood:
        """The graph of round `number`; before the first round and after the last one it has no edges."""
        return self._begun.get(number, self._graph).at(number, self._rank)

    def listeners(self, number: int) -> set[int]:
        """The ranks that need a heartbeat when this peer reaches round `number`, because no body of it goes to them.

        Ranks that sent to us in the round before cannot complete this one before they know; ranks that will send to us
        in the next round may do so from then on. Where edges are mutual and stay, no rank needs one.
        """
        before, now, after = self.at(number - 1), self.at(number), self.at(number + 1)
        return {*before.in_neighbors, *after.in_neighbors} - {*now.out_neighbors}

    def fits(self, here: int, rank: int, there: int) -> bool:
        """Whether this peer, whose current round is `here`, can go on with `rank`, whose current round is `there`.

        Two that are neighbors in every round can if they are at most one round apart.
        """
        if max(here, there) > self.rounds:
            return False
        for number in range(min(here, there), max(here, there)):
            graph = self.at(number)
            if rank in graph.out_neighbors and cut_off(number, here, there):
                return False
            if rank in graph.in_neighbors and cut_off(number, there, here):
                return False
        return True


class ListedGraph:
    """The graphs of a member list: those of as many peers, whose ranks are the members in their order.

    Args:
        graphs: The graphs.
        members: The ranks; all from 0 on in a run without lists.
        rounds: How many rounds the run has.
        uses: What names the list in messages.

    Attributes:
        members: Sorted.
    """

    def __init__(self, graphs: Graphs, members: Iterable[int], rounds: int, uses: bytes = b"") -> None:
        self.members, self.rounds, self.uses = tuple(sorted(members)), rounds, uses
        self._graphs = graphs
        self._place = {rank: place for place, rank in enumerate(self.members)}
        self._renamed = self.members != tuple(range(graphs.size))
        self._graph = lru_cache(maxsize=_GRAPHS)(self._found)  # each is asked for often

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of a round as a rank sees it; before the first round and after the last one it has no edges.

        Nor has a rank that is no member, which is not active either.
        """
        if 0 <= number < self.rounds and rank in self._place:
            return self._graph(number, rank)
        return Neighborhood(rank, Row(rank, {rank: 1.0}), (), (), active=rank in self._place)

    def connections(self, rank: int) -> tuple[int, ...]:
        """Every rank that this one sends to or receives from in some round."""
        if rank not in self._place:
            return ()
        return self._ranks(self._graphs.connections(self._place[rank], self.rounds))

    def apart(self, rank: int) -> set[int]:
        """The members to which no chain of neighbors leads from this one, in whatever rounds."""
        found, left = [rank], {*self.members} - {rank}
        while found and left:
            near = {*self.connections(found.pop())} & left
            left -= near
            found += near
        return left

    @cached_property
    def diameter(self) -> int:
        """The most rounds that a message takes from one member to another."""
        return temporal_diameter(self._graphs, self.rounds)

    def _found(self, number: int, rank: int) -> Neighborhood:
        graph = self._graphs.at(number, self._place[rank])
        if not self._renamed:
            return graph
        row = Row(rank, {self.members[place]: weight for place, weight in graph.row.items()})
        return Neighborhood(rank, row, self._ranks(graph.in_neighbors), self._ranks(graph.out_neighbors), graph.active)

    def _ranks(self, places: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.members[place] for place in places)
