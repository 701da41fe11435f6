"""The small messages that a peer sends: hellos, heartbeats that name its current round, refusals, goodbyes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dpeer.peer import wire
from dpeer.peer.admission import Admission
from dpeer.peer.membership import Membership, Neighbor, Status
from dpeer.peer.transports import Link, Transport


class Speaker:
    """Sends the small messages.

    Args:
        rank: This peer.
        federation: The federation's id.
        transport: What carries the messages.
        members: The neighbors that get them, and this peer's current round.
        admission: Makes the hellos.

    Attributes:
        unanswered: Links that we have dialled, and on which the other side's hello has not come since they were
            established; and the clock time at which ours is repeated.
    """

    def __init__(
        self, rank: int, federation: bytes, transport: Transport, members: Membership, admission: Admission
    ) -> None:
        self.unanswered: dict[Link, float] = {}
        self._rank = rank
        self._federation = federation
        self._transport = transport
        self._members = members
        self._admission = admission

    def hello(self, link: Link, *, reply: bool) -> None:
        """Send a hello on the link: what this peer is part of."""
        self._send(link, self._admission.hello(self._members.current_round, reply=reply))

    def refuse(self, link: Link, reason: str) -> None:
        """Say why somebody is turned away."""
        self._send(link, wire.Refusal(rank=self._rank, reason=reason))

    def hello_to_all(self) -> None:
        """Say hello once more to the neighbors that are there, because it says something new."""
        for neighbor in self._members.all():
            if neighbor.link is not None and neighbor.status != Status.GONE:
                self.hello(neighbor.link, reply=True)

    def round(self, neighbors: Iterable[Neighbor]) -> None:
        """Tell the neighbors by a heartbeat that this peer is alive, and its current round.

        After a reconnect a neighbor is told only once its hello has been answered with the bodies that it lacks: a
        heartbeat that came before them would mean that they cannot come.
        """
        for neighbor in neighbors:
            if neighbor.link is not None and neighbor.link not in self.unanswered and neighbor.status != Status.GONE:
                self._send(neighbor.link, self._heartbeat())

    def goodbye(self, reason: Literal["done", "stopped", "failed"]) -> None:
        """Tell every neighbor that this peer leaves, and why."""
        for neighbor in self._members.all():
            if neighbor.link is not None and neighbor.status != Status.GONE:
                message = wire.Goodbye(rank=self._rank, federation=self._federation, reason=reason)
                self._send(neighbor.link, message)

    def still_there(self, neighbor: Neighbor) -> bool:
        """Whether the process that speaks for this rank is there: heard lately, and its connection not broken."""
        return (
            neighbor.status is Status.ALIVE
            and neighbor.link is not None
            and self._send(neighbor.link, self._heartbeat())
        )

    def _heartbeat(self) -> wire.Heartbeat:
        return wire.Heartbeat(rank=self._rank, federation=self._federation, round=self._members.current_round)

    def _send(self, link: Link, message: wire.Message) -> bool:
        return self._transport.send(link, wire.encode(message))
