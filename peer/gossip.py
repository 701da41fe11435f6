"""A peer's part in the exchange of bodies, round by round: what goes out when, and for whom a round waits.

Two rules keep the peers in step on every graph (docs/design.md). A round's body goes to an out-neighbor once that one
has reached the round before. A round is completed once the out-neighbors of the round before have used that round's
body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from dpeer.peer import wire
from dpeer.peer.inbox import Inbox, Received
from dpeer.peer.learner import Payload
from dpeer.peer.membership import Membership
from dpeer.peer.outbox import Outbox
from dpeer.peer.schedule import Schedule
from dpeer.peer.speaker import Speaker
from dpeer.peer.transports import Transport
from dpeer.topology import Neighborhood


class Gossip:
    """What the round loop asks of a peer's connections.

    Args:
        rank: The peer.
        federation: The federation's id.
        schedule: With whom bodies are exchanged in each round.
        members: The neighbors: which are there, and in which round.
        speaker: Tells neighbors which round this peer has reached.
        transport: What carries the bodies.
        log: Where lines go.

    Attributes:
        inbox: The bodies that came.
        outbox: The bodies that this peer released last.
    """

    def __init__(
        self,
        rank: int,
        federation: bytes,
        schedule: Schedule,
        members: Membership,
        speaker: Speaker,
        transport: Transport,
        log: logging.Logger,
    ) -> None:
        self.inbox = Inbox(self._second_body)
        self.outbox = Outbox(transport.piece_bytes)
        self._rank = rank
        self._federation = federation
        self._schedule = schedule
        self._members = members
        self._speaker = speaker
        self._transport = transport
        self._log = log
        self._news = asyncio.Event()

    def begin(self, number: int) -> Neighborhood:
        """Make round `number` this peer's current round, and tell the neighbors that wait for that.

        Returns:
            The round's graph, as this peer sees it.
        """
        self._members.current_round = number
        self.inbox.open(number)
        listeners = self._schedule.listeners(number)
        if number - 1 not in self.outbox.frames:  # sat out: the out-neighbors of that round get no body that tells them
            listeners.update(self._schedule.at(number - 1).out_neighbors)
        self._speaker.round(self._members[rank] for rank in sorted(listeners))
        return self._schedule.at(number)

    def send(self, number: int, payload: Payload | None) -> None:
        """Send round `number`'s body to each out-neighbor once that one is known to have reached the round before.

        So no inbox has to keep bodies of more than the next round. On a mutual edge that stays, this is known already:
        the neighbor's body of the round before is here. A peer that releases nothing in the round says at least that it
        has reached it.
        """
        receivers = self._schedule.at(number).out_neighbors
        if payload is None:
            self._speaker.round(self._members[rank] for rank in receivers)
            return
        self.outbox.add(number, wire.encode(wire.body(self._federation, self._rank, number, payload)), receivers)
        self.outbox.unsent[number].update(receivers)
        self.deliver()

    def deliver(self) -> None:
        """Send bodies to all receivers that are ready. A body that a broken link lost is asked for when it is back."""
        for number, rank in self.outbox.pending():
            if self._members.reachable(rank) and self._members[rank].current_round >= number - 1:
                self.outbox.unsent[number].discard(rank)
                link = self._members[rank].link
                if all(self._transport.send(link, message) for message in self.outbox.messages[number]):
                    self.outbox.sent[number].add(rank)

    async def collect(self, number: int) -> dict[int, Received]:
        """Round `number`'s bodies, once none of those that are not here is awaited any more; by rank."""
        in_neighbors = self._schedule.at(number).in_neighbors
        received = await self.inbox.collect(
            number, in_neighbors, lambda rank: self._members.awaited(rank, number, time.monotonic())
        )
        for rank in sorted(set(in_neighbors) - received.keys()):
            if reason := self._members.note_lost(rank):
                self._log.warning("lost rank %d (%s): its weight goes to the diagonal", rank, reason)
        return received

    async def settle(self, number: int) -> int:
        """Wait until round `number` may be completed; return the bytes of all copies of its body.

        That is when its body is on its way to every out-neighbor, and every out-neighbor of the round before has
        completed that one. From then on, of all that this peer released, only the body that goes into the checkpoint
        can still be needed. A neighbor that is not waited for does not count.
        """
        earlier = self._schedule.at(number - 1).out_neighbors

        def may_be_completed() -> bool:
            now = time.monotonic()
            return not any(self._members.holds_up(rank, number, now) for rank in earlier) and not any(
                self._members.waited_for(rank, number, now) for rank in self.outbox.unsent.get(number, ())
            )

        await self.until(may_be_completed)
        return self.outbox.bytes_sent(number)

    async def linger(self, rounds: int) -> None:
        """Stay after the last round until every neighbor has completed it too, or is away.

        A neighbor that has completed the last round has every body it needs, and will not ask for one again.
        """
        self._members.current_round = rounds
        self._speaker.round(self._members.all())
        await self.until(lambda: not any(self._may_ask(neighbor.rank, rounds) for neighbor in self._members.all()))

    def _may_ask(self, rank: int, rounds: int) -> bool:
        return self._members.reachable(rank) and self._members.holds_up(rank, rounds, time.monotonic())

    def _second_body(self, rank: int, number: int) -> None:
        self._log.warning(
            "rank %d sent a second, different body for round %d (the first is used): its folder was copied or rolled "
            "back to a backup, or two processes use it; with --privacy it has released that round twice, and its "
            "epsilon is higher than it says: let one process go on, with the folder as it was last (without --privacy, "
            "a round that was trained again after a crash can look like this, and does no harm)",
            rank,
            number,
        )

    # -- waiting -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again at every wait and at every body that is not sent yet, because something has happened."""
        self.deliver()
        self._news.set()
        self.inbox.wake()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on what neighbors said is true. Only the round loop waits, so one event will do."""
        while True:
            self._news.clear()
            if condition():
                return
            await self._news.wait()
