"""Schedule of a run's graphs: the neighbors of each round, and how far apart two peers may be; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Piece:
    """The graphs of some rounds of a run: those of an epoch.

    Attributes:
        begins: The first of these rounds; they last until the next piece begins.
        graphs: The graph of each round, by rank.
        members: The ranks that it joins.
        epoch: The first bytes of the epoch's hash; empty for the first epoch.
    """

    begins: int
    graphs: Graphs
    members: frozenset[int]
    epoch: bytes = b""


class Schedule:
    """The graphs of a run as one peer sees them.

    Args:
        topology: The graph of every round.
        rank: The peer.
        rounds: How many rounds the run has.

    Attributes:
        rounds: How many rounds this peer has to run.
    """

    def __init__(self, topology: Graphs, rank: int, rounds: int) -> None:
        self._rank = rank
        self.follow([Piece(0, topology, frozenset(range(topology.size)))], rounds)

    def follow(self, pieces: Sequence[Piece], rounds: int) -> None:
        """Follow these pieces from now on, the first of which begins in round 0, for so many rounds."""
        self._pieces = tuple(pieces)
        self._graph = lru_cache(maxsize=_GRAPHS)(self._find)  # each is asked for often
        self.rounds = rounds

    def at(self, number: int) -> Neighborhood:
        """The graph of round `number`; before the first round and after the last one it has no edges."""
        if 0 <= number < self.rounds:
            return self._graph(number, self._rank)
        return Neighborhood(self._rank, Row(self._rank, {self._rank: 1.0}), (), ())

    def epoch(self, number: int) -> bytes:
        """The first bytes of the hash of the epoch that round `number` belongs to; empty for the first epoch."""
        return self._piece(number).epoch

    def members(self, number: int) -> frozenset[int]:
        """The members of the federation in round `number`."""
        return self._piece(number).members

    def _piece(self, number: int) -> Piece:
        if len(self._pieces) == 1:
            return self._pieces[0]
        return next(piece for piece in reversed(self._pieces) if piece.begins <= max(number, 0))

    def _find(self, number: int, rank: int) -> Neighborhood:
        piece, then = self._piece(number), self._piece(number + 1)
        if rank not in piece.members:
            return _before_entry(rank, piece, then, number)
        found = piece.graphs.at(number, rank)
        if then is piece or rank not in then.members:
            return found
        # A joiner takes the mean of the last round before its entry.
        joiners = then.members - piece.members
        more = [other for other in then.graphs.at(number + 1, rank).out_neighbors if other in joiners]
        if not more:
            return found
        return replace(found, out_neighbors=tuple(sorted({*found.out_neighbors, *more})))

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


def _before_entry(rank: int, piece: Piece, then: Piece, number: int) -> Neighborhood:
    """A round of which a peer is no member: in the last one before its entry it hears its neighbors to be."""
    alone = Row(rank, {rank: 1.0})
    if rank not in then.members:
        return Neighborhood(rank, alone, (), (), active=False)
    first = then.graphs.at(number + 1, rank)
    heard = tuple(other for other in first.in_neighbors if other in piece.members)
    row = first.row.restricted_to(heard) if heard else alone
    return Neighborhood(rank, row, heard, (), active=False)
