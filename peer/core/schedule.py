"""Schedule: neighbors of each round, and which current rounds still let two peers exchange bodies; no I/O."""

from __future__ import annotations

from functools import lru_cache

from dpeer.topology import Graphs, Neighborhood, Row

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


def apart(graphs: Graphs, rank: int, rounds: int) -> set[int]:
    """The ranks to which no chain of neighbors leads from this one, in whatever rounds."""
    found, left = [rank], {*range(graphs.size)} - {rank}
    while found and left:
        near = {*graphs.connections(found.pop(), rounds)} & left
        left -= near
        found += near
    return left


class Schedule:
    """The graphs of a run as one peer sees them.

    Args:
        topology: The graph of every round.
        rank: The peer.
        rounds: How many rounds the run has.
    """

    def __init__(self, topology: Graphs, rank: int, rounds: int) -> None:
        self.rounds = rounds
        self._rank = rank
        self._graph = lru_cache(maxsize=_GRAPHS)(topology.at)  # each is asked for often

    def at(self, number: int) -> Neighborhood:
        """The graph of round `number`; before the first round and after the last one it has no edges."""
        if 0 <= number < self.rounds:
            return self._graph(number, self._rank)
        return Neighborhood(self._rank, Row(self._rank, {self._rank: 1.0}), (), ())

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
