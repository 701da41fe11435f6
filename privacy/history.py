"""Everything that has left one peer's folder, run by run: releases on the same data add up, whatever made them.

    rank-R/privacy/ledger.jsonl           the run that goes on, or the last one
    rank-R/privacy/ledger-1.jsonl ...     runs before it, oldest first

What is lost or damaged never counts as nothing. A ledger is put aside whole, with at least one release, under the next
number, and each ledger that begins says how many releases those before it have: so an error names one that is gone,
emptied or cut. The bytes of a release are on disk only after its line, so bytes without a line tell of a lost one.
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
        CheckpointError: A ledger that would have to be counted is lost or damaged.
    """
    found: list[Run] = []
    cut = new_data
    known = _known(folder)
    paths = sorted({*_aside(folder), *(_numbered(folder, number) for number in known)}, key=_number)
    for path in reversed([*paths, *([folder / LEDGER] if not current and (folder / LEDGER).exists() else [])]):
        try:
            run = read(path) if path.name == LEDGER else read_aside(path, known.get(_number(path)))
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
    # Only now: bytes without a ledger would tell of a lost one.
    for old in folder.glob(f"{_BYTES}*"):
        old.unlink()


def put_aside(folder: Path) -> list[int | None]:
    """Give `ledger.jsonl`, if there is one, the name of an earlier run's; one that released nothing is removed.

    Returns:
        How many releases each ledger that is put aside has, by its number from 1 on, as `Run.earlier`.
    """
    path = folder / LEDGER
    run, counts = read_or_none(path), list(_counts(folder).values())
    if run is not None and not run.rounds:
        path.unlink()
    elif path.exists():
        if run is not None:
            mend(path)
        path.rename(_numbered(folder, len(counts) + 1))
        flush(folder)
        counts.append(None if run is None else len(run.rounds))
    return counts


def note_plain(folder: Path, data: str | None = None, *, new_data: bool = False) -> None:
    """Begin a ledger that says that the run has released something without noise."""
    begin(folder, None, data, {"round": 0, "time": now()}, new_data=new_data)


def releases_in(folder: Path) -> int:
    """How many private releases the ledger in a peer's folder has; 0 where there is none, or none that can be read."""
    run = read_or_none(folder / FOLDER / LEDGER)
    return 0 if run is None or run.mechanism is None or run.charges else len(run.rounds)


def steps_in(folder: Path) -> int:
    """How many private steps the ledger in a peer's folder has charged; 0 where there is none, or none can be read."""
    run = read_or_none(folder / FOLDER / LEDGER)
    return 0 if run is None else sum(charge.steps for charge in run.charges)


def uncharged(folder: Path) -> list[Path]:
    """Bytes of releases in a privacy folder of which no ledger has a line: a ledger has lost its end, or is lost."""
    current = read_or_none(folder / LEDGER)
    # Where the process ended while a new run began, they may be of the run before.
    before = [run for path in _aside(folder) if (run := read_or_none(path)) is not None]
    return [
        path
        for path in sorted(folder.glob(f"{_BYTES}*.bin"))
        if not (current is not None and _number(path) in current.rounds) and not any(_has(run, path) for run in before)
    ]


def _has(run: Run, path: Path) -> bool:
    """Whether a run has a line for these bytes; that of an older version may say nothing but their round."""
    number = _number(path)
    if number not in run.rounds:
        return False
    return number not in run.hashes or run.hashes[number] == hashlib.sha256(path.read_bytes()).hexdigest()


def _known(folder: Path) -> dict[int, int | None]:
    """How many releases the ledgers that were put aside have, by number, as later ones say; None where none does."""
    aside = _aside(folder)
    runs = [run for path in (*aside, folder / LEDGER) if (run := read_or_none(path)) is not None]
    last = max([0, *map(_number, aside), *(len(run.earlier) for run in runs)])
    known: dict[int, int | None] = dict.fromkeys(range(1, last + 1))
    for run in runs:
        known |= {number: count for number, count in enumerate(run.earlier, 1) if count is not None}
    return known


def _counts(folder: Path) -> dict[int, int | None]:
    """The same, with those counted of which no later ledger says it; None where that cannot be done any more."""
    return {number: _count(folder, number) if count is None else count for number, count in _known(folder).items()}


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
