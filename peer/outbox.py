"""The bodies this peer released last, kept as they were encoded: for neighbors not ready yet, or that ask again.

Two rounds are enough while running: a round is completed only when everyone who needs the body of the round before has
used it. So after a stop nobody can need any but the last completed round's, and the checkpoint keeps that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpeer.peer import wire
from dpeer.peer.wire import Frames

_KEEP = 2


@dataclass
class Outbox:
    """Encoded bodies by round, whom they are for, who still has to get them, and who got them.

    `messages` are what a body travels as: its frames in one, or cut where they have more bytes than `piece_bytes`.
    """

    piece_bytes: int | None = None
    frames: dict[int, Frames] = field(default_factory=dict)
    messages: dict[int, list[Frames]] = field(default_factory=dict)
    receivers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unsent: dict[int, set[int]] = field(default_factory=dict)
    sent: dict[int, set[int]] = field(default_factory=dict)

    def add(self, number: int, frames: Frames, receivers: tuple[int, ...]) -> None:
        """Remember round `number`'s body and whom it is for; forget what nobody can need any more."""
        self.frames[number] = frames
        self.messages[number] = list(wire.cut(frames, self.piece_bytes))
        self.receivers[number] = receivers
        self.unsent[number], self.sent[number] = set(), set()
        for old in [kept for kept in self.frames if kept <= number - _KEEP]:
            for table in (self.frames, self.messages, self.receivers, self.unsent, self.sent):
                del table[old]

    def asked(self, rank: int, next_round: int) -> None:
        """`rank`, about to complete `next_round`, shook hands: what it can still use is to be sent (again)."""
        for number, receivers in self.receivers.items():
            if number >= next_round and rank in receivers:
                self.unsent[number].add(rank)

    def pending(self) -> list[tuple[int, int]]:
        """Round and receiver of everything that is to be sent, oldest first."""
        return [(number, rank) for number in sorted(self.unsent) for rank in sorted(self.unsent[number])]

    def bytes_sent(self, number: int) -> int:
        """The bytes of all copies of round `number`'s body; one that was sent again counts once.

        Header and buffers, as they would travel in one message.
        """
        return len(self.sent[number]) * wire.size(self.frames[number]) if number in self.frames else 0
