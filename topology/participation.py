"""Rounds in which only some of the peers take part, drawn anew for each from a public seed.

McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1, where a fraction C of the clients takes part in each round. There the
server averages over the participants, and divides by how many (or how much data) there are. Here the weight of a
neighbor that sits out goes to the diagonal: every weight that is left stays what it was, and who sits out keeps what it
has. So little is mixed in a round of few; among 10 of 100 peers of a full graph each keeps 0.91 of its own.

Rows always sum to one. Where the graph's matrix is symmetric the round's is symmetric too, so its columns also sum to
one and the average over the peers is kept. Where it is not, as in `exponential-directed` and `one-peer-exponential`,
that is lost even though their own matrices are doubly stochastic: a peer's diagonal grows by the weight it does not
hear, and its column lacks the weight it does not send, which differ when those it hears and those it sends to do not
sit out alike. A column then sums to one only on average over the draws.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from dpeer.exceptions import TopologyError
from dpeer.topology.neighborhood import Graphs, Neighborhood, Row, check_rank
from dpeer.topology.regular import shuffled

_KEPT = 32
"""Draws kept in memory: peers of one process are a few rounds apart."""


@dataclass(frozen=True)
class Participation:
    """Any graphs, of which only some peers take part in each round.

    The others have no neighbors in that round, so nobody waits for them. On a sparse graph one that takes part may find
    no neighbor that does; it then trains and exchanges with nobody.

    Attributes:
        graphs: The graphs as they are when everyone takes part.
        fraction: The share of the peers that takes part in each round, more than 0 and at most 1.
        seed: What the draws are made from, at least 0. Public: every peer makes the same draw by itself.

    Raises:
        TopologyError: If there is no such fraction or seed.
    """

    graphs: Graphs
    fraction: float
    seed: int

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:  # not "<= 0 or > 1", so that a NaN is caught too
            raise TopologyError(f"participation: fraction {self.fraction:g}: choose more than 0 and at most 1")
        if self.seed < 0:
            raise TopologyError(f"participation: seed {self.seed}: choose 0 or more")

    @property
    def size(self) -> int:
        """The number of peers, whether they take part or not."""
        return self.graphs.size

    @property
    def count(self) -> int:
        """How many take part in each round: `fraction` of the peers, halves rounded up, but at least two of them."""
        # In decimals, as the fraction was written: 0.29 of 50 is 14.5, in binary a little less.
        share = Decimal(str(float(self.fraction))) * self.size
        return min(self.size, max(2, int(share.to_integral_value(ROUND_HALF_UP))))

    @property
    def pair_rate(self) -> float:
        """The share of all rounds in which a given pair is expected to take part together: how often an edge is used.

        With m of n peers that is m (m - 1) / (n (n - 1)), about the fraction squared.
        """
        size, count = self.size, self.count
        return 1.0 if count == size else count * (count - 1) / (size * (size - 1))

    def taking_part(self, number: int) -> frozenset[int]:
        """The ranks that take part in round `number` (from 0); the same on every peer."""
        return _drawn(self.seed, number, self.size, self.count)

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) among those that take part, as `rank` sees it.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        if self.count == self.size:
            return self.graphs.at(number, rank)
        present = self.taking_part(number)
        if rank not in present:
            return Neighborhood(rank, Row(rank, {rank: 1.0}), (), (), active=False)
        around = self.graphs.at(number, rank)
        return replace(
            around,
            row=around.row.restricted_to(present),
            in_neighbors=tuple(other for other in around.in_neighbors if other in present),
            out_neighbors=tuple(other for other in around.out_neighbors if other in present),
        )

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` may send to or receive from in rounds 0 to `rounds` - 1, sorted.

        These are the connections of the graphs themselves, whoever takes part. Too many do no harm: on a fixed graph
        a run resumed with more rounds has the links that it needs. The cost is an idle link to each neighbor never met.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        return self.graphs.connections(rank, rounds)


@lru_cache(maxsize=_KEPT)
def _drawn(seed: int, number: int, size: int, count: int) -> frozenset[int]:
    """`count` different ranks of 0..size-1, drawn at random."""
    # The word keeps the stream apart from the graphs' (`generator_of`): with theirs, who is drawn would depend on who
    # is joined to whom, and pairs of a matching would take part together more often than others.
    generator = random.Random(f"participation {seed} {number}")  # noqa: S311 - public on purpose
    return frozenset(shuffled(size, generator)[:count].tolist())
