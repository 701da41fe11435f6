"""Atomic checkpoints: a run that was stopped or killed goes on from its last completed round.

    checkpoint/round-00000007/state.json         round, fingerprint, released body, checksums (of itself, too)
    checkpoint/round-00000007/learner/...        whatever the learner saved
    checkpoint/round-00000007/released-0.bin ... the last released body, for neighbors that still need it

A folder is written under another name, flushed to disk, then renamed; so a folder that has its name is whole. Only then
is the earlier checkpoint removed. Beside it released.json has what a killed peer must know of its later releases.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.atomic import flush
from dpeer.exceptions import CheckpointError, system_error
from dpeer.peer.core.round_budget import RoundLimit
from dpeer.peer.learner import Buffer, Learner, SaveCopy
from dpeer.results.files import RELEASED, make_folder, write_json
from dpeer.results.json_fields import number as json_number
from dpeer.results.json_fields import table_or_empty, total, whole
from dpeer.results.records import gap
from dpeer.results.run_folders import read_object

if TYPE_CHECKING:
    from dpeer.peer.core.wire import Frames

FOLDER = "checkpoint"
"""In a rank's folder: its checkpoints."""

STATE = "state.json"
"""In a checkpoint: the peer's own part."""

_PREFIX = "round-"
_ROUNDS = _PREFIX + 8 * "[0-9]"
"""The names of folders that a peer writes, and no others, such as copies that a user puts beside them."""
_DRAFTS = ".*.tmp"
_LEARNER = "learner"
_CHECKSUM = "checksum"
_KEYS = {"next_round", "fingerprint", "receivers", "released_frames", "extra", "sha256"}
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, CheckpointError)
"""The errors of reading a damaged checkpoint."""


@dataclass(frozen=True)
class Progress:
    """Sums over all completed rounds, also those whose line is not in the file any more; plain JSON values.

    Attributes:
        best: The line of the best model's round, where the best is kept.
        rounds_mixed: In how many rounds a neighbor's body was mixed.
        mixed_round: The last of those in which the peer took part; None before one.
        mixed_at: When that was complete (Unix seconds).
        lost: By rank as text, why a round has gone on without this neighbor.
    """

    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    rounds_mixed: int = 0
    mixed_round: int | None = None
    mixed_at: float | None = None
    seconds: float = 0.0
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def completed(self) -> int:
        """The number of completed rounds."""
        return 0 if self.last is None else int(self.last["round"]) + 1

    def plus(
        self, entry: dict[str, Any], *, best: bool, now: float, seconds: float, lost: Mapping[int, str]
    ) -> Progress:
        """The same with one more round, which was completed `now` (Unix seconds)."""
        took_part = bool(entry.get("heard")) and not entry.get("adopted")
        return Progress(
            last=entry,
            best=entry if best else self.best,
            bytes_sent=self.bytes_sent + (total(entry.get("bytes_sent")) or 0),
            bytes_received=self.bytes_received + (total(entry.get("bytes_received")) or 0),
            rounds_mixed=self.rounds_mixed + bool(entry.get("heard")),
            mixed_round=entry["round"] if took_part else self.mixed_round,
            mixed_at=now if took_part else self.mixed_at,
            seconds=seconds,
            lost={str(rank): why for rank, why in lost.items()},
        )

    def entries(self, learner: Learner) -> dict[str, Any]:
        """The entries of summary.json about the rounds; the learner knows which round's model is kept, and which."""
        last = self.last or {}
        best, point = learner.figures.best_round, learner.figures.kept_point
        kept = last if best is None or best == last.get("round") else self.best or last
        ending = "" if point == "mixed" else f"_{point}"
        others = {
            f"{name}_{other}": kept.get(name if other == "mixed" else f"{name}_{other}")
            for name in ("accuracy", "training_accuracy")
            for other in ("trained", "mixed", "finished")
        }
        training = kept.get(f"training_accuracy{ending}")
        return {
            "kept_round": kept.get("round"),
            "kept_point": point,
            **{name: kept.get(f"{name}{ending}") for name in ("accuracy", "test_loss", "metrics")},
            "training_accuracy": training,
            "generalization_gap": gap(training, kept.get(f"accuracy{ending}")),
            **others,
            "test_loss_mixed": kept.get("test_loss"),
            "metrics_mixed": kept.get("metrics"),
            "train_loss": kept.get("train_loss"),
            "rounds_mixed": self.rounds_mixed,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
        }


@dataclass(frozen=True)
class State:
    """A peer's own part of a checkpoint (not its learner's), taken up on resume."""

    next_round: int
    """The peer's current round: the first that is not completed."""
    fingerprint: Mapping[str, Any]
    receivers: tuple[int, ...] = ()
    """The ranks that the released body was for."""
    released: Frames | None = None
    """The encoded body of round next_round - 1; None if nothing was released."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Bookkeeping that goes on, such as which neighbors were lost; plain JSON values."""


def write(folder: Path, state: State, save_learner: SaveCopy) -> None:
    """Write the checkpoint of round `state.next_round - 1` and drop older ones."""
    frames = {f"released-{index}.bin": frame for index, frame in enumerate(state.released or ())}
    described = {
        "next_round": state.next_round,
        "fingerprint": dict(state.fingerprint),
        "receivers": list(state.receivers),
        "released_frames": None if state.released is None else len(state.released),
        "extra": dict(state.extra),
    }
    final = folder / f"{_PREFIX}{state.next_round - 1:08d}"
    draft = final.with_name(f".{final.name}.tmp")
    _drop(folder, _DRAFTS)
    make_folder(folder)
    try:
        _fill(draft, described, save_learner, frames)
        draft.rename(final)
    except BaseException:
        _drop(folder, _DRAFTS)  # on a full disk the next checkpoint needs the room
        raise
    flush(folder)
    _drop(folder, _ROUNDS, final)


def _fill(draft: Path, described: Mapping[str, Any], save_learner: SaveCopy, frames: Mapping[str, Buffer]) -> None:
    (draft / _LEARNER).mkdir(parents=True)
    save_learner(draft / _LEARNER)
    saved = [path for path in (draft / _LEARNER).rglob("*") if path.is_file()]
    hashes = {path.relative_to(draft).as_posix(): digest_of(path) for path in saved}
    for name, frame in frames.items():
        hashes[name] = hashlib.sha256(frame).hexdigest()  # in memory: a file is read once more
        (draft / name).write_bytes(frame)
    described = {**described, "sha256": hashes}
    (draft / STATE).write_text(json.dumps({**described, _CHECKSUM: checksum(described)}))
    for path in [*(draft / name for name in hashes), draft / STATE, draft / _LEARNER, draft]:
        flush(path)


def _drop(folder: Path, pattern: str, kept: Path | None = None) -> None:
    for old in folder.glob(pattern):
        if old != kept:
            with suppress(OSError):  # the next write tries again
                shutil.rmtree(old)


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint in the folder; None without one."""
    return max(folder.glob(_ROUNDS), default=None)


def completed(rank_folder: Path) -> int:
    """How many rounds the newest checkpoint of a peer has completed; 0 without one."""
    found = latest(rank_folder / FOLDER)
    return 0 if found is None else int(found.name.removeprefix(_PREFIX)) + 1


def written_at(rank_folder: Path) -> float | None:
    """When a peer's newest checkpoint was written (Unix seconds); None without one."""
    found = latest(rank_folder / FOLDER)
    try:
        return None if found is None else (found / STATE).stat().st_mtime
    except OSError:
        return None


def learner_folder(rank_folder: Path) -> Path | None:
    """Where the learner's part of a peer's newest checkpoint is; None without one."""
    found = latest(rank_folder / FOLDER)
    return None if found is None else found / _LEARNER


def noted(rank_folder: Path) -> Mapping[str, Any]:
    """The bookkeeping (`State.extra`) in a peer's newest checkpoint; empty without one, or if it is damaged."""
    found = latest(rank_folder / FOLDER)
    if found is None:
        return {}
    try:
        described = json.loads((found / STATE).read_text())
        _check_state(described, found)
        return dict(described["extra"])
    except _DAMAGED:
        return {}  # `read` names the damage


def read(checkpoint: Path, load_learner: Callable[[Path], None]) -> State:
    """Verify a checkpoint, hand the learner its part, and return the peer's.

    Raises:
        CheckpointError: a file is missing, changed or unreadable; names it.
    """
    try:
        described = _checked(checkpoint)
        count = described["released_frames"]
        state = State(
            next_round=int(described["next_round"]),
            fingerprint=described["fingerprint"],
            receivers=tuple(described["receivers"]),
            released=None
            if count is None
            else [(checkpoint / f"released-{index}.bin").read_bytes() for index in range(count)],
            extra=described["extra"],
        )
    except _DAMAGED as error:
        if (why := system_error(error)) is not None:
            raise CheckpointError(
                f"checkpoint {str(checkpoint)!r} cannot be read: {why.strerror} ({Path(why.filename or '').name})"
            ) from error
        reason = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
        raise CheckpointError(
            f"checkpoint {str(checkpoint)!r} is damaged: {reason}; restore the folder, or start over in another --out"
        ) from error
    load_learner(checkpoint / _LEARNER)
    return state


def _checked(checkpoint: Path) -> dict[str, Any]:
    """The entries of state.json, after a check of it and of all files.

    Raises:
        CheckpointError: a file is changed.
        OSError, ValueError, KeyError, TypeError, AttributeError: one is missing or unreadable.
    """
    described: dict[str, Any] = json.loads((checkpoint / STATE).read_text())
    _check_state(described, checkpoint)
    for name, digest in described["sha256"].items():
        if digest_of(checkpoint / name) != digest:
            raise CheckpointError(f"{name} is not what was written")
    return described


def _check_state(described: dict[str, Any], checkpoint: Path) -> None:
    """Check state.json against its checksum.

    Raises:
        CheckpointError: it is damaged.
    """
    written = described.pop(_CHECKSUM, None)
    sound = set(described) == _KEYS and described["next_round"] == int(checkpoint.name.removeprefix(_PREFIX)) + 1
    if not sound or written != checksum(described):
        raise CheckpointError(f"{STATE} is not what was written")


def checksum(described: Mapping[str, Any]) -> str:
    """SHA-256 of state.json's other entries."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def digest_of(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- released.json, beside the checkpoints ------------------------------------------------------------------------

_WHOLE = RoundLimit(1.0, None, None)


class ReleasedFile:
    """What a peer that is killed must know of its releases, beside its checkpoint.

    Args:
        every: Rounds from one checkpoint to the next: a peer that is killed trains these again.

    Attributes:
        released: The last round that an earlier process of the run has trained and released; -1 without one.
    """

    def __init__(self, folder: Path, *, resume: bool, every: int) -> None:
        self._every = every
        self._path = folder / RELEASED
        noted = read_object(self._path) if resume else {}
        found, by_round = whole(noted.get("round")), table_or_empty(noted.get("limits"))
        self.released = self._last = -1 if found is None else found
        self._known = whole(noted.get("known")) or 0, whole(noted.get("sent")) or 0
        self._limits = {int(one): _limit(table_or_empty(by_round[one])) for one in by_round if one.isdigit()}

    def note(self, number: int, limit: RoundLimit | None) -> None:
        """Note that a round was trained, within this limit, and released.

        Flushed where a clock has decided about the steps. Else after a power loss an earlier round may stand.
        """
        self._last = number
        self._limits = {one: own for one, own in self._limits.items() if number - self._every <= one != number}
        if limit is not None:
            self._limits[number] = limit
        self._write(flushed=limit is not None)

    def keep_known(self, known: tuple[int, int]) -> None:
        """Keep how far the lines of metrics.jsonl go, before `--resume` drops some: see `MetricsFile.known`.

        Others know of those rounds, and so must this folder if the peer is killed again.
        """
        before = self._known
        self._known = max(known[0], before[0]), max(known[1], before[1])
        if self._known != before:
            self._write(flushed=True)

    def recorded(self, number: int) -> RoundLimit | None:
        """The limit within which round `number` is to be trained again; None where it has not been released."""
        return self._limits.get(number, _WHOLE) if number <= self.released else None

    @property
    def last_limit(self) -> RoundLimit:
        """The limit of the last round that an earlier process has released."""
        return self._limits.get(self.released, _WHOLE)

    def _write(self, *, flushed: bool) -> None:
        content: dict[str, Any] = {"round": self._last}
        if any(self._known):
            content["known"], content["sent"] = self._known
        if self._limits:
            content["limits"] = {str(one): own._asdict() for one, own in self._limits.items()}
        if flushed:
            write_json(self._path, content, indent=None)
        else:
            self._path.write_text(json.dumps(content))


def _limit(noted: Mapping[str, Any]) -> RoundLimit:
    share = json_number(noted.get("share"))
    return RoundLimit(1.0 if share is None else share, *(json_number(noted.get(one)) for one in ("seconds", "whole")))
