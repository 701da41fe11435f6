"""Write-ahead ledger of one private run of a peer: releases at client level, local steps at sample level.

    rank-R/privacy/ledger.jsonl           the mechanism, then a line for each release (round, time, SHA-256 of its bytes
                                          and the ranks it may go to) or charge, on disk before anybody gets them
    rank-R/privacy/released-00000007.part a release's bytes, on disk before its line
    rank-R/privacy/released-00000007.bin  the same bytes, renamed once they are charged

So everything that was sent is charged, however the process ends; and a charged round is only ever sent as the bytes
that are on disk. They are there before the charge, or a peer that is killed between the two would send nothing in the
round, and two such neighbors would wait for each other. Bytes without a line, other than a draft, are damage. Steps
that are taken a second time, after a crash, are charged a second time: their noise is new.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from dpeer.atomic import owner_only
from dpeer.exceptions import CheckpointError
from dpeer.privacy import ledger_file
from dpeer.privacy.accounting import Charge
from dpeer.privacy.ledger_file import LEDGER, Run, draft_of, payload_path, payload_paths
from dpeer.privacy.noise import SCHEME


class Ledger:
    """The releases or charges of a private run.

    Args:
        folder: The peer's privacy folder; made by `begin`, or with the first charge.
        mechanism: The mechanism of every release or step; plain JSON values.
        level: Whether lines are releases ("client") or charges of steps ("sample").
        resume: Whether the run continues the one of the ledger that is there.
        data: SHA-256 (hex) of the peer's data; None where unknown.
        keep: Of how many releases the bytes are kept: as many as there can be after the last checkpoint.

    Attributes:
        ended: Whether this run takes no step any more; see `end`.

    Raises:
        CheckpointError: A ledger is damaged; or the one to continue is of another level, mechanism, data or noise.
    """

    def __init__(
        self,
        folder: Path,
        mechanism: Mapping[str, Any],
        *,
        resume: bool,
        level: Literal["client", "sample"] = "client",
        data: str | None = None,
        keep: int = 2,
    ) -> None:
        self._folder, self._path, self._mechanism = folder, folder / LEDGER, dict(mechanism)
        self._level, self._data, self._keeps = level, data, keep
        found = self._resumed() if resume and self._path.exists() else Run()
        # One without releases may be of another mechanism, or torn: it is begun anew.
        self._begun = bool(found.rounds)
        self._rounds, self._hashes, self._charges = [*found.rounds], {**found.hashes}, [*found.charges]
        self._stated, self.ended = [*found.stated], found.ended

    @property
    def releases(self) -> int:
        """How many releases this run has charged."""
        return 0 if self._charges else len(self._rounds)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges of this run's steps, in order."""
        return tuple(self._charges)

    @property
    def steps(self) -> int:
        """How many steps this run has charged."""
        return sum(charge.steps for charge in self._charges)

    @property
    def newest(self) -> int:
        """The last round that was charged otherwise than because the operator states it; -1 without any."""
        return max((one for one, stated in zip(self._rounds, self._stated, strict=True) if not stated), default=-1)

    def stated(self, number: int) -> list[Charge]:
        """The charges of a round's steps that were made because the operator states it."""
        lines = zip(self._rounds, self._stated, self._charges, strict=False)  # the line of the end has no charge
        return [charge for one, stated, charge in lines if stated and one == number]

    def begin(self) -> None:
        """Begin a new run."""
        ledger_file.begin(self._folder, self._mechanism, self._data)
        for old in payload_paths(self._folder, drafts=True):  # of one that was killed before its first charge
            old.unlink()
        self._begun, self._rounds, self._stated, self._hashes, self._charges = True, [], [], {}, []

    def charged(self, number: int) -> bool:
        """Whether this round is charged."""
        return number in self._rounds

    def released(self, number: int) -> bytes | None:
        """The round's released bytes; None if they are not there as they were charged."""
        if not self.charged(number):
            return None
        final = payload_path(self._folder, number)
        draft = draft_of(final)
        # A file that was restored, copied or damaged is not what the neighbors have got, or will get from others.
        for path in (final, draft):
            if path.exists() and self._hashes.get(number) == _hash(payload := path.read_bytes()):
                if path == draft:
                    draft.rename(final)  # its process was killed in between; a backup leaves drafts out
                return payload
        return None

    def last(self) -> bytes | None:
        """The bytes of the latest release of which they are there."""
        payloads = (self.released(number) for number in sorted(self._hashes, reverse=True)[: self._keeps])
        return next((payload for payload in payloads if payload is not None), None)

    def release(self, number: int, make: Callable[[], bytes], to: Sequence[int] = ()) -> bytes:
        """Make a round's release, charge it and keep it; the returned bytes may be sent.

        Until the charge is on disk the release is a draft. If this process ends before, the next one makes another.

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
        digest, final = _hash(payload), payload_path(self._folder, number)
        with open(draft_of(final), "wb", opener=owner_only) as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        ledger_file.flush(self._folder)
        self._append(number, sha256=digest, to=sorted(to))
        self._note(number)
        self._hashes[number] = digest
        draft_of(final).rename(final)
        self._drop_old()
        return payload

    def charge(self, number: int, steps: Charge, *, stated: bool = False) -> None:
        """Charge steps; when this returns they are on disk and may be taken, and not before.

        Args:
            number: The round that they belong to.
            steps: At least one; no more than are about to be taken, or the others are paid for in vain.
            stated: Whether they were perhaps taken on a disk that was lost, and are not now.

        Raises:
            ValueError: No steps are given, or the run has ended.
            OSError: The disk refused; no step may be taken.
        """
        if steps.steps < 1 or self.ended:
            raise ValueError("a charge has at least 1 step, and none follows the end")
        if not self._begun:
            self.begin()
        # Counted first: if the disk refuses, it may still have taken the line.
        self._charges.append(steps)
        self._note(number, stated=stated)
        self._append(number, charge=dataclasses.asdict(steps), **({"stated": True} if stated else {}))

    def state(self, number: int) -> None:
        """Charge a release that was perhaps made on a disk that was lost, at client level: without bytes none is sent.

        Raises:
            ValueError: The round is charged already.
            OSError: The disk refused.
        """
        if self.charged(number):
            raise ValueError(f"round {number} is charged already")
        if not self._begun:
            self.begin()
        self._append(number, stated=True)
        self._note(number, stated=True)

    def end(self, number: int) -> None:
        """Record that no step is taken any more, from this round on; it is on disk when this returns.

        Training without noise from then on, at home, must never have an effect on what leaves the peer: so a run
        never goes back, also not with a larger budget.

        Raises:
            ValueError: No step has been charged.
            OSError: The disk refused; nothing may be trained without noise.
        """
        if not self._charges:
            raise ValueError("a run that has charged nothing has nothing to end")
        self.ended = True
        self._append(number, ended=True)

    def _note(self, number: int, *, stated: bool = False) -> None:
        self._rounds.append(number)
        self._stated.append(stated)

    def _append(self, number: int, **values: Any) -> None:
        ledger_file.append(self._path, {"round": number, "time": ledger_file.now(), **values})

    def _drop_old(self) -> None:
        """Remove the bytes for which no run can ask that resumes some rounds earlier."""
        kept = {payload_path(self._folder, number) for number in sorted(self._hashes)[-self._keeps :]}
        for old in payload_paths(self._folder, drafts=True):
            if old.with_suffix(".bin") not in kept:
                old.unlink(missing_ok=True)

    def _resumed(self) -> Run:
        """The run to continue; an empty one where it is begun anew."""
        ledger_file.mend(self._path)
        run = ledger_file.read(self._path)
        if not run.rounds:
            return run
        place = f"the run in {str(self._folder.parent)!r}"
        if bool(run.charges) != (self._level == "sample"):
            raise CheckpointError(
                f"{place} was not private at {self._level} level: it cannot go on as that; start one in another --out"
            )
        made = f"{place} has made {len(run.rounds)} private releases with"
        if run.charges:
            made = f"{place} has charged steps of {len(set(run.rounds))} rounds with"
        if run.data != self._data:
            raise CheckpointError(
                f"{made} other data than this peer has now (their SHA-256 differs): a run goes on with the data it "
                "began with; start one on these in another --out"
            )
        then, here = {"noise": run.noise, **(run.mechanism or {})}, {"noise": SCHEME, **self._mechanism}
        if then != here:
            name = next(key for key in [*here, *then] if then.get(key) != here.get(key))
            raise CheckpointError(
                f"{made} {name.replace('_', ' ')} {then.get(name)}, this one would go on with {here.get(name)}: that "
                f"cannot change in a run; give --noise-multiplier {then.get('noise_multiplier')} (beside "
                "--target-epsilon, if it is given) and the other settings it began with"
            )
        return run


def _hash(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
