"""Rounds as a server has them: a sample of the peers trains and sends, and every peer takes the mean of what they send.

McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1, without the server: whom it would sample follows from the public seed,
and each of these sends to all. With S the sample of a round, row i of its matrix is

    W_ij = 1 / |S|  for j in S,   W_ij = 0  for all others, i itself among them

so all rows are equal, and all peers have one body after the round. A peer outside of S hears others and sends nothing.
Columns do not sum to one: the mean over all peers becomes the mean over the sample, as a server's does. Where a body
does not come, its weight goes to the receiver's own as everywhere (`Row.restricted_to`): what the peer sent, or, if it
sent nothing, what its last mixing gave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.neighborhood import Neighborhood, Row, check_rank
from dpeer.topology.participation import Participation
from dpeer.topology.static import Topology


@dataclass(frozen=True)
class ServerSampling(Participation):
    """The full graph, of which only some peers train and send in each round, and all hear those.

    Who takes part is drawn as `Participation` draws it.

    Raises:
        TopologyError: Not everyone hears everyone with the same weight, or there is no such fraction or seed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        graph = self.graphs
        if not isinstance(graph, Topology) or not np.allclose(graph.weights, 1 / graph.size, rtol=0, atol=1e-12):
            raise TopologyError(
                "participation-mode server: all peers take the mean of those drawn, so everyone hears everyone alike: "
                "use --topology full --weights uniform, or --participation-mode peers"
            )

    @property
    def share(self) -> float:
        """The share of all peers that is in a round's sample."""
        return self.count / self.size

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0), as `rank` sees it.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        sample = sorted(self.taking_part(number))
        row = Row(rank, dict.fromkeys(sample, 1 / len(sample)))
        heard = tuple(other for other in sample if other != rank)
        if rank not in row or row[rank] == 0:
            return Neighborhood(rank, row, heard, (), active=False)
        others = tuple(other for other in range(self.size) if other != rank)
        return Neighborhood(rank, row, heard, others)
