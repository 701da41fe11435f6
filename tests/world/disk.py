"""A rank's disk in memory, in place of `RankFolder`: copies that outlive the rank's processes."""

import copy
from dataclasses import dataclass, field
from typing import Any

from dpeer.peer.checkpoint import Progress
from dpeer.peer.config import Counted
from dpeer.peer.core.round_budget import RoundLimit

WHOLE = RoundLimit(1.0, None, None)

STATED = -1
"""In the ledger, in place of an incarnation: a round that a lost disk may have released."""


@dataclass
class Saved:
    """A checkpoint."""

    next_round: int
    learner: dict[str, Any]
    receivers: tuple[int, ...]
    released: list[bytes] | None
    lost: dict[int, str]
    entry: dict[str, Any]


@dataclass
class Disk:
    """One rank's disk, which outlives its processes.

    Attributes:
        saved: The checkpoint; None before the first one.
        released: The last round that was released.
        limits: The limit within which each round was trained.
        ledger: Round and incarnation of every release that was charged; `STATED` in place of that if the operator has
            stated it.
        noted: The rounds that have had a line in its metrics, but for an adoption.
        number: How many disks the rank has lost before.
        lists: The two member lists.
    """

    saved: Saved | None = None
    released: int = -1
    limits: dict[int, RoundLimit | None] = field(default_factory=dict)
    ledger: list[tuple[int, int]] = field(default_factory=list)
    noted: int = 0
    number: int = 0
    lists: tuple[Any, Any] = (None, None)

    def counted(self, stated):
        """See `dpeer.federation.resume_checks.counted`."""
        saved = 0 if self.saved is None else self.saved.next_round
        sent = max((number for number, _ in self.ledger), default=-1) + 1
        return Counted(max(stated, saved, self.noted, sent), max(stated, sent))


class Files:
    """In place of a `RankFolder`. Its owner hands over `outbox` and `lost` of the peer's core."""

    diverged = False
    released = -1
    inside = None

    def __init__(self, disk, config, learner):
        self._disk, self._config, self._learner = disk, config, learner
        self._completed, self.due = None, False
        self.outbox = self.lost = None
        self.progress = Progress()
        self.lines = []

    @property
    def concluded(self):
        return {}  # a process that was killed after its last round has written no summary

    def take_up(self):
        self.released = self._disk.released if self._config.resume else -1
        saved = self._disk.saved if self._config.resume else None
        if saved is None:
            return 0
        self.progress = Progress(last=dict(saved.entry))
        self._learner.take(copy.deepcopy(saved.learner))
        if saved.released is not None and saved.next_round > self._config.rounds_released:
            self.outbox.add(saved.next_round - 1, list(saved.released), saved.receivers)
        self.lost.update(saved.lost)
        return saved.next_round

    def begin(self): ...

    def take_up_lists(self):
        return self._disk.lists

    def keep_lists(self, counts, waits):
        self._disk.lists = counts if counts.version else None, waits

    @property
    def releases(self):
        """In place of a `ReleasedFile`, too."""
        return self

    def note(self, number, limit):
        self._disk.released = number
        self._disk.limits[number] = limit

    def recorded(self, number):
        return self._disk.limits.get(number) or WHOLE if number <= self.released else None

    @property
    def last_limit(self):
        return self._disk.limits.get(self.released) or WHOLE

    def complete(self, entry, *, over=False):
        number = entry["round"]
        body = self.outbox.get(number)
        every = not over and (number + 1) % self._config.checkpoint_every == 0
        every |= entry["adopted"] or number + 1 == self._config.rounds
        self.due = self._disk.saved is None or every
        self.progress = Progress(last=dict(entry))
        self.lines.append(self.progress.last)
        self._learner.recorded(self.progress.last)
        self._completed = Saved(
            next_round=number + 1,
            learner=copy.deepcopy(self._learner.state()),
            receivers=() if body is None else tuple(body.receivers),
            released=None if body is None else [bytes(frame) for frame in body.frames],
            lost=dict(self.lost),
            entry=dict(entry),
        )

    def save(self, *, now=False):
        if self._completed is not None:
            adopted = self._completed.entry.get("adopted")
            self._disk.noted = self._disk.noted if adopted else self._completed.next_round
        if self._completed is not None and (now or self.due):
            self._disk.saved, self._completed = self._completed, None

    def conclude(self, status, *rest, ruined):
        pass
