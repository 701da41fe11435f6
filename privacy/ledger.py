"""The releases of one run of a peer, written down before anybody gets them.

    rank-R/privacy/ledger.jsonl           the mechanism, then a line for each release: round, time, SHA-256 of its bytes
                                          and the ranks it may go to, flushed to disk first of all
    rank-R/privacy/released-00000007.bin  its bytes, flushed and renamed into place before anybody gets them

So whatever was sent is charged, however the process ends; and a round that was charged is only ever sent as the bytes
that are there. One without bytes is never sent; bytes without a line are damage. What runs before this one released is
`history`'s.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.privacy import history, ledger_file
from dpeer.privacy.history import LEDGER
from dpeer.privacy.ledger_file import Run


class Ledger:
    """A private run's releases.

    Args:
        folder: The peer's privacy folder; made by `begin`, or with the first charge.
        mechanism: What a release is charged for; plain JSON values.
        resume: Whether the run continues the one of the ledger that is there.
        data: SHA-256 (hex) of the peer's data; None where nobody knows.
        new_data: Whether the data are others than those of earlier runs in the folder, which then do not count.
        keep: Of how many releases the bytes are kept: as many as there can be after the last checkpoint.

    Attributes:
        earlier: What runs before this one have released on the same data, oldest first.
        not_new: Runs before this one whose data were the very same although the user says that these are new.

    Raises:
        CheckpointError: A ledger is damaged; or the one to go on with is of another mechanism, of other data, or of
            noise that is no protection.
    """

    def __init__(
        self,
        folder: Path,
        mechanism: Mapping[str, Any],
        *,
        resume: bool,
        data: str | None = None,
        new_data: bool = False,
        keep: int = 2,
    ) -> None:
        self._folder, self._mechanism, self._keeps = folder, dict(mechanism), keep
        found = self._resumed(data) if resume and self._path.exists() else None
        # One without releases may be of another mechanism, or torn: it is begun anew.
        self._begun = bool(found and found.rounds)
        self._rounds = list(found.rounds) if found else []
        self._hashes = dict(found.hashes) if found else {}
        said = found is not None and found.new_data and (self._begun or (data is not None and found.data == data))
        self._data, self._new_data = data, new_data or said
        runs = history.earlier(folder, data, new_data=self._new_data, current=self._begun)
        self.earlier = [] if self._new_data else runs
        self.not_new = runs if self._new_data else []

    @property
    def _path(self) -> Path:
        return self._folder / LEDGER

    @property
    def releases(self) -> int:
        """How many releases are charged."""
        return len(self._rounds)

    def charged(self, number: int) -> bool:
        """Whether this round is charged."""
        return number in self._rounds

    def released(self, number: int) -> bytes | None:
        """The round's released bytes; None if they are not there as they were charged."""
        path = self._payload(number)
        if not self.charged(number) or not path.exists():
            return None
        payload = path.read_bytes()
        # A file that was restored, copied or damaged is not what the neighbors have got, or will get from others.
        return payload if self._hashes.get(number) == _hash(payload) else None

    def last(self) -> bytes | None:
        """The bytes of the latest release of which they are there."""
        payloads = (self.released(number) for number in sorted(self._rounds, reverse=True)[: self._keeps])
        return next((payload for payload in payloads if payload is not None), None)

    def charge(self, number: int, make: Callable[[], bytes], to: Sequence[int] = ()) -> bytes:
        """Make a round's release, charge it and keep it; what is returned may be sent.

        Until the charge is on disk the release is nowhere but in this process's memory.

        Args:
            number: The round.
            make: Makes the bytes.
            to: The ranks that they may be sent to.

        Raises:
            ValueError: The round is charged already.
            OSError: The disk refused; nothing may be sent.
        """
        if self.charged(number):
            raise ValueError(f"round {number} is charged already")
        if not self._begun:
            self.begin()
        payload = make()
        digest = _hash(payload)
        ledger_file.append(self._path, {"round": number, "time": ledger_file.now(), "sha256": digest, "to": sorted(to)})
        self._rounds.append(number)
        self._hashes[number] = digest
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
        ledger_file.flush(self._folder)
        # Those before can still be asked for by a run that resumes some rounds earlier.
        kept = {self._payload(other) for other in sorted(self._rounds)[-self._keeps :]}
        for old in self._folder.glob("released-*.bin"):
            if old not in kept:
                old.unlink(missing_ok=True)

    def _payload(self, number: int) -> Path:
        return self._folder / f"released-{number:08d}.bin"

    def begin(self) -> None:
        """Begin a new run: an earlier one's ledger is put aside, for what it has released counts beside this one's."""
        history.begin(self._folder, self._mechanism, self._data, new_data=self._new_data)
        self._begun, self._rounds, self._hashes = True, [], {}

    def _resumed(self, data: str | None) -> Run | None:
        ledger_file.mend(self._path)
        run = ledger_file.read(self._path)
        if not run.rounds or run.mechanism is None:
            return None if run.rounds else run
        there = f"the run in {str(self._folder.parent)!r} has made {len(run.rounds)} private releases with"
        if not run.protects:
            raise CheckpointError(
                f"{there} noise that can be taken off again (an older dpeer drew it): it cannot go on as private; "
                "start over with --overwrite, and what it released counts as released without noise"
            )
        if run.data != data:
            raise CheckpointError(
                f"{there} other data than this peer has now (their SHA-256 differs): a run goes on with the data it "
                "began with; start one on these with --overwrite"
            )
        if run.mechanism != self._mechanism:
            names = [*self._mechanism, *run.mechanism]
            name = next(key for key in names if run.mechanism.get(key) != self._mechanism.get(key))
            raise CheckpointError(
                f"{there} {name.replace('_', ' ')} {run.mechanism.get(name)}, this one would go on with "
                f"{self._mechanism.get(name)}: that cannot change in a run; give --noise-multiplier "
                f"{run.mechanism.get('noise_multiplier')} (beside --target-epsilon, if there is one) and the other "
                "settings it began with"
            )
        return run


def _hash(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
