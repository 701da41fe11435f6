"""The files of a privacy folder: the ledger, one JSON object a line, appended and fsynced, and the bytes of releases.

The ledger's first line has the run's mechanism and data: `{"mechanism": {...}, "noise": ..., "data": ...,
"time": ...}`; each line after it is a release, `{"round": ..., "time": ..., ...}`. At sample level such a line charges
the local steps that the peer is about to take: `"charge": {"sampling_rate": ..., "noise_multiplier": ...,
"steps": ...}`; a round may have several, and a line with `"ended": true` is the last. With `"stated": true` it charges
what was perhaps released, or taken, on a disk that was lost.

The bytes of a release get their name only after its line, so bytes without a line prove a lost one.
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

FOLDER = "privacy"
LEDGER = "ledger.jsonl"
_BYTES = "released-"
_NUMBER = 8 * "[0-9]"

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ConfigurationError)
"""The errors of parsing a line of another format."""


@dataclass(frozen=True)
class Run:
    """The recorded releases of one run.

    Attributes:
        mechanism: The fields of the run's guarantee, `Guarantee` or `Mechanism`; None before the first line.
        noise: The scheme by which the noise was drawn.
        data: SHA-256 (hex) of its data; None where unknown.
        rounds: In which rounds it released, or charged steps, in order.
        hashes: SHA-256 (hex) of each round's release.
        charges: At sample level the charge of each line, in order; otherwise empty.
        ended: Whether it takes no step any more.
        stated: Of each line whether it was charged because the operator states that a lost disk may have released it.
    """

    mechanism: Mapping[str, Any] | None = None
    noise: str | None = None
    data: str | None = None
    rounds: Sequence[int] = ()
    hashes: Mapping[int, str] = field(default_factory=dict)
    charges: Sequence[Charge] = ()
    ended: bool = False
    stated: Sequence[bool] = ()

    @property
    def releases(self) -> int:
        """The number of releases; 0 at sample level."""
        return 0 if self.charges else len(self.rounds)

    @property
    def steps(self) -> int:
        """The number of charged steps; 0 but at sample level."""
        return sum(charge.steps for charge in self.charges)


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


def header(mechanism: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    """The content of a ledger's first line; the arguments are as in `Run`."""
    return {"mechanism": mechanism, "noise": SCHEME, "data": data, "time": now()}


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


def current(folder: Path) -> Run:
    """The run whose ledger a privacy folder has; an empty one where it is missing or damaged."""
    return read_or_none(folder / LEDGER) or Run()


def uncharged(folder: Path) -> list[Path]:
    """Bytes of releases in a privacy folder of which its ledger has no line: it has lost its end, or is lost."""
    rounds = current(folder).rounds
    return [path for path in payload_paths(folder) if int(path.stem.removeprefix(_BYTES)) not in rounds]


def damaged(path: Path, why: object) -> CheckpointError:
    """The error of a ledger that cannot be counted."""
    return CheckpointError(
        f"the privacy ledger {str(path)!r} is damaged ({why}): what was released is not known any more; "
        "restore the file as it was last (an older copy will not do), or start a run in another --out"
    )


def begin(folder: Path, mechanism: Mapping[str, Any], data: str | None) -> None:
    """Begin a run's ledger in a privacy folder; it is on disk, with its name, when this returns."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LEDGER, "wb", opener=owner_only) as file:
        file.write(_line(header(mechanism, data)))
        file.flush()
        os.fsync(file.fileno())
    flush(folder)
    flush(folder.parent)


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
        mechanism=dict(first["mechanism"]),
        noise=first["noise"],
        data=first["data"],
        rounds=tuple(int(release["round"]) for release in releases),
        hashes={int(release["round"]): str(release["sha256"]) for release in releases if "sha256" in release},
        charges=charges,
        ended=ends > 0,
        stated=tuple(release.get("stated") is True for release in releases),
    )


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
