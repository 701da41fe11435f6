"""What one peer has released, written down before it is sent.

    rank-R/privacy/ledger.jsonl           a line for each release: its round, flushed to disk before the release is made
    rank-R/privacy/released-00000007.bin  its bytes, flushed and renamed into place before anybody gets them

So whatever was sent is charged, however the process ends; and a round that was charged is only ever sent as the bytes
that are there. One without bytes is never sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from dpeer.exceptions import CheckpointError

FOLDER = "privacy"
_LEDGER = "ledger.jsonl"


class Ledger:
    """A peer's releases.

    Args:
        folder: Where they are kept; made with the first charge.
        resume: Whether the run goes on from what is there. A new run puts an earlier run's ledger aside: what that
            released counts beside what this one does.

    Raises:
        CheckpointError: The ledger to go on with is damaged.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._folder = folder
        self._begun = resume
        self._rounds = self._read() if resume else []

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
            self._begin()
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

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        ledger = self._folder / _LEDGER
        if ledger.exists():
            aside = next(path for n in range(1, 10**6) if not (path := self._folder / f"ledger-{n}.jsonl").exists())
            ledger.rename(aside)
        for old in self._folder.glob("released-*"):
            old.unlink()
        ledger.touch()
        _flush(self._folder)
        _flush(self._folder.parent)
        self._begun = True

    def _read(self) -> list[int]:
        path = self._folder / _LEDGER
        if not path.exists():
            self._begun = False
            return []
        content = path.read_bytes()
        whole, _, torn = content.rpartition(b"\n")
        if torn:  # the process ended while it wrote the charge, before there was anything to send
            with path.open("r+b") as file:
                file.truncate(len(content) - len(torn))
                os.fsync(file.fileno())
        try:
            return [int(json.loads(line)["round"]) for line in whole.splitlines()]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"the privacy ledger {str(path)!r} is damaged ({error}): what was released is not known any more; "
                "restore the file"
            ) from error


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
