"""Graphs whose peers have other ranks than 0 to size - 1, as the members of an epoch do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpeer.exceptions import TopologyError
from dpeer.topology.neighborhood import Graphs, Neighborhood, Row


@dataclass(frozen=True)
class Relabeled:
    """The same graphs with another name for each peer.

    Names are in the order of the ranks that they replace, so a mix sums the same values in the same order.

    Attributes:
        graphs: The graphs, of the ranks from 0 to size - 1.
        ranks: The new name of each of them, ascending.

    Raises:
        TopologyError: The names are not ascending, or not as many as the peers.
    """

    graphs: Graphs
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.ranks) != self.graphs.size or list(self.ranks) != sorted(set(self.ranks)):
            raise TopologyError(
                f"ranks {', '.join(map(str, self.ranks[:8]))}: expected {self.graphs.size} different ones, ascending"
            )

    @property
    def size(self) -> int:
        """The number of peers; their ranks may be larger."""
        return self.graphs.size

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`; by the new names.

        Raises:
            TopologyError: If `rank` is no name.
        """
        around = self.graphs.at(number, self._place(rank))
        return Neighborhood(
            rank,
            Row(rank, {self.ranks[other]: weight for other, weight in around.row.items()}),
            self._named(around.in_neighbors),
            self._named(around.out_neighbors),
            around.active,
        )

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """See `Graphs.connections`; by the new names.

        Raises:
            TopologyError: If `rank` is no name.
        """
        return self._named(self.graphs.connections(self._place(rank), rounds))

    def _place(self, rank: int) -> int:
        place = self._places.get(rank)
        if place is None:
            raise TopologyError(f"rank {rank}: expected one of {', '.join(map(str, self.ranks))}")
        return place

    def _named(self, places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.ranks[place] for place in places)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {rank: place for place, rank in enumerate(self.ranks)}
