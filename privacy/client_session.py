"""Client-level privacy of one peer while it runs: its guarantee, ledger and budget, and what may be released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier
from dpeer.privacy.outlook import ADVICE, cost, noise_over_drift
from dpeer.privacy.soundness import check_delta


@dataclass(frozen=True)
class ClientSession:
    """The privacy of one peer's whole data set in the messages that it releases.

    Attributes:
        guarantee: The mechanism of every release.
        ledger: The releases so far.
        budget: The epsilon that is never exceeded; None without a limit.
        sparsifier: Which coordinates of an update are kept.
        planned: The most rounds in which the peer takes part.
        size: The number of peers.
    """

    guarantee: Guarantee
    ledger: Ledger
    budget: float | None = None
    sparsifier: Sparsifier = field(default_factory=Sparsifier)
    planned: int = 0
    size: int = 1

    def begin(self) -> None:
        """Begin a new run."""
        self.ledger.begin()

    def release(
        self, number: int, make: Callable[[], bytes], receivers: Sequence[int] = ()
    ) -> tuple[bytes | None, bool]:
        """The round's bytes: made and charged now, or made before the run was interrupted.

        When the budget allows no further release, the last one is sent again, which costs nothing.

        Args:
            number: The round.
            make: Makes the bytes, with noise; called only where the budget allows a release.
            receivers: The ranks that they may be sent to.

        Returns:
            The bytes, None where they are gone from the disk; and whether they are those of an earlier round.

        Raises:
            OSError: The disk refused; nothing may be sent.
        """
        if self.ledger.charged(number):
            return self.ledger.released(number), False
        if self.may_release:
            return self.ledger.release(number, make, receivers), False
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
        """Epsilon at the guarantee's delta after so many releases."""
        return self.guarantee.epsilon(releases)

    def fitting(self, planned: int) -> int:
        """The number of releases that the budget allows, but at most so many."""
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

    def spent(self, met: Clipped | None = None) -> dict[str, Any]:
        """The costs so far, for the peer's own files.

        Args:
            met: The clipping of the round's update; None where nothing was released anew.

        Returns:
            Plain JSON values.
        """
        releases, guarantee = self.ledger.releases, self.guarantee
        costs: dict[str, Any] = {
            "epsilon": self.epsilon(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
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
