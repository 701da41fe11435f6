"""Received bodies, one round of look-ahead: the current round's and the next one's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dpeer.peer.learner import Payload


@dataclass(frozen=True)
class Received:
    """A neighbor's body of one round."""

    payload: Payload
    wire_bytes: int


class Inbox:
    """Holds what neighbors sent until the round loop asks for it.

    A neighbor sends a round's body only once it knows that this peer has reached the round before. So memory is bounded
    by two bodies per neighbor.
    """

    def __init__(self) -> None:
        self.current = 0
        self.dropped: Counter[str] = Counter()
        """Bodies that came too late, too early or twice."""
        self._rounds: dict[int, dict[int, Received]] = {}
        self._changed = asyncio.Event()

    def wants(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is of use; one that is not is counted."""
        if number < self.current:
            self.dropped["late"] += 1
        elif number > self.current + 1:
            self.dropped["early"] += 1
        elif rank in self._rounds.get(number, {}):
            self.dropped["duplicate"] += 1
        else:
            return True
        return False

    def put(self, rank: int, number: int, received: Received) -> None:
        """Keep a body, or drop and count it when it is of no use."""
        if self.wants(rank, number):
            self._rounds.setdefault(number, {})[rank] = received
            self.wake()

    def open(self, number: int) -> None:
        """The round loop starts this round: older bodies are late from now on."""
        self.current = number
        for old in [kept for kept in self._rounds if kept < number]:
            self.dropped["late"] += len(self._rounds.pop(old))

    def wake(self) -> None:
        """Something happened that may end a wait: a body came, or a neighbor is no longer awaited."""
        self._changed.set()

    async def collect(self, number: int, ranks: tuple[int, ...], awaited: Callable[[int], bool]) -> dict[int, Received]:
        """Round `number`'s bodies of the ranks, as soon as none of the missing ones is awaited any more.

        Bodies of the next round stay. Returned in rank order.
        """
        while True:
            self._changed.clear()
            here = self._rounds.get(number, {})
            if not any(rank not in here and awaited(rank) for rank in ranks):
                self._rounds.pop(number, None)
                self.current = number + 1
                return {rank: here[rank] for rank in sorted(ranks) if rank in here}
            await self._changed.wait()
