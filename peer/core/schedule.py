"""Schedule: neighbors of each round, and which current rounds still let two peers exchange bodies; no I/O."""

from __future__ import annotations

from dpeer.peer.core.listed_graph import ListedGraph
from dpeer.topology import Neighborhood

_BEGUN = 2
"""Rounds before the present one whose list is still of use: their bodies may have to be sent."""


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
    """The graphs of a run as one peer sees them: each round has those of the list with which this peer begins it.

    Args:
        graph: The graph of the list that counts.
        rank: The peer.
    """

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
