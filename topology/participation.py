"""Partial participation: each round a random sample of the peers takes part, drawn from a public seed.

McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1, where a fraction C of the clients takes part in each round, and the
server averages over the participants.

`Participation` keeps the graph: the weight of an absent neighbor goes to the diagonal, every other weight stays, and
absent peers keep their bodies. Little is mixed in a round of few: among 10 of 100 peers of a full graph each keeps 0.91
of its own. Where the graph's matrix is symmetric the round's is, too, and the average over the peers is kept: the one
by p with declared weights, of which the round keeps detailed balance.

`ServerSampling` is the paper's server without the server. With S the sample of a round, all rows of its matrix are

    W_ij = 1 / |S|  for j in S,   W_ij = 0  for all others, i itself among them

so all peers have one body after the round. A peer outside of S hears others and sends nothing. The weight of a body
that does not come goes to the receiver's own (`Row.restricted_to`): the body that it sent, or, if it sent none, the
result of its last mixing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.draws import shuffled
from dpeer.topology.neighborhood import Graphs, Isolated, Neighborhood, Row
from dpeer.topology.topologies import Topology


@dataclass(frozen=True)
class Participation:
    """Any graphs, of which only some peers take part in each round; the others have no neighbors in it.

    Attributes:
        fraction: The share of the peers that takes part in each round, more than 0 and at most 1.
        seed: The seed of the draws, at least 0. Public: every peer makes the same draw by itself.
    """

    graphs: Graphs
    fraction: float
    seed: int

    @property
    def size(self) -> int:
        """The number of all peers."""
        return self.graphs.size

    @property
    def count(self) -> int:
        """The number of participants of each round: `fraction` of the peers, halves rounded up, but at least two."""
        # In decimals, as the fraction was written: 0.29 of 50 is 14.5, in binary a little less.
        share = Decimal(str(float(self.fraction))) * self.size
        return min(self.size, max(2, int(share.to_integral_value(ROUND_HALF_UP))))

    def participants(self, number: int) -> frozenset[int]:
        """The ranks that take part in round `number` (from 0); the same on every peer."""
        return _drawn(self.seed, number, self.size, self.count)

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`; the graph among those that take part."""
        if self.count == self.size:
            return self.graphs.at(number, rank)
        present = self.participants(number)
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
        """Those of the graphs themselves, so a run resumed with more rounds has its links; idle ones cost little."""
        return self.graphs.connections(rank, rounds)


@lru_cache(maxsize=32)  # peers of one process are a few rounds apart
def _drawn(seed: int, number: int, size: int, count: int) -> frozenset[int]:
    """`count` different ranks of 0..size-1, drawn at random."""
    # The word keeps the stream apart from the graphs' (`random_stream`): with theirs, the draw would depend on the
    # edges, and pairs of a matching would take part together more often than others.
    generator = random.Random(f"participation {seed} {number}")  # noqa: S311 - public on purpose
    return frozenset(shuffled(size, generator)[:count].tolist())


@dataclass(frozen=True)
class ServerSampling(Participation):
    """The full graph, of which only the sample of a `Participation` trains and sends, and all hear it.

    Raises:
        TopologyError: Not everyone hears everyone with the same weight.
    """

    def __post_init__(self) -> None:
        graph = self.graphs
        if not isinstance(graph, Topology) or not np.allclose(graph.weights, 1 / graph.size, rtol=0, atol=1e-12):
            raise TopologyError(
                "participation-mode server: all peers take the mean of the sample, so everyone hears everyone alike: "
                "use --topology full --weights uniform, or --participation-mode peers"
            )

    @property
    def share(self) -> float:
        """The share of all peers that is in a round's sample."""
        return self.count / self.size

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`."""
        sample = sorted(self.participants(number))
        row = Row(rank, dict.fromkeys(sample, 1 / len(sample)))
        heard, others = (tuple(other for other in ranks if other != rank) for ranks in (sample, range(self.size)))
        active = rank in sample
        return Neighborhood(rank, row, heard, others if active else (), active)


def take_part(graph: Graphs, share: float, mode: str, seed: int) -> Graphs:
    """The graphs of a run in which a share of the peers takes part in each round; `mode` is "peers" or "server".

    Raises:
        TopologyError: The graph does not suit the mode.
    """
    if mode == "server" and not isinstance(graph, Isolated):
        return ServerSampling(graph, share, seed)
    return graph if share == 1 else Participation(graph, share, seed)
