"""A peer's part in the exchange of bodies, round by round: what goes out when, and for whom a round waits.

Two rules keep the peers in step on every graph (docs/design.md): a body goes to whoever has reached the round before,
and a round is complete when those who got the body of the one before have used it.
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
        schedule: Whom each round concerns.
        members: Who is there, and how far.
        speaker: Tells others where we are.
        transport: What carries the bodies.
        log: Where lines go.

    Attributes:
        inbox: What came.
        outbox: What was released last.
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
        self._progress = asyncio.Event()

    def begin(self, number: int) -> Neighborhood:
        """This peer is now at work on round `number`, whose graph it is: who waits for just that is told at once."""
        self._members.own_round = number
        self.inbox.open(number)
        listeners = self._schedule.listeners(number)
        if number - 1 not in self.outbox.frames:  # sat out: without a word its neighbors would wait for a body
            listeners.update(self._schedule.at(number - 1).out_neighbors)
        self._speaker.round(self._members[rank] for rank in sorted(listeners))
        return self._schedule.at(number)

    def send(self, number: int, payload: Payload | None) -> None:
        """Send round `number`'s body to each out-neighbor once that one is known to have reached the round before.

        So nobody ever has to keep more than one round ahead. On a mutual edge that stays this is known already: their
        body of the round before is here. A peer that sits the round out says at least where it is.
        """
        receivers = self._schedule.at(number).out_neighbors
        if payload is None:
            self._speaker.round(self._members[rank] for rank in receivers)
            return
        self.outbox.add(number, wire.encode(wire.body(self._federation, self._rank, number, payload)), receivers)
        self.outbox.unsent[number].update(receivers)
        self.deliver()

    def deliver(self) -> None:
        """Send what can be sent. What a broken link swallows is asked for again in the next handshake."""
        for number, rank in self.outbox.pending():
            if self._members.reachable(rank) and self._members[rank].progress >= number - 1:
                self.outbox.unsent[number].discard(rank)
                link = self._members[rank].link
                if all(self._transport.send(link, message) for message in self.outbox.messages[number]):
                    self.outbox.sent[number].add(rank)

    async def collect(self, number: int) -> dict[int, Received]:
        """Round `number`'s bodies from everyone who can still send one."""
        in_neighbors = self._schedule.at(number).in_neighbors
        received = await self.inbox.collect(
            number, in_neighbors, lambda rank: self._members.awaited(rank, number, time.monotonic())
        )
        for rank in sorted(set(in_neighbors) - received.keys()):
            if reason := self._members.given_up(rank):
                self._log.warning("lost rank %d (%s): its weight goes to the diagonal", rank, reason)
        return received

    async def settle(self, number: int) -> int:
        """Wait until round `number` may be completed; returns the bytes of all copies of its body.

        It is on its way to everyone, and whoever got the body of the round before has completed that round: of what
        this peer released, only the body that goes into the checkpoint can still be needed.
        """
        earlier = self._schedule.at(number - 1).out_neighbors

        def settled() -> bool:
            now = time.monotonic()
            return all(self._members.settled(rank, number, now) for rank in earlier) and not any(
                self._members.waited_for(rank, number, now) for rank in self.outbox.unsent.get(number, ())
            )

        await self.until(settled)
        return self.outbox.bytes_sent(number)

    async def linger(self, rounds: int) -> None:
        """After the last round: stay until every neighbor has reached its end too, or is lost.

        Whoever has come to its end has every body it needs, so nobody has to ask this peer again.
        """
        self._members.own_round = rounds
        self._speaker.round(self._members.all())
        await self.until(
            lambda: not any(self._still_at_work(neighbor.rank, rounds) for neighbor in self._members.all())
        )

    def _still_at_work(self, rank: int, rounds: int) -> bool:
        return self._members.reachable(rank) and not self._members.settled(rank, rounds, time.monotonic())

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
        """Something happened that may end a wait, or make somebody ready for a body."""
        self.deliver()
        self._progress.set()
        self.inbox.wake()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what neighbors said. Only the round loop waits, so one event serves."""
        while True:
            self._progress.clear()
            if condition():
                return
            await self._progress.wait()
