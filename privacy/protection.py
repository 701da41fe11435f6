"""One peer's privacy while it runs: what is promised, what is spent, and whether it may release again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.guarantee import Adversary, Guarantee
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.ledger_file import Run
from dpeer.privacy.mechanism import Clipped, Sparsifier


def _nobody(number: int) -> Sequence[int]:
    return ()


@dataclass(frozen=True)
class Protection:
    """The mechanism, the ledger and the budget of one peer.

    Every release in the folder on these data counts as spent: this run's and those of earlier runs. Gaussian
    mechanisms compose by the squares of their mu, whatever their noise.

    Attributes:
        guarantee: Mechanism, adversary and adjacency.
        ledger: What has been released.
        budget: The epsilon that is never exceeded; None without a limit.
        sparsifier: What of an update is kept.
        receivers: The ranks that a round's release may be sent to.
    """

    guarantee: Guarantee
    ledger: Ledger
    budget: float | None = None
    sparsifier: Sparsifier = field(default_factory=Sparsifier)
    receivers: Callable[[int], Sequence[int]] = _nobody

    def epsilon(self, releases: int, adversary: Adversary | None = None) -> float:
        """Epsilon at the guarantee's delta after so many releases of this run, with those of earlier runs.

        Args:
            releases: 0 or more.
            adversary: Another one than the guarantee's own.

        Returns:
            Infinite where something has been released without noise.
        """
        before = self._earlier_mu[adversary or self.guarantee.adversary]
        return epsilon_of(math.hypot(before, self.guarantee.mu(releases, adversary)), self.guarantee.delta)

    def promised(self, releases: int) -> dict[str, float]:
        """Epsilon as `epsilon` gives it, in aggregate mode against both adversaries, by the keys of metrics.jsonl."""
        if self.guarantee.adversary == "neighbor":
            return {"epsilon": self.epsilon(releases)}
        both: tuple[Adversary, ...] = get_args(Adversary)
        return {"epsilon": self.epsilon(releases), **{f"epsilon_{one}": self.epsilon(releases, one) for one in both}}

    @cached_property
    def _earlier_mu(self) -> dict[Adversary, float]:
        runs = self.ledger.earlier
        return {against: math.hypot(*(self._mu(run, against) for run in runs)) for against in ("neighbor", "aggregate")}

    def _mu(self, run: Run, adversary: Adversary) -> float:
        if not run.protects or run.mechanism is None or run.charges:  # steps protect records, not the whole data set
            return math.inf
        try:
            mechanism = Guarantee(**run.mechanism)
        except (TypeError, ConfigurationError):  # of a later version, or altered: nothing is known of it
            return math.inf
        # Counted as this run's promise is: the same noise hides less where more may differ, and less in averages of
        # fewer peers.
        sensitivity = dataclasses.replace(mechanism, adjacency=self.guarantee.adjacency).sensitivity
        share = 1.0 if adversary == "neighbor" else max(mechanism.share, self.guarantee.share)
        return math.sqrt(len(run.rounds)) * sensitivity * share / mechanism.noise_std

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

    def spent(self, met: Clipped | None) -> dict[str, Any]:
        """The costs so far, as the peer's own files say them after a round.

        Args:
            met: What clipping found in that round; None where nothing was released anew.

        Returns:
            Plain JSON values, but that an epsilon may be infinite: epsilon and delta so far, for the chosen adversary
            and (in aggregate mode) for both.
        """
        releases, guarantee = self.ledger.releases, self.guarantee
        said: dict[str, Any] = {
            **self.promised(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
        }
        if self.ledger.earlier:
            said |= {
                "epsilon_of_this_run": guarantee.epsilon(releases),
                "earlier_releases": sum(len(run.rounds) for run in self.ledger.earlier),
                "released_without_noise": not all(run.protects for run in self.ledger.earlier),
            }
        if met is not None:
            said |= {"update_norm": met.norm, "clipped": met.clipped, "not_finite": not met.finite}
        return said
