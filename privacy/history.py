"""Everything that has left one peer's folder, run by run: releases on the same data add up, whatever made them.

    rank-R/privacy/ledger.jsonl           the run that goes on, or the last one
    rank-R/privacy/ledger-1.jsonl ...     runs before it, oldest first

A file's first line says how the run's releases were protected, and of what: `{"mechanism": {...}, "noise": ..., "data":
..., "new_data": ..., "time": ...}`; each line after it is a release, `{"round": ..., "time": ..., ...}`. Of a run
without noise (`"mechanism": null`) only the first is written down: what is known after it needs no second. Nor is there
protection in noise that was drawn in a way that is broken by now: releases of a run with another `noise` than this
version's count as released without any.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.privacy.noise import SCHEME

FOLDER = "privacy"
LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Run:
    """What one run released.

    Attributes:
        mechanism: The fields of the run's `Guarantee`; None without noise.
        noise: The way in which the noise was drawn.
        new_data: Whether the user said that its data are others than those of the runs before.
        data: SHA-256 (hex) of its data; None where nobody knows.
        rounds: In which rounds it released, in order; without noise only the first of them.
        hashes: SHA-256 (hex) of what was released in a round.
        begun: Whether the first line is there, and whole.
    """

    mechanism: Mapping[str, Any] | None
    noise: str | None
    new_data: bool
    data: str | None
    rounds: Sequence[int]
    hashes: Mapping[int, str]
    begun: bool = True

    @property
    def protects(self) -> bool:
        """Whether the run's releases carry noise that cannot be taken off again."""
        return self.mechanism is not None and self.noise == SCHEME


def header(mechanism: Mapping[str, Any] | None, data: str | None, *, new_data: bool) -> dict[str, Any]:
    """The content of a ledger's first line."""
    noise = None if mechanism is None else SCHEME
    return {"mechanism": mechanism, "noise": noise, "data": data, "new_data": new_data, "time": now()}


def now() -> float:
    """The present time, in seconds since 1970."""
    return round(time.time(), 3)


def read(path: Path) -> Run:
    """Read a ledger; a file without a whole first line counts as empty.

    Raises:
        CheckpointError: It is damaged.
    """
    try:
        lines = [json.loads(line) for line in path.read_bytes().rpartition(b"\n")[0].splitlines()]
        if not lines:
            return Run(None, None, new_data=False, data=None, rounds=(), hashes={}, begun=False)
        first, releases = lines[0], lines[1:]
        mechanism = None if first["mechanism"] is None else dict(first["mechanism"])
        rounds = tuple(int(release["round"]) for release in releases)
        hashes = {int(release["round"]): str(release["sha256"]) for release in releases if "sha256" in release}
        return Run(mechanism, first.get("noise"), bool(first.get("new_data")), first.get("data"), rounds, hashes)
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
        raise CheckpointError(
            f"the privacy ledger {str(path)!r} is damaged ({error}): what was released is not known any more; restore "
            "the file as it was last (an older copy will not do), or say --new-data if the data are others now"
        ) from error


def earlier(folder: Path, data: str | None, *, new_data: bool, current: bool) -> list[Run]:
    """The runs that released something on the data of the run that asks, oldest first.

    That somebody has said of a run that its data are new leaves out those before it only for a run of the very same
    data, known by their SHA-256: a folder that goes back to old data still remembers what was released of them.

    Args:
        folder: A peer's privacy folder.
        data: Of the run that asks, as in `Run`.
        new_data: Whether it was said of the run that asks.
        current: Whether `ledger.jsonl` is its ledger, and not an earlier run's.

    Raises:
        CheckpointError: A ledger that would have to be counted is damaged.
    """
    found: list[Run] = []
    cut = new_data
    paths = _aside(folder) + ([folder / LEDGER] if not current and (folder / LEDGER).exists() else [])
    for path in reversed(paths):
        try:
            run = read(path)
        except CheckpointError:
            if cut:
                continue
            raise
        if not run.rounds:  # nobody has got anything of it, whatever was said
            continue
        same = data is not None and run.data == data
        if same or not cut:
            found.append(run)
        cut = cut or (same and run.new_data)
    return found[::-1]


def put_aside(folder: Path) -> None:
    """Give `ledger.jsonl`, if there is one, the name of an earlier run's."""
    ledger = folder / LEDGER
    if ledger.exists():
        numbers = [_number(path) for path in _aside(folder)]
        ledger.rename(folder / f"ledger-{max(numbers, default=0) + 1}.jsonl")
        flush(folder)


def make_room(folder: Path) -> None:
    """Put the ledger of the run before aside, unless that released nothing; remove the bytes that it kept."""
    run = read_or_none(folder / LEDGER)
    if run is not None and not run.rounds:
        (folder / LEDGER).unlink()
    put_aside(folder)
    for old in folder.glob("released-*"):
        old.unlink()


def note_plain(folder: Path, data: str | None = None, *, new_data: bool = False) -> None:
    """Begin a ledger that says that the run has released something without noise."""
    make_room(folder)
    write(folder / LEDGER, header(None, data, new_data=new_data), {"round": 0, "time": now()})


def read_or_none(path: Path) -> Run | None:
    """Read a ledger; None where there is none, or it is damaged."""
    try:
        return read(path)
    except (OSError, CheckpointError):
        return None


def releases_in(folder: Path) -> int:
    """How many private releases the ledger in a peer's folder has; 0 where there is none, or none that can be read."""
    run = read_or_none(folder / FOLDER / LEDGER)
    return 0 if run is None or run.mechanism is None else len(run.rounds)


def write(path: Path, first: Mapping[str, Any], *releases: Mapping[str, Any]) -> None:
    """Begin a ledger; it is on disk, with its name, when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(_line(entry) for entry in (first, *releases))
        file.flush()
        os.fsync(file.fileno())
    flush(path.parent)
    flush(path.parent.parent)


def append(path: Path, release: Mapping[str, Any]) -> None:
    """Add a release to a ledger; it is on disk when this returns."""
    with path.open("ab") as file:
        file.write(_line(release))
        file.flush()
        os.fsync(file.fileno())


def mend(path: Path) -> None:
    """Cut off a line that was not written whole: the process ended before there was anything to send."""
    content = path.read_bytes()
    if torn := len(content.rpartition(b"\n")[2]):
        with path.open("r+b") as file:
            file.truncate(len(content) - torn)
            os.fsync(file.fileno())


def flush(folder: Path) -> None:
    """Flush the names of a folder's files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("ledger-*.jsonl"), key=_number)


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
