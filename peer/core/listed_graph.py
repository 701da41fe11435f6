"""Listed graph: a member list's graph of each round over its ranks, with connections and diameter; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

from dpeer.topology import Graphs, Neighborhood, Row, temporal_diameter

_GRAPHS = 64
"""Graphs that are kept: of a few rounds, as this peer and each of some neighbors see them."""


class ListedGraph:
    """The graphs of a member list: those of as many peers, whose ranks are the members in their order.

    Args:
        graphs: The graphs.
        members: The ranks; all from 0 on in a run without lists.
        rounds: How many rounds the run has.
        uses: What names the list in messages.

    Attributes:
        members: Sorted.
        rounds: As given.
        uses: As given.
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
