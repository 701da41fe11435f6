"""Client-level privacy of one peer while it runs: its guarantee, ledger and budget, and what may be released."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dpeer.exceptions import BudgetTooSmall, ConfigurationError
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.ledger_file import Run
from dpeer.privacy.mechanism import Clipped, Sparsifier
from dpeer.privacy.outlook import ADVICE, NEW_DATA_WARNING, cost, noise_over_drift
from dpeer.privacy.soundness import check_delta


def _nobody(number: int) -> Sequence[int]:
    return ()


@dataclass(frozen=True)
class ClientSession:
    """The privacy of one peer's whole data set in the messages that it releases.

    Every release in the folder on these data counts as spent: this run's and those of earlier runs. Gaussian
    mechanisms compose by the squares of their mu, whatever their noise.

    Attributes:
        guarantee: The mechanism of every release.
        ledger: The releases so far.
        budget: The epsilon that is never exceeded; None without a limit.
        sparsifier: Which coordinates of an update are kept.
        receivers: The ranks that a round's release may be sent to.
        planned: The most rounds in which the peer takes part.
        size: The number of peers.
    """

    guarantee: Guarantee
    ledger: Ledger
    budget: float | None = None
    sparsifier: Sparsifier = field(default_factory=Sparsifier)
    receivers: Callable[[int], Sequence[int]] = _nobody
    planned: int = 0
    size: int = 1

    def begin(self) -> None:
        """Begin a new run: the ledger of an earlier one is put aside."""
        self.ledger.begin()

    def release(self, number: int, make: Callable[[], bytes]) -> tuple[bytes | None, bool]:
        """The round's bytes: made and charged now, or made before the run was interrupted.

        When the budget allows no further release, the last one is sent again, which costs nothing.

        Args:
            number: The round.
            make: Makes the bytes, with noise; called only where the budget allows a release.

        Returns:
            The bytes, None where they are gone from the disk; and whether they are those of an earlier round.

        Raises:
            OSError: The disk refused; nothing may be sent.
        """
        if self.ledger.charged(number):
            return self.ledger.released(number), False
        if self.may_release:
            return self.ledger.release(number, make, self.receivers(number)), False
        return self.ledger.last(), True

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Charge those of these rounds that are not charged: a disk that was lost may have released them.

        None of them is released from now on. The budget does not end these charges: that disk may have had none.

        Raises:
            OSError: The disk refused.
        """
        for number in rounds:
            if not self.ledger.charged(number):
                self.ledger.state(number)

    def epsilon(self, releases: int) -> float:
        """Epsilon at the guarantee's delta after so many releases of this run, with those of earlier runs.

        Returns:
            Infinite where something has been released without noise.
        """
        return epsilon_of(math.hypot(self._earlier_mu, self.guarantee.mu(releases)), self.guarantee.delta)

    @cached_property
    def _earlier_mu(self) -> float:
        return math.hypot(*map(self._mu, self.ledger.earlier))

    def _mu(self, run: Run) -> float:
        if not run.protects or run.mechanism is None or run.charges:  # steps protect records, not the whole data set
            return math.inf
        try:
            return Guarantee(**run.mechanism).mu(len(run.rounds))
        except (TypeError, ConfigurationError):  # altered
            return math.inf

    def fitting(self, planned: int) -> int:
        """The number of this run's releases that the budget allows, but at most so many."""
        if self.budget is None:
            return planned
        low, high = 0, planned + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= self.budget else (low, middle)
        return low

    @property
    def may_release(self) -> bool:
        """Whether the budget allows one release more."""
        return self.budget is None or self.epsilon(self.ledger.releases + 1) <= self.budget

    def check_budget(self, folder: Path) -> None:
        """Refuse to begin a run where earlier runs in the peer's folder have used up the budget.

        Raises:
            BudgetTooSmall: They have.
        """
        if self.ledger.releases or not self.ledger.earlier or self.may_release:
            return
        before, first = self.epsilon(0), self.epsilon(1)
        budget, place = f"--target-epsilon {self.budget:g}", f"earlier runs in {str(folder)!r}"
        if math.isinf(before):
            raise BudgetTooSmall(
                f"{budget} cannot be kept: {place} have released bodies without noise that protects; if the data are "
                "others now, say --new-data"
            )
        raise BudgetTooSmall(
            f"{budget} allows not even one release: {place} have spent epsilon {before:.4g}, one more would make it "
            f"{first:.4g}; if the data are others now, say --new-data; else give a larger --target-epsilon or more "
            "noise on all peers alike"
        )

    def spent(self, met: Clipped | None = None) -> dict[str, Any]:
        """The costs so far, for the peer's own files.

        Args:
            met: The clipping of the round's update; None where nothing was released anew.

        Returns:
            Plain JSON values, but that an epsilon may be infinite.
        """
        releases, guarantee, runs = self.ledger.releases, self.guarantee, self.ledger.earlier
        costs: dict[str, Any] = {
            "epsilon": self.epsilon(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
        }
        if runs:
            costs |= {
                "epsilon_of_this_run": guarantee.epsilon(releases),
                "earlier_releases": sum(len(run.rounds) for run in runs),
                "released_without_noise": not all(run.protects for run in runs),
            }
        if met is not None:
            costs |= {"update_norm": met.norm, "clipped": met.clipped, "not_finite": not met.finite}
        return costs

    def notes(self, parameters: int) -> list[str]:
        """Notes on privacy before the peer starts.

        Args:
            parameters: The number of values that are shared.
        """
        guarantee = self.guarantee
        fitting = max(self.fitting(self.planned), self.ledger.releases)
        lines = [
            f"privacy of {guarantee.words}: {cost(self.epsilon(fitting))} at delta {guarantee.delta:g} after "
            f"{fitting} releases (noise multiplier {guarantee.noise_multiplier:.10g}, clip norm "
            f"{guarantee.clip_norm:g})"
        ]
        if self.ledger.earlier:
            lines.append(self._earlier_note(fitting))
        if self.ledger.not_new:
            lines.append(NEW_DATA_WARNING.format(done="released"))
        if fitting < self.planned:
            lines.append(
                f"the budget of epsilon {self.budget:g} is used up after {fitting} of {self.planned} releases: from "
                "then on the last one is sent again, and the head goes on training"
            )
        if warning := check_delta(guarantee.delta, self.size):
            lines.append(warning)
        kept = self.sparsifier.count(parameters) if self.sparsifier.rule == "random" else parameters
        ratio = guarantee.noise_ratio(kept)
        lines.append(f"the noise of a release is {ratio:,.4g} times as long as a clipped update ({kept:,} values)")
        if noise_over_drift(ratio, self.size, fitting) > 1:
            lines.append(f"training cannot survive this noise: {ADVICE['client']}")
        return lines

    def _earlier_note(self, fitting: int) -> str:
        """A note on the costs of earlier runs in the same folder."""
        runs = self.ledger.earlier
        if not all(run.protects for run in runs):
            return (
                "WARNING: earlier runs in this folder have released bodies without noise that protects, so nothing is "
                "promised about their data; if this run's data are others, start it with --overwrite --new-data"
            )
        made, alone = sum(len(run.rounds) for run in runs), self.guarantee.epsilon(fitting)
        return (
            f"earlier runs in this folder made {made} releases, which are counted in (this run alone: epsilon "
            f"{alone:.4g}); if this run's data are others, start it with --overwrite --new-data"
        )
