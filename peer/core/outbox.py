"""The bodies this peer released last, as they were encoded, for neighbors that are not ready yet or ask again.

Two rounds are enough while the peer runs: it completes a round only once everyone that needs the body of the round
before has used it. So after a stop nobody can need any body but the last completed round's, and the checkpoint keeps
that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpeer.peer.core import wire
from dpeer.peer.core.wire import Frames

_KEEP = 2


@dataclass
class Outbox:
    """Encoded bodies and their receivers, by round.

    Attributes:
        frames: The encoded body.
        receivers: The ranks that the body is for.
        unsent: Those of them that it is still to be sent to.
        sent: Those that it was sent to.
    """

    frames: dict[int, Frames] = field(default_factory=dict)
    receivers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unsent: dict[int, set[int]] = field(default_factory=dict)
    sent: dict[int, set[int]] = field(default_factory=dict)

    def add(self, number: int, frames: Frames, receivers: tuple[int, ...]) -> None:
        """Keep round `number`'s body, for these ranks; forget bodies that nobody can need any more."""
        self.frames[number] = frames
        self.receivers[number] = receivers
        self.unsent[number], self.sent[number] = set(), set()
        for old in [kept for kept in self.frames if kept <= number - _KEEP]:
            for table in (self.frames, self.receivers, self.unsent, self.sent):
                del table[old]

    def ask(self, rank: int, current_round: int) -> None:
        """Plan to send (again) what is of use to a rank that has shaken hands and works on `current_round`."""
        for number, receivers in self.receivers.items():
            if number >= current_round and rank in receivers:
                self.unsent[number].add(rank)

    def pending(self) -> list[tuple[int, int]]:
        """Round and receiver of every body that is still to be sent, oldest first."""
        return [(number, rank) for number in sorted(self.unsent) for rank in sorted(self.unsent[number])]

    def bytes_sent(self, number: int) -> int:
        """The bytes of all copies of round `number`'s body: header and buffers, as they would travel in one message.

        A copy that was sent again counts once.
        """
        return len(self.sent[number]) * wire.size(self.frames[number]) if number in self.frames else 0
