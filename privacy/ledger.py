"""What one peer has released, written down before it is sent.

    rank-R/privacy/ledger.jsonl           the mechanism, then a line for each release: its round, flushed to disk before
                                          the release is made
    rank-R/privacy/released-00000007.bin  its bytes, flushed and renamed into place before anybody gets them
    rank-R/privacy/ledger-1.jsonl ...     ledgers of earlier runs in this folder

So whatever was sent is charged, however the process ends; and a round that was charged is only ever sent as the bytes
that are there. One without bytes is never sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError

FOLDER = "privacy"
_LEDGER = "ledger.jsonl"


class Ledger:
    """A peer's releases.

    Args:
        folder: Where they are kept; made by `begin`, or with the first charge.
        mechanism: What a release is charged for; plain JSON values.
        resume: Whether the run goes on from what is there.

    Raises:
        CheckpointError: The ledger to go on with is damaged, or of another mechanism.
    """

    def __init__(self, folder: Path, mechanism: Mapping[str, Any], *, resume: bool) -> None:
        self._folder, self._mechanism = folder, dict(mechanism)
        self._rounds = self._resumed() if resume and (folder / _LEDGER).exists() else []
        self._begun = bool(self._rounds)  # a ledger without releases may be of another mechanism, or torn: begun anew

    @property
    def releases(self) -> int:
        """How many releases are charged."""
        return len(self._rounds)

    def charged(self, number: int) -> bool:
        """Whether this round is charged."""
        return number in self._rounds

    def released(self, number: int) -> bytes | None:
        """The round's bytes, if they are there whole."""
        path = self._payload(number)
        return path.read_bytes() if self.charged(number) and path.exists() else None

    def last(self) -> bytes | None:
        """The bytes of the latest release that has any."""
        found = max(self._folder.glob("released-*.bin"), default=None) if self._begun else None
        return None if found is None else found.read_bytes()

    def charge(self, number: int, make: Callable[[], bytes]) -> bytes:
        """Charge a round, make its release and keep it; what is returned may be sent.

        Raises:
            ValueError: The round is charged already.
            OSError: The disk refused; nothing may be sent.
        """
        if self.charged(number):
            raise ValueError(f"round {number} is charged already")
        if not self._begun:
            self.begin()
        with (self._folder / _LEDGER).open("ab") as file:
            file.write(json.dumps({"round": number}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._rounds.append(number)
        payload = make()
        self._keep(number, payload)
        return payload

    def _keep(self, number: int, payload: bytes) -> None:
        final = self._payload(number)
        draft = final.with_suffix(".part")
        with draft.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(final)
        _flush(self._folder)
        for old in self._folder.glob("released-*.bin"):
            # The one before can still be asked for by a run that resumes a round earlier.
            if old != final and old != self._payload(self._before(number)):
                old.unlink(missing_ok=True)

    def _before(self, number: int) -> int:
        earlier = [other for other in self._rounds if other < number]
        return max(earlier, default=number)

    def _payload(self, number: int) -> Path:
        return self._folder / f"released-{number:08d}.bin"

    def begin(self) -> None:
        """Begin a new run: an earlier one's ledger is put aside, for what it has released counts beside this one's."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ledger = self._folder / _LEDGER
        if ledger.exists() and _read(ledger)[1]:
            aside = next(path for n in range(1, 10**6) if not (path := self._folder / f"ledger-{n}.jsonl").exists())
            ledger.rename(aside)
        for old in self._folder.glob("released-*"):
            old.unlink()
        with ledger.open("wb") as file:
            file.write(json.dumps({"mechanism": self._mechanism}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _flush(self._folder)
        _flush(self._folder.parent)
        self._begun, self._rounds = True, []

    def earlier(self) -> list[tuple[dict[str, Any], int]]:
        """Mechanism and number of releases of each earlier run in this folder.

        Raises:
            CheckpointError: A ledger of one is damaged.
        """
        paths = sorted(self._folder.glob("ledger-*.jsonl"))
        if not self._begun and (self._folder / _LEDGER).exists():
            paths.append(self._folder / _LEDGER)
        found = [_read(path) for path in paths]
        return [(mechanism, len(rounds)) for mechanism, rounds in found if rounds]

    def _resumed(self) -> list[int]:
        path = self._folder / _LEDGER
        content = path.read_bytes()
        torn = len(content.rpartition(b"\n")[2])
        if torn:  # the process ended while it wrote the charge, before there was anything to send
            with path.open("r+b") as file:
                file.truncate(len(content) - torn)
                os.fsync(file.fileno())
        mechanism, rounds = _read(path)
        if rounds and mechanism != self._mechanism:
            name = next(key for key in self._mechanism if mechanism.get(key) != self._mechanism[key])
            raise CheckpointError(
                f"the run in {str(self._folder.parent)!r} has made {len(rounds)} private releases with "
                f"{name.replace('_', ' ')} {mechanism.get(name)}, this one would go on with {self._mechanism[name]}: "
                f"that cannot change in a run; give --noise-multiplier {mechanism.get('noise_multiplier')} (beside "
                "--target-epsilon, if there is one) and the other settings it began with"
            )
        return rounds


def releases_in(folder: Path) -> int:
    """How many releases the ledger in a peer's folder has; 0 where there is none, or none that can be read."""
    try:
        return len(_read(folder / FOLDER / _LEDGER)[1])
    except (OSError, CheckpointError):
        return 0


def _read(path: Path) -> tuple[dict[str, Any], list[int]]:
    try:
        lines = path.read_bytes().rpartition(b"\n")[0].splitlines()
        if not lines:
            return {}, []
        mechanism = dict(json.loads(lines[0])["mechanism"])
        return mechanism, [int(json.loads(line)["round"]) for line in lines[1:]]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"the privacy ledger {str(path)!r} is damaged ({error}): what was released is not known any more; restore "
            "the file as it was last (an older copy will not do)"
        ) from error


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
