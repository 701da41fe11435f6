"""One ledger as a file: its lines, reading and writing them.

A file's first line says how the run's releases were protected, and of what: `{"mechanism": {...}, "noise": ..., "data":
..., "new_data": ..., "earlier": [...], "time": ...}`; each line after it is a release, `{"round": ..., "time": ...,
...}`. At sample level such a line has the local steps that the peer is about to take: `"charge": {"sampling_rate": ...,
"noise_multiplier": ..., "steps": ...}`; a round may have several, and a line with `"ended": true` says that there is
none after it. Of a run without noise (`"mechanism": null`) only the
first is written down: what is known after it needs no second. Nor is there protection in noise that was drawn in a way
that is broken by now: releases of a run with another `noise` than this version's count as released without any.
`earlier` has the number of releases of each ledger that was put aside before, so that one that is lost or cut is
noticed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy.accounting import Charge
from dpeer.privacy.noise import SCHEME

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ConfigurationError)
"""What reading a line that is no ledger's may raise."""


@dataclass(frozen=True)
class Run:
    """What one run released.

    Attributes:
        mechanism: The fields of the run's `Guarantee`, at sample level what `StepLedger` was given; None without noise.
        noise: The way in which the noise was drawn.
        new_data: Whether the user said that its data are others than those of the runs before.
        data: SHA-256 (hex) of its data; None where nobody knows.
        rounds: In which rounds it released, or charged steps, in order; without noise only the first of them.
        hashes: SHA-256 (hex) of what was released in a round.
        begun: Whether the first line is there, and whole.
        earlier: How many releases the ledgers have that were put aside before it, `ledger-1.jsonl` first; None for one
            that could not be read then. Empty in a ledger of an older version, which does not say it.
        charges: At sample level what each line charges, in order; otherwise empty.
        ended: Whether it says that no step is taken any more.
    """

    mechanism: Mapping[str, Any] | None
    noise: str | None
    new_data: bool
    data: str | None
    rounds: Sequence[int]
    hashes: Mapping[int, str]
    begun: bool = True
    earlier: Sequence[int | None] = ()
    charges: Sequence[Charge] = ()
    ended: bool = False

    @property
    def protects(self) -> bool:
        """Whether the run's releases carry noise that cannot be taken off again."""
        return self.mechanism is not None and self.noise == SCHEME


def header(
    mechanism: Mapping[str, Any] | None, data: str | None, *, new_data: bool, earlier: Sequence[int | None] = ()
) -> dict[str, Any]:
    """The content of a ledger's first line; the arguments are as in `Run`."""
    noise = None if mechanism is None else SCHEME
    said = {"mechanism": mechanism, "noise": noise, "data": data, "new_data": new_data}
    return {**said, "earlier": list(earlier), "time": now()}


def now() -> float:
    """The present time, in seconds since 1970."""
    return round(time.time(), 3)


def read(path: Path) -> Run:
    """Read a ledger; a file without a whole first line counts as empty.

    Raises:
        CheckpointError: It is damaged.
    """
    try:
        return _run(path.read_bytes().rpartition(b"\n")[0])
    except (*_MALFORMED, IsADirectoryError) as error:
        raise damaged(path, error) from error


def read_aside(path: Path, releases: int | None) -> Run:
    """Read a ledger that was put aside, which is done with whole ones only, and never without a release.

    Args:
        path: The file.
        releases: How many releases it has, as later ledgers say; None where they do not.

    Raises:
        CheckpointError: It is lost or damaged, also where only its end is missing.
    """
    try:
        content = path.read_bytes()
        run = _run(content)
    except FileNotFoundError as error:
        raise damaged(path, "there is no such file any more", what="lost") from error
    except (OSError, *_MALFORMED) as error:
        raise damaged(path, error) from error
    if not run.rounds:
        raise damaged(path, "it has no releases")
    if not content.endswith(b"\n"):
        raise damaged(path, "its last line has no end")
    if releases is not None and len(run.rounds) != releases:
        raise damaged(path, f"it has {len(run.rounds)} releases, and had {releases}")
    return run


def damaged(path: Path, why: object, *, what: str = "damaged") -> CheckpointError:
    """The error of a ledger that cannot be counted."""
    return CheckpointError(
        f"the privacy ledger {str(path)!r} is {what} ({why}): what was released is not known any more; "
        "restore the file as it was last (an older copy will not do), or start over with --overwrite --new-data if the "
        "data are others now"
    )


def read_or_none(path: Path) -> Run | None:
    """Read a ledger; None where there is none, or it is damaged."""
    try:
        return read(path)
    except (OSError, CheckpointError):
        return None


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


def _run(content: bytes) -> Run:
    lines = [json.loads(line) for line in content.splitlines()]
    if not lines:
        return Run(None, None, new_data=False, data=None, rounds=(), hashes={}, begun=False)
    first, releases = lines[0], lines[1:]
    mechanism = None if first["mechanism"] is None else dict(first["mechanism"])
    rounds = tuple(int(release["round"]) for release in releases)
    hashes = {int(release["round"]): str(release["sha256"]) for release in releases if "sha256" in release}
    charges = tuple(Charge(**release["charge"]) for release in releases if "charge" in release)
    ends = sum(release.get("ended") is True for release in releases)
    if (charges or ends) and len(charges) + ends != len(releases):
        raise ValueError("some of its lines charge steps and some do not")
    earlier = tuple(None if count is None else int(count) for count in first.get("earlier", ()))
    said = (first.get("noise"), bool(first.get("new_data")), first.get("data"))
    return Run(mechanism, *said, rounds, hashes, earlier=earlier, charges=charges, ended=ends > 0)


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
