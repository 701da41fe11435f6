"""Write-ahead ledger of one private run of a peer: releases at client level, local steps at sample level.

    rank-R/privacy/ledger.jsonl           the mechanism, then a line for each release or charge, appended and fsynced
                                          before anybody gets it or it takes effect
    rank-R/privacy/released-00000007.part a release's bytes, on disk before its line
    rank-R/privacy/released-00000007.bin  the same bytes, renamed once they are charged

    {"mechanism": {...}, "noise": "...", "data": "...", "time": ...}           the first line
    {"round": 7, "time": ..., "sha256": "...", "to": [0, 2]}                   a release
    {"round": 7, "time": ..., "charge": {"sampling_rate": ..., "noise_multiplier": ..., "steps": ...}}
    {"round": 7, "time": ..., "stated": true}       perhaps released on a disk that was lost (with "charge": taken)
    {"round": 9, "time": ..., "ended": true}        no step is taken any more; the last line

So everything that was sent is charged, however the process ends; and a charged round is only ever sent as the bytes
that are on disk. They are there before the charge, or a peer that is killed between the two would send nothing in the
round, and two such neighbors would wait for each other. Bytes without a line, other than a draft, prove a lost line.
Steps that are taken a second time, after a crash, are charged a second time: their noise is new.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from dpeer.atomic import flush, owner_only
from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy.accounting import Charge
from dpeer.privacy.noise import SCHEME
from dpeer.sections import Mistake

FOLDER = "privacy"
LEDGER = "ledger.jsonl"
_BYTES = "released-"

Level = Literal["client", "sample"]


@dataclass(frozen=True)
class Charged:
    """A line of a ledger, but the first.

    Attributes:
        sha256: Of a release's bytes (hex); None for steps, and for a release that was made elsewhere, if at all.
        to: The ranks that a release may be sent to.
        charge: Of steps; None at client level.
        stated: Whether it is charged because the operator states that a lost disk may have released or taken it.
        ended: Whether no step is taken from this round on: training without noise at home, which then begins, must
            never have an effect on what leaves the peer. A run never goes back, also not with a larger budget.
    """

    round: int
    sha256: str | None = None
    to: Sequence[int] | None = None
    charge: Charge | None = None
    stated: bool = False
    ended: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The JSON values of what it has, but for its time."""
        every = dataclasses.asdict(self)
        return {name: value for name, value in every.items() if value is not None and value is not False}


_CHARGED = TypeAdapter(Charged)


@dataclass
class Record:
    """The recorded releases or charges of one run, in order.

    Attributes:
        mechanism: The mechanism of every release or step, plain JSON values; None before the first line.
        noise: The scheme by which the noise was drawn.
        data: SHA-256 (hex) of its data; None where unknown.
    """

    mechanism: Mapping[str, Any] | None = None
    noise: str | None = None
    data: str | None = None
    lines: list[Charged] = field(default_factory=list)

    @property
    def rounds(self) -> list[int]:
        """The round of each line."""
        return [line.round for line in self.lines]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges of steps, in order; empty at client level."""
        return tuple(line.charge for line in self.lines if line.charge is not None)

    @property
    def level(self) -> Level:
        """Whether steps are charged ("sample"), or releases."""
        return "sample" if self.charges else "client"

    @property
    def releases(self) -> int:
        """The number of releases; 0 at sample level."""
        return 0 if self.charges else len(self.lines)

    @property
    def steps(self) -> int:
        """How many are charged; 0 at client level."""
        return sum(charge.steps for charge in self.charges)

    @property
    def ended(self) -> bool:
        """Whether this run takes no step any more; see `Charged.ended`."""
        return any(line.ended for line in self.lines)

    def charged(self, number: int) -> bool:
        """Whether this round is charged."""
        return number in self.rounds

    def stated(self, number: int) -> list[Charge]:
        """The charges of a round's steps that were made because the operator states it."""
        found = (line.charge for line in self.lines if line.stated and line.round == number)
        return [charge for charge in found if charge is not None]


class Ledger(Record):
    """The ledger of the run that goes on; its first charge begins it, and makes the folder.

    Bytes are kept of `keep` releases: as many as there can be after the last checkpoint.

    Raises:
        CheckpointError: A ledger is damaged; or the one to continue is of another level, mechanism, data or noise.
    """

    def __init__(
        self,
        folder: Path,
        mechanism: Mapping[str, Any],
        *,
        resume: bool,
        level: Level = "client",
        data: str | None = None,
        keep: int = 2,
    ) -> None:
        super().__init__(dict(mechanism), SCHEME, data)
        self._folder, self._path, self._keeps = folder, folder / LEDGER, keep
        if resume and self._path.exists():
            _mend(self._path)
            there = read(self._path)
            if there.lines:  # one without releases may be of another mechanism: it is begun anew
                self._check(there, level)
                self.lines = there.lines
        self._begun = bool(self.lines)

    def released(self, number: int) -> bytes | None:
        """The round's released bytes; None if they are not there as they were charged."""
        charged = {line.sha256 for line in self.lines if line.round == number}
        final = self._payload(number)
        draft = final.with_suffix(".part")
        # A file that was restored, copied or damaged is not what the neighbors have got, or will get from others.
        for path in (final, draft):
            if charged and path.exists() and _hash(payload := path.read_bytes()) in charged:
                if path == draft:
                    draft.rename(final)  # its process was killed in between; a backup leaves drafts out
                return payload
        return None

    def last(self) -> bytes | None:
        """The bytes of the latest release of which they are there."""
        payloads = (self.released(number) for number in self._kept())
        return next((payload for payload in payloads if payload is not None), None)

    def release(self, number: int, make: Callable[[], bytes], to: Sequence[int] = ()) -> bytes:
        """Make a round's release, charge it and keep it; the returned bytes may be sent to these ranks.

        Until the charge is on disk the release is a draft. If this process ends before, the next one makes another.

        Raises:
            ValueError: The round is charged already.
            OSError: The disk refused; nothing may be sent.
        """
        if self.charged(number):
            raise ValueError(f"round {number} is charged already")
        self._begin()
        payload, final = make(), self._payload(number)
        draft = final.with_suffix(".part")
        with open(draft, "wb", opener=owner_only) as file:
            _write(file, payload)
        flush(self._folder)
        self.charge(Charged(number, _hash(payload), sorted(to)))
        draft.rename(final)
        kept = {self._payload(one) for one in self._kept()}  # no run asks for others that resumes some rounds earlier
        for old in _payloads(self._folder, ".bin", ".part"):
            if old.with_suffix(".bin") not in kept:
                old.unlink(missing_ok=True)
        return payload

    def charge(self, line: Charged) -> None:
        """Charge; when this returns the line is on disk, and what it pays for may be done, and not before.

        Raises:
            ValueError: The run has ended, or has charged nothing that could end.
            OSError: The disk refused; no step may be taken.
        """
        if self.ended or (line.ended and not self.charges):
            raise ValueError("nothing is charged after the end, and a run that has charged nothing has none")
        self._begin()
        self.lines.append(line)  # first: if the disk refuses, it may still have taken it
        append(self._path, {"round": line.round, "time": _now(), **line.values})

    def _begin(self) -> None:
        """Have the ledger's first line on disk, and the file's name."""
        if self._begun:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        first = {"mechanism": self.mechanism, "noise": self.noise, "data": self.data, "time": _now()}
        with open(self._path, "wb", opener=owner_only) as file:
            _write(file, _line(first))
        flush(self._folder)
        flush(self._folder.parent)
        for old in _payloads(self._folder, ".bin", ".part"):  # of one that was killed before its first charge
            old.unlink()
        self._begun = True

    def _payload(self, number: int) -> Path:
        return self._folder / f"{_BYTES}{number:08d}.bin"

    def _kept(self) -> list[int]:
        """The rounds of the releases whose bytes are kept, the latest first."""
        return sorted({line.round for line in self.lines if line.sha256}, reverse=True)[: self._keeps]

    def _check(self, there: Record, level: Level) -> None:
        """Refuse to go on with the run of another ledger."""
        then = {"data (SHA-256)": there.data, "--privacy": there.level, "noise": there.noise, **(there.mechanism or {})}
        here = {"data (SHA-256)": self.data, "--privacy": level, "noise": self.noise, **(self.mechanism or {})}
        for name in [*here, *then]:
            if then.get(name) != here.get(name):
                raise CheckpointError(
                    f"{name.replace('_', ' ')} is {then.get(name)} in {str(self._path)!r}, and {here.get(name)} here: "
                    "that cannot change in a private run; go on with what it began with (--noise-multiplier "
                    f"{then.get('noise_multiplier')}, beside --target-epsilon), or start one in another --out"
                )


def read(path: Path) -> Record:
    """Read a ledger; a last line without its end does not count, nor a file without a first line.

    Raises:
        OSError: It cannot be read.
        CheckpointError: It is damaged.
    """
    try:
        lines = path.read_bytes().rpartition(b"\n")[0].splitlines()
        if not lines:
            return Record()
        first = json.loads(lines[0])
        run = Record(dict(first["mechanism"]), first["noise"], first["data"], [*map(_CHARGED.validate_json, lines[1:])])
        if len({line.charge is None and not line.ended for line in run.lines}) > 1:
            raise ValueError("some of its lines charge steps and some do not")
        return run
    except (ValueError, KeyError, TypeError, ConfigurationError, IsADirectoryError) as error:
        why = Mistake(error).wrong if isinstance(error, ValidationError) else error
        raise CheckpointError(
            f"the privacy ledger {str(path)!r} is damaged ({why}): what was released is not known any more; "
            "restore the file as it was last (an older copy will not do), or start a run in another --out"
        ) from error


def current(folder: Path) -> Record:
    """The run whose ledger a privacy folder has; an empty one where it is missing or damaged."""
    try:
        return read(folder / LEDGER)
    except (OSError, CheckpointError):
        return Record()


def uncharged(folder: Path) -> list[Path]:
    """Bytes of releases in a privacy folder of which its ledger has no line: it has lost its end, or is lost."""
    rounds = current(folder).rounds
    return [path for path in _payloads(folder, ".bin") if int(path.stem.removeprefix(_BYTES)) not in rounds]


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Add a line to a ledger; it is on disk when this returns."""
    with path.open("ab") as file:
        _write(file, _line(entry))


def _payloads(folder: Path, *endings: str) -> list[Path]:
    """The files with bytes of releases, in order of their rounds; drafts end with .part."""
    return sorted(path for ending in endings for path in folder.glob(f"{_BYTES}{8 * '[0-9]'}{ending}"))


def _mend(path: Path) -> None:
    """Cut off a last line without its end: the process ended before anything of it was sent."""
    content = path.read_bytes()
    if torn := len(content.rpartition(b"\n")[2]):
        with path.open("r+b") as file:
            file.truncate(len(content) - torn)
            os.fsync(file.fileno())


def _write(file: Any, content: bytes) -> None:
    """Write to a file; it is on disk when this returns."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _now() -> float:
    """Seconds since 1970."""
    return round(time.time(), 3)


def _hash(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
