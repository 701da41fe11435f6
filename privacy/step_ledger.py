"""The local steps of one private run of a peer at sample level, written down before any of them is taken.

It is the file of `ledger`, with the same first line, in the same folder: runs in one folder add up, whatever they
protected. Each line after the first is a charge. Steps that are taken a second time, after a crash, are charged a
second time: their noise is new.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy import accounting, history, ledger_file
from dpeer.privacy.accounting import Accountant, Charge
from dpeer.privacy.guarantee import Guarantee
from dpeer.privacy.history import LEDGER
from dpeer.privacy.ledger_file import Run

_RECORD = "record"
"""What is protected where nothing is said of it."""


class StepLedger:
    """What a run has charged, and what all runs on the same data come to.

    Args:
        folder: The peer's privacy folder; made with the first charge.
        mechanism: How steps are protected; plain JSON values.
        resume: Whether the run continues the one of the ledger that is there.
        data: SHA-256 (hex) of the peer's data; None where nobody knows.
        new_data: Whether the data are others than those of earlier runs in the folder, which then do not count.

    Attributes:
        earlier: What runs before this one have released or charged on the same data, oldest first.
        not_new: Runs before this one whose data were the very same although the user says that these are new.
        ended: Whether this run takes no step any more; see `end`.

    Raises:
        CheckpointError: A ledger is damaged; or the one to go on with is of another mechanism or of other data.
    """

    def __init__(
        self,
        folder: Path,
        mechanism: Mapping[str, Any],
        *,
        resume: bool,
        data: str | None = None,
        new_data: bool = False,
    ) -> None:
        self._folder, self._path = folder, folder / LEDGER
        self._mechanism, self._data = dict(mechanism), data
        found = self._resumed() if resume and self._path.exists() else None
        self._begun = found is not None
        self._charges = [] if found is None else list(found.charges)
        self.ended = found is not None and found.ended
        self._new_data = new_data or (found is not None and found.new_data)
        runs = history.earlier(folder, data, new_data=self._new_data, current=self._begun)
        self.earlier = [] if self._new_data else runs
        self.not_new = runs if self._new_data else []

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What this run has charged, in order."""
        return tuple(self._charges)

    @property
    def steps(self) -> int:
        """How many steps this run has charged."""
        return sum(charge.steps for charge in self._charges)

    def charge(self, number: int, steps: Charge) -> None:
        """Charge steps; when this returns they are on disk and may be taken, and not before.

        Args:
            number: The round that they belong to.
            steps: At least one; no more than are about to be taken, or the others are paid for in vain.

        Raises:
            ValueError: There are no steps, or the run has ended.
            OSError: The disk refused; no step may be taken.
        """
        if steps.steps < 1 or self.ended:
            raise ValueError("a charge has at least 1 step, and there is none after the end")
        if not self._begun:
            history.begin(self._folder, self._mechanism, self._data, new_data=self._new_data)
            self._begun = True
        # Counted first: if the disk refuses, it may still have taken the line.
        self._charges.append(steps)
        line = {"round": number, "time": ledger_file.now(), "charge": dataclasses.asdict(steps)}
        ledger_file.append(self._path, line)

    def end(self, number: int) -> None:
        """Note that no step is taken any more, from this round on; when this returns that is on disk.

        What is trained without noise from then on, at home, must never have an effect on what leaves the peer: so there
        is no way back, also not with a larger budget.

        Raises:
            ValueError: No step has been charged.
            OSError: The disk refused; nothing may be trained without noise.
        """
        if not self._charges:
            raise ValueError("a run that has charged nothing has nothing to end")
        self.ended = True
        ledger_file.append(self._path, {"round": number, "time": ledger_file.now(), "ended": True})

    @property
    def released_without_noise(self) -> bool:
        """Whether an earlier run on these data has released something without noise that protects its units."""
        return any(charged(run, self._mechanism.get("unit", _RECORD)) is None for run in self.earlier)

    def epsilon(self, delta: float, accountant: Accountant | None = None, further: Iterable[Charge] = ()) -> float:
        """Epsilon of everything that was charged on these data, by this run and those before it.

        Args:
            delta: Between 0 and 1.
            accountant: One of `accounting.ACCOUNTANTS`; None for `accounting.tightest`.
            further: Steps that are not charged yet, to see what they would cost.

        Returns:
            Infinite where something has been released without noise.
        """
        before = [charged(run, self._mechanism.get("unit", _RECORD)) for run in self.earlier]
        if None in before:
            return math.inf
        known = [charge for charges in before if charges is not None for charge in charges]
        together = [*known, *self._charges, *further]
        return accounting.total_epsilon(together, delta, accountant or accounting.tightest(together))

    def _resumed(self) -> Run | None:
        ledger_file.mend(self._path)
        run = ledger_file.read(self._path)
        if not run.rounds:
            return None
        there = f"the run in {str(self._folder.parent)!r} has charged steps of {len(set(run.rounds))} rounds with"
        if not run.charges:
            raise CheckpointError(
                f"the run in {str(self._folder.parent)!r} was not private at sample level: it cannot go on as that; "
                "start over with --overwrite, and what it released counts"
            )
        if not run.protects:
            raise CheckpointError(f"{there} noise of another version: it cannot go on; start over with --overwrite")
        if run.data != self._data:
            raise CheckpointError(
                f"{there} other data than this peer has now (their SHA-256 differs): start one on these with "
                "--overwrite"
            )
        if run.mechanism != self._mechanism:
            there_is = run.mechanism or {}
            name = next(key for key in [*self._mechanism, *there_is] if there_is.get(key) != self._mechanism.get(key))
            raise CheckpointError(
                f"{there} {name.replace('_', ' ')} {there_is.get(name)}, this one would go on with "
                f"{self._mechanism.get(name)}: that cannot change in a run; give the settings it began with"
            )
        return run


def charged(run: Run, unit: str = _RECORD) -> tuple[Charge, ...] | None:
    """What a run comes to for one unit, as charges; None where that is not bounded.

    A release at client level protects the whole data set against a neighbor, and so each record and each group: any of
    them can move the update by 2 C, whatever the run's own adjacency was.

    Args:
        run: What it released or charged.
        unit: "record" or "group". Steps that protected the other of the two say nothing of this one.
    """
    if not run.protects or run.mechanism is None:
        return None
    if run.charges:
        return tuple(run.charges) if run.mechanism.get("unit", _RECORD) == unit else None
    try:
        mechanism = dataclasses.replace(Guarantee(**run.mechanism), adjacency="replace")
    except (TypeError, ConfigurationError):  # of a later version, or altered: nothing is known of it
        return None
    return (Charge(1.0, mechanism.ratio("neighbor"), len(run.rounds)),)
