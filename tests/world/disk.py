"""A rank's disk in memory, in place of `RankFolder`: copies that outlive the rank's processes."""

import copy
from dataclasses import dataclass, field
from typing import Any

from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.restored import Restored


@dataclass
class Saved:
    """A checkpoint."""

    next_round: int
    learner: dict[str, Any]
    receivers: tuple[int, ...]
    released: list[bytes] | None
    lost: dict[int, str]
    incarnations: dict[int, int]
    recalled: dict[int, int]
    entry: dict[str, Any]


@dataclass
class Disk:
    """One rank's disk, which outlives its processes.

    Attributes:
        saved: The checkpoint; None before the first one.
        released: The last round that was released.
        steps: The steps with which each round was trained.
        seconds: The limit that the last one had.
        ledger: Round and incarnation of every release that was charged.
        incarnation: The peer's.
        number: How many disks the rank has lost before.
        restored: What is known of a copy that was put back; None where the disk is the one that was written last.
    """

    saved: Saved | None = None
    released: int = -1
    steps: dict[int, tuple[int, ...]] = field(default_factory=dict)
    seconds: float | None = None
    ledger: list[tuple[int, int]] = field(default_factory=list)
    incarnation: int = 0
    number: int = 0
    restored: Restored | None = None


class Files:
    """In place of a `RankFolder`. Its owner hands over `outbox` and `lost` of the peer's core."""

    diverged = False
    kept = True
    released = -1
    inside = None
    round_seconds = None
    incarnation = 0
    restored = None

    def __init__(self, disk, config, learner):
        self._disk, self._config, self._learner = disk, config, learner
        self._completed, self.due = None, False
        self.outbox = self.lost = self.incarnations = None
        self.recalled = {}
        self.last = None
        self.lines = []

    @property
    def completed(self):
        return 0 if self.last is None else self.last["round"] + 1

    @property
    def concluded(self):
        return {}  # a process that was killed after its last round has written no summary

    def take_up(self):
        self.released = self._disk.released if self._config.resume else -1
        self.round_seconds = self._disk.seconds if self._config.resume else None
        self.incarnation = self._disk.incarnation if self._config.resume else 0
        self.restored = self._disk.restored if self._config.resume else None
        saved = self._disk.saved if self._config.resume else None
        if saved is None:
            return 0
        self.last = dict(saved.entry)
        self._learner.take(copy.deepcopy(saved.learner))
        if saved.released is not None and self.resends():
            self.outbox.add(saved.next_round - 1, list(saved.released), saved.receivers)
        self.lost.update(saved.lost)
        self.incarnations.update(saved.incarnations)
        self.recalled = dict(saved.recalled)
        return saved.next_round

    def begin(self):
        if not self._config.resume:
            self._learner.start_over()

    def note_released(self, number, steps, seconds):
        self._disk.released, self._disk.seconds = number, seconds
        self._disk.steps[number] = tuple(steps)

    def recorded_steps(self, number):
        return self._disk.steps.get(number) if number <= self.released else None

    def note_incarnation(self, incarnation):
        self._disk.incarnation = self.incarnation = incarnation

    last_lost = RankFolder.last_lost
    resends = RankFolder.resends

    def note_restored(self, restored):
        self._disk.restored = self.restored = restored

    def complete(self, entry, *, over=False):
        number = entry["round"]
        every = not (over and not self._config.unrecorded) and (number + 1) % self._config.checkpoint_every == 0
        self.due = self._disk.saved is None or every or number + 1 == self._config.rounds
        frames = self.outbox.frames.get(number)
        self.last = dict(entry)
        self.lines.append(self.last)
        self._learner.recorded(self.last)
        self._completed = Saved(
            next_round=number + 1,
            learner=copy.deepcopy(self._learner.state()),
            receivers=tuple(self.outbox.receivers.get(number, ())),
            released=None if frames is None else [bytes(frame) for frame in frames],
            lost=dict(self.lost),
            incarnations=dict(self.incarnations),
            recalled=dict(self.to_recall()),
            entry=dict(entry),
        )

    def save(self, *, now=False):
        if self._completed is not None and (now or self.due):
            self._disk.saved, self._completed = self._completed, None

    def conclude(self, status, *rest):
        pass
