"""What a peer says besides bodies: hellos, where it is, refusals, goodbye."""

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
        rank: Who speaks.
        federation: The federation's id.
        transport: What carries them.
        members: To whom.
        greeter: What hellos say.

    Attributes:
        unanswered: Links that we have established and whose hello has not come yet.
    """

    def __init__(
        self, rank: int, federation: bytes, transport: Transport, members: Membership, greeter: Admission
    ) -> None:
        self.unanswered: set[Link] = set()
        self._rank = rank
        self._federation = federation
        self._transport = transport
        self._members = members
        self._greeter = greeter

    def hello(self, link: Link, *, reply: bool) -> None:
        """Say who we are."""
        self._send(link, self._greeter.hello(self._members.own_round, reply=reply))

    def refuse(self, link: Link, reason: str) -> None:
        """Say why somebody is turned away."""
        self._send(link, wire.Refusal(rank=self._rank, reason=reason))

    def round(self, neighbors: Iterable[Neighbor]) -> None:
        """Say that we are alive and at work on our round.

        After a reconnect this waits until the other side's hello has been answered with the bodies that it lacks: heard
        before them, it would mean that they cannot come.
        """
        for neighbor in neighbors:
            if neighbor.link is not None and neighbor.link not in self.unanswered and neighbor.status != Status.GONE:
                self._send(neighbor.link, self._heartbeat())

    def goodbye(self, reason: Literal["done", "stopped", "failed"]) -> None:
        """Tell every neighbor that we leave."""
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
        return wire.Heartbeat(rank=self._rank, federation=self._federation, round=self._members.own_round)

    def _send(self, link: Link, message: wire.Message) -> bool:
        return self._transport.send(link, wire.encode(message))
