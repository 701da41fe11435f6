"""The ledgers of all runs in one peer's folder: releases on the same data add up, whatever run made them.

    rank-R/privacy/ledger.jsonl           the current run, or the last one
    rank-R/privacy/ledger-1.jsonl ...     runs before it, oldest first

A lost or damaged ledger never counts as nothing. A ledger is put aside whole, with at least one release, under the next
number, and each ledger that begins has the number of releases of those before it: so an error names one that is gone,
emptied or cut. The bytes of a release get their name only after its line, so bytes without a line prove a lost one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.privacy.ledger_file import Run, flush, header, mend, now, read, read_aside, read_or_none, write

FOLDER = "privacy"
LEDGER = "ledger.jsonl"
_BYTES = "released-"
_NUMBER = 8 * "[0-9]"


def payload_path(folder: Path, number: int) -> Path:
    """The file with the bytes of a round's release."""
    return folder / f"{_BYTES}{number:08d}.bin"


def draft_of(path: Path) -> Path:
    """The file with the same bytes until they are charged."""
    return path.with_suffix(".part")


def payload_paths(folder: Path, *, drafts: bool = False) -> list[Path]:
    """The files with bytes of releases, in order of their rounds; with `drafts` also those without their name yet."""
    endings = (".bin", ".part") if drafts else (".bin",)
    return sorted(path for ending in endings for path in folder.glob(f"{_BYTES}{_NUMBER}{ending}"))


def current(folder: Path) -> Run:
    """The run of `ledger.jsonl` in a privacy folder; an empty one where it is missing or damaged."""
    return read_or_none(folder / LEDGER) or Run()


def earlier(folder: Path, data: str | None, *, new_data: bool, begun: bool) -> list[Run]:
    """The runs that released something on the data of the run that asks, oldest first.

    A run that was declared to have new data cuts off those before it only for a run of the very same data, known by
    their SHA-256: a folder that goes back to old data still counts the releases of those.

    Args:
        folder: A peer's privacy folder.
        data: Of the run that asks, as in `Run`.
        new_data: Whether the run that asks was declared to have new data.
        begun: Whether `ledger.jsonl` is its ledger, and not an earlier run's.

    Raises:
        CheckpointError: A ledger that would have to be counted is lost or damaged.
    """
    found: list[Run] = []
    cut = new_data
    known = _known(folder)
    paths = sorted({*_aside(folder), *(_numbered(folder, number) for number in known)}, key=_number)
    for path in reversed([*paths, *([folder / LEDGER] if not begun and (folder / LEDGER).exists() else [])]):
        try:
            run = read(path) if path.name == LEDGER else read_aside(path, known.get(_number(path)))
        except CheckpointError:
            if cut:
                continue
            raise
        if not run.rounds:  # nothing of it was released, whatever it was declared to be
            continue
        same = data is not None and run.data == data
        if same or not cut:
            found.append(run)
        cut = cut or (same and run.new_data)
    return found[::-1]


def begin(
    folder: Path, mechanism: Mapping[str, Any] | None, data: str | None, *releases: Mapping[str, Any], new_data: bool
) -> None:
    """Begin a run's ledger, which is on disk when this returns; that of the run before is put aside.

    Args:
        folder: A peer's privacy folder.
        mechanism: As in `Run`, like `data` and `new_data`.
        data: The same.
        releases: What is released already.
        new_data: The same.
    """
    counts = put_aside(folder)
    write(folder / LEDGER, header(mechanism, data, new_data=new_data, earlier=counts), *releases)
    # Only now: bytes without a ledger would prove a lost one.
    for old in payload_paths(folder, drafts=True):
        old.unlink()


def put_aside(folder: Path) -> list[int | None]:
    """Give `ledger.jsonl`, if it exists, the name of an earlier run's; one that released nothing is removed.

    Returns:
        How many releases each ledger that is put aside has, by its number from 1 on, as `Run.earlier`.
    """
    path = folder / LEDGER
    run, counts = read_or_none(path), _counts(folder)
    if run is not None and not run.rounds:
        path.unlink()
    elif path.exists():
        if run is not None:
            mend(path)
        path.rename(_numbered(folder, len(counts) + 1))
        flush(folder)
        counts.append(None if run is None else len(run.rounds))
    return counts


def record_noiseless(folder: Path, data: str | None = None, *, new_data: bool = False) -> None:
    """Begin the ledger of a run that has released something without noise."""
    begin(folder, None, data, {"round": 0, "time": now()}, new_data=new_data)


def uncharged(folder: Path) -> list[Path]:
    """Bytes of releases in a privacy folder of which no ledger has a line: a ledger has lost its end, or is lost."""
    rounds = current(folder).rounds
    # Where the process ended while a new run began, they may be of the run before.
    before = [run for path in _aside(folder) if (run := read_or_none(path)) is not None]

    def charged(path: Path) -> bool:
        if _number(path) in rounds:
            return True
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return any(run.hashes.get(_number(path)) == digest for run in before)

    return [path for path in payload_paths(folder) if not charged(path)]


def _known(folder: Path) -> dict[int, int | None]:
    """By number, how many releases each ledger that was put aside has, as later ones have it; None where none does."""
    aside = _aside(folder)
    runs = [run for path in (*aside, folder / LEDGER) if (run := read_or_none(path)) is not None]
    last = max([0, *map(_number, aside), *(len(run.earlier) for run in runs)])
    known: dict[int, int | None] = dict.fromkeys(range(1, last + 1))
    for run in runs:
        known |= {number: count for number, count in enumerate(run.earlier, 1) if count is not None}
    return known


def _counts(folder: Path) -> list[int | None]:
    """The same; one that no later ledger has is counted now, and None where that is impossible.

    Such a one is left where a process ended between putting it aside and beginning the next.
    """
    return [_count(folder, number) if count is None else count for number, count in _known(folder).items()]


def _count(folder: Path, number: int) -> int | None:
    try:
        return len(read_aside(_numbered(folder, number), None).rounds)
    except CheckpointError:
        return None


def _aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("ledger-*.jsonl"), key=_number)


def _numbered(folder: Path, number: int) -> Path:
    return folder / f"ledger-{number}.jsonl"


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
