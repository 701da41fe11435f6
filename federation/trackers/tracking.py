"""Tracking of a peer's run: each record goes to every tracker on a thread of its own, and no round waits for any."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.federation.trackers import TrackedRun, Tracker, find
from dpeer.peer.logs import PeerLog
from dpeer.results.files import write_json
from dpeer.results.reading import read_object

FILE = "tracked.json"
"""In a rank's folder: by tracker, the run of it that a resumed peer goes on with."""

SHOWN = (
    "algorithm", "task", "topology", "size", "rounds", "seed", "participation", "batch_size", "body_lr", "head_lr",
    "body_epochs", "head_epochs", "local_steps", "privacy",
)  # fmt: skip
"""Settings that trackers show: equal on all peers, or chosen without a look at data. None is a path or an address."""

_PROGRESS = ("bytes_sent", "bytes_received", "epsilon", "delta")
"""Figures that may leave a peer with privacy; all others are computed from its data."""

_MOST = 1000
"""Rounds that wait for a tracker; of more the oldest are left out."""

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0
"""Seconds after which a tracker that has failed is tried again, twice as long each time."""

_PATIENCE = 15.0
"""Seconds for which the end of a run waits for its trackers."""

Note = Callable[[str, str, str, str], None]
"""Logs a level, an event, a message and the tracker's name; from any thread."""


def figures(entry: Mapping[str, Any], *, protects: bool) -> dict[str, float]:
    """A record's figures, by name.

    Args:
        entry: A line of metrics.jsonl.
        protects: Whether they leave a peer that protects its data: then only its progress is among them.
    """
    found: dict[str, float] = {"heard": len(entry.get("heard") or ()), "missed": len(entry.get("missed") or ())}
    for name, value in entry.items():
        if name == "round" or (protects and name not in _PROGRESS):
            continue
        if isinstance(value, Mapping):
            if name != "privacy":
                found |= {f"{name}/{inner}": float(one) for inner, one in value.items() if _is_number(one)}
        elif _is_number(value):
            found[name] = float(value)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Feed:
    """One tracker's thread, and the rounds that wait for it.

    It opens the tracker, gives it one round after the other, and tries again for as long as it fails.

    Args:
        name: The tracker's.
        open_tracker: Opens it; may block and raise, like all that it is asked for.
        note: Logs that it has failed, and that it works again.
        first_pause: Seconds before the first further try.
    """

    def __init__(
        self, name: str, open_tracker: Callable[[], Tracker], note: Note, first_pause: float = _FIRST_PAUSE
    ) -> None:
        self._name, self._open, self._log, self._first_pause = name, open_tracker, note, first_pause
        self._waiting: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=_MOST)
        self._changed = threading.Condition()
        self._ends = self._failing = False
        self._left_out = 0
        self._thread = threading.Thread(target=self._run, name=f"track-{name}", daemon=True)
        self._thread.start()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Hand over a round; returns at once."""
        with self._changed:
            self._left_out += len(self._waiting) == _MOST
            self._waiting.append((step, values))
            self._changed.notify()

    def end(self) -> None:
        """Ask the tracker to end once it has all rounds; one that fails is not tried again."""
        with self._changed:
            self._ends = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, for so long at most; note what it lacks then."""
        self._thread.join(max(0.0, seconds))
        with self._changed:
            lacks = len(self._waiting) + self._left_out
        if lacks or self._thread.is_alive():
            missing = f"it lacks {lacks} rounds, which" if lacks else "it may lack the last rounds, which"
            message = f"{self._name} has not ended in time: {missing} are in metrics.jsonl"
            self._log("warning", "tracker", message, self._name)

    def _run(self) -> None:
        tracker: Tracker | None = None
        pause = self._first_pause
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ends)
                if not self._waiting:
                    break
                first = self._waiting[0]
            try:
                if tracker is None:
                    tracker = self._open()
                tracker.log(*first)
            except Exception as error:
                self._failed(error)
                with self._changed:
                    if self._changed.wait_for(lambda: self._ends, pause):
                        break
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            with self._changed:
                if self._waiting and self._waiting[0] is first:
                    self._waiting.popleft()
            if self._failing:
                self._failing, pause = False, self._first_pause
                self._log("info", "tracker-back", f"{self._name} takes figures again", self._name)
        if tracker is not None:
            try:
                tracker.close()
            except Exception as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Note the first failure of several; no round has waited for it."""
        if not self._failing:
            self._failing = True
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self._log(
                "warning", "tracker", f"{self._name} cannot be used ({why}): it is tried again, and rounds go on",
                self._name,
            )  # fmt: skip


class Tracking:
    """The trackers of one peer.

    Args:
        names: Which.
        out: The rank's folder.
        settings: The peer's settings, of which `SHOWN` are shown.
        protects: Whether the peer protects its data.
        resume: Whether it goes on with an earlier process's run.
        note: Logs an event.
    """

    def __init__(
        self, names: Sequence[str], out: Path, settings: Mapping[str, Any], *, protects: bool, resume: bool, note: Note
    ) -> None:  # fmt: skip
        self._names, self._out, self._log = names, out, note
        self._settings = {name: settings[name] for name in SHOWN if settings.get(name) is not None}
        self._protects = protects
        self._known = dict(read_object(out / FILE)) if resume else {}
        self._lock = threading.Lock()
        self._feeds: dict[str, tuple[Feed, bool]] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        """Hand a record to every tracker; returns at once."""
        if not self._feeds:
            for name in self._names:
                kind = find(name)
                self._feeds[name] = Feed(name, self._opener(name, kind, entry["round"]), self._log), kind.stays_home
        for feed, stays_home in self._feeds.values():
            feed.add(entry["round"], figures(entry, protects=self._protects and not stays_home))

    def _opener(self, name: str, kind: type[Tracker], first: int) -> Callable[[], Tracker]:
        known, group = self._known.get(name), self._out.parent.name
        run = TrackedRun(
            f"{group}/{self._out.name}", group, self._out, self._settings, first,
            known if isinstance(known, str) else None, lambda identity: self._keep(name, identity),
        )  # fmt: skip
        return lambda: kind(run)

    def _keep(self, name: str, identity: str) -> None:
        with self._lock:
            self._known[name] = identity
            write_json(self._out / FILE, self._known)

    def end(self) -> None:
        """Have all trackers end once they have all rounds."""
        for feed, _ in self._feeds.values():
            feed.end()

    def join(self, until: float) -> None:
        """Wait until they have, up to this time of the monotonic clock."""
        for feed, _ in self._feeds.values():
            feed.join(until - time.monotonic())


def start(
    names: Sequence[str] | None, out: Path, settings: Mapping[str, Any], log: PeerLog, *, protects: bool, resume: bool
) -> Tracking:
    """The trackers of the peer whose folder is `out`, which has to be given to `close`; see `Tracking`."""

    def note(level: str, event: str, message: str, tracker: str) -> None:
        with contextlib.suppress(Exception):  # the log may be closed when a thread comes late
            (log.warning if level == "warning" else log.info)(event, message=message, tracker=tracker)

    return Tracking(names or (), out, settings, protects=protects, resume=resume, note=note)


def close(trackings: Collection[Tracking]) -> None:
    """Have the trackers of some peers end, and wait for them, not for long."""
    until = time.monotonic() + _PATIENCE
    for one in trackings:
        one.end()
    for one in trackings:
        one.join(until)
