"""The file format of a privacy ledger: one JSON object a line, appended and fsynced.

The first line has the run's mechanism and data: `{"mechanism": {...}, "noise": ..., "data": ..., "new_data": ...,
"earlier": [...], "time": ...}`; each line after it is a release, `{"round": ..., "time": ..., ...}`. At sample level
such a line charges the local steps that the peer is about to take: `"charge": {"sampling_rate": ...,
"noise_multiplier": ..., "steps": ...}`; a round may have several, and a line with `"ended": true` is the last. With
`"stated": true` it charges what was perhaps released, or taken, on a disk that was lost.

A run without noise (`"mechanism": null`) records only its first release: a second changes nothing. Noise of another
scheme than this version's counts as none. `earlier` has the number of releases of each ledger that was put aside
before, so that a lost or shortened one is noticed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpeer.atomic import owner_only
from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy.accounting import Charge
from dpeer.privacy.noise import SCHEME

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ConfigurationError)
"""The errors of parsing a line of another format."""


@dataclass(frozen=True)
class Run:
    """The recorded releases of one run.

    Attributes:
        mechanism: The fields of the run's guarantee, `Guarantee` or `Mechanism`; None without noise.
        noise: The scheme by which the noise was drawn.
        new_data: Whether the user declared its data different from those of the runs before.
        data: SHA-256 (hex) of its data; None where unknown.
        rounds: In which rounds it released, or charged steps, in order; without noise only the first of them.
        hashes: SHA-256 (hex) of each round's release.
        earlier: How many releases the ledgers have that were put aside before it, `ledger-1.jsonl` first; None for one
            that could not be read then.
        charges: At sample level the charge of each line, in order; otherwise empty.
        ended: Whether it takes no step any more.
        stated: Of each line whether it was charged because the operator states that a lost disk may have released it.
    """

    mechanism: Mapping[str, Any] | None = None
    noise: str | None = None
    new_data: bool = False
    data: str | None = None
    rounds: Sequence[int] = ()
    hashes: Mapping[int, str] = field(default_factory=dict)
    earlier: Sequence[int | None] = ()
    charges: Sequence[Charge] = ()
    ended: bool = False
    stated: Sequence[bool] = ()

    @property
    def protects(self) -> bool:
        """Whether the run's releases carry noise of this version's scheme."""
        return self.mechanism is not None and self.noise == SCHEME

    @property
    def noiseless(self) -> bool:
        """Whether the run released something without noise."""
        return self.mechanism is None and bool(self.rounds)

    @property
    def releases(self) -> int:
        """The number of private releases; 0 at sample level and without noise."""
        return 0 if self.mechanism is None or self.charges else len(self.rounds)

    @property
    def steps(self) -> int:
        """The number of charged steps; 0 but at sample level."""
        return sum(charge.steps for charge in self.charges)


def header(
    mechanism: Mapping[str, Any] | None, data: str | None, *, new_data: bool, earlier: Sequence[int | None]
) -> dict[str, Any]:
    """The content of a ledger's first line; the arguments are as in `Run`."""
    return {
        "mechanism": mechanism,
        "noise": None if mechanism is None else SCHEME,
        "data": data,
        "new_data": new_data,
        "earlier": list(earlier),
        "time": now(),
    }


def now() -> float:
    """The present time, in seconds since 1970."""
    return round(time.time(), 3)


def read(path: Path) -> Run:
    """Read the current ledger; a last line without its end does not count, nor a file without a first line.

    Raises:
        CheckpointError: It is damaged.
    """
    try:
        return _parsed(path.read_bytes().rpartition(b"\n")[0])
    except (*_MALFORMED, IsADirectoryError) as error:
        raise damaged(path, error) from error


def read_or_none(path: Path) -> Run | None:
    """Read the current ledger; None where it is missing or damaged."""
    try:
        return read(path)
    except (OSError, CheckpointError):
        return None


def read_aside(path: Path, releases: int | None) -> Run:
    """Read a ledger that was put aside; only whole ledgers with at least one release are.

    Args:
        path: The file.
        releases: How many releases it has, as later ledgers have it; None where they do not.

    Raises:
        CheckpointError: It is lost or damaged, also where only its end is missing.
    """
    try:
        content = path.read_bytes()
        run = _parsed(content)
    except FileNotFoundError as error:
        raise damaged(path, "the file is gone", what="lost") from error
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


def write(path: Path, first: Mapping[str, Any], *releases: Mapping[str, Any]) -> None:
    """Begin a ledger; it is on disk, with its name, when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", opener=owner_only) as file:
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
    """Cut off a last line without its end: the process ended before anything of it was sent."""
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


def _parsed(content: bytes) -> Run:
    lines = [json.loads(line) for line in content.splitlines()]
    if not lines:
        return Run()
    first, releases = lines[0], lines[1:]
    charges = tuple(Charge(**release["charge"]) for release in releases if "charge" in release)
    ends = sum(release.get("ended") is True for release in releases)
    if (charges or ends) and len(charges) + ends != len(releases):
        raise ValueError("some of its lines charge steps and some do not")
    return Run(
        mechanism=None if first["mechanism"] is None else dict(first["mechanism"]),
        noise=first["noise"],
        new_data=bool(first["new_data"]),
        data=first["data"],
        rounds=tuple(int(release["round"]) for release in releases),
        hashes={int(release["round"]): str(release["sha256"]) for release in releases if "sha256" in release},
        earlier=tuple(None if count is None else int(count) for count in first["earlier"]),
        charges=charges,
        ended=ends > 0,
        stated=tuple(release.get("stated") is True for release in releases),
    )


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
