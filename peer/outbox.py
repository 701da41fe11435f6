"""The bodies this peer released last, kept as they were encoded, for neighbors that have to ask again.

Two rounds are enough while running: a neighbor that lost its connection needs this round's body or, when this peer
has already gone on, the one before. One round is enough in a checkpoint: a neighbor that was stopped with this
peer is at most one round behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpeer.peer.wire import Frames

_KEEP = 2


@dataclass
class Outbox:
    """Encoded bodies by round, and who has been sent which."""

    frames: dict[int, Frames] = field(default_factory=dict)
    receivers: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def add(self, number: int, frames: Frames, receivers: tuple[int, ...]) -> None:
        """Remember round `number`'s body and whom it is for; forget what nobody can need any more."""
        self.frames[number] = frames
        self.receivers[number] = receivers
        for old in [kept for kept in self.frames if kept <= number - _KEEP]:
            del self.frames[old], self.receivers[old]

    def wanted(self, rank: int, next_round: int) -> list[Frames]:
        """Bodies for `rank` that it can still use when it is about to complete `next_round`, oldest first."""
        return [
            frames
            for number, frames in sorted(self.frames.items())
            if number >= next_round and rank in self.receivers[number]
        ]
