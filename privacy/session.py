"""Session of a peer at client level: which releases may leave, and what both levels have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpeer.privacy.guarantee import GaussianGuarantee, Guarantee, check_delta
from dpeer.privacy.ledger import Charged, Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier


@dataclass
class BaseSession:
    """The privacy of one peer while it runs.

    Attributes:
        guarantee: The mechanism of every release or step.
        ledger: The releases or charges so far.
        budget: The epsilon that is never exceeded; None without a limit.
        planned: The most rounds in which the peer takes part; at sample level those that are still to come.
        size: The number of peers.
    """

    guarantee: GaussianGuarantee
    ledger: Ledger
    budget: float | None = None
    planned: int = 0
    size: int = 1

    def fitting(self, epsilon: Callable[[int], float]) -> int:
        """How many of the planned rounds the budget allows, by the epsilon of so many."""
        if self.budget is None or not self.planned or epsilon(self.planned) <= self.budget:
            return self.planned
        low, high = 0, self.planned
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if epsilon(middle) <= self.budget else (low, middle)
        return low

    def outlook(self, parameters: int, rounds: int) -> list[str]:
        """The advice where training cannot survive the noise on so many parameters; nothing where it may."""
        doomed = self.guarantee.noise_over_way(parameters, self.size, rounds) > 1
        return [f"training cannot survive this noise: {self.guarantee.advice}"] if doomed else []


@dataclass
class ClientSession(BaseSession):
    """The privacy of one peer's whole data set in the messages that it releases.

    Attributes:
        sparsifier: Which coordinates of an update are kept.
    """

    guarantee: Guarantee
    sparsifier: Sparsifier = field(default_factory=Sparsifier)

    @property
    def rounds(self) -> int:
        """In how many of the planned rounds the budget allows a release."""
        return self.fitting(self.guarantee.epsilon)

    @property
    def may_release(self) -> bool:
        """Whether the budget allows one release more."""
        return self.budget is None or self.guarantee.epsilon(self.ledger.releases + 1) <= self.budget

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
                self.ledger.charge(Charged(number, stated=True))

    def noised(self, shared: int, trained: int) -> int:
        """How many values get noise at once, of the number that is shared and the most that are trained together."""
        return self.sparsifier.count(shared) if self.sparsifier.rule == "random" else shared

    def spent(self, met: Clipped | None = None) -> dict[str, Any]:
        """The costs so far, for the peer's own files, as plain JSON values.

        Args:
            met: The clipping of the round's update; None where nothing was released anew.
        """
        releases, guarantee = self.ledger.releases, self.guarantee
        costs: dict[str, Any] = {
            "epsilon": guarantee.epsilon(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
        }
        if met is not None:
            costs |= {"update_norm": met.norm, "clipped": met.clipped, "not_finite": not met.finite}
        return costs

    def notes(self, values: int) -> list[str]:
        """Notes on privacy before the peer starts; `values` of a release get noise."""
        m, releases = self.guarantee, max(self.rounds, self.ledger.releases)
        lines = [
            f"privacy of {m.words}: epsilon {m.epsilon(releases):.4g} at delta {m.delta:g} after {releases} releases "
            f"(noise multiplier {m.noise_multiplier:.10g}, clip norm {m.clip_norm:g})"
        ]
        if releases < self.planned:
            lines.append(
                f"the budget of epsilon {self.budget:g} is used up after {releases} of {self.planned} releases: from "
                "then on the last one is sent again, and the head goes on training"
            )
        if warning := check_delta(m.delta, self.size):
            lines.append(warning)
        ratio = m.noise_ratio(values)
        lines.append(f"the noise of a release is {ratio:,.4g} times as long as a clipped update ({values:,} values)")
        return lines + self.outlook(values, releases)
