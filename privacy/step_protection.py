"""One peer's privacy at sample level while it runs: what is promised, what is spent, and which steps may be taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.step_ledger import StepLedger
from dpeer.privacy.steps import Mechanism, Phase, charges

AT_ONCE = 64
"""The most steps that are charged together: a peer that is stopped has charged at most so many in vain."""


class StepProtection:
    """The mechanism, the ledger and the budget of one peer.

    Every step in the folder on these data counts as spent: this run's and those of earlier runs. How many whole rounds
    the budget allows is found when the run begins or goes on; from then on steps are compared with that number, because
    an epsilon takes a tenth of a second to compute.

    Args:
        mechanism: What protects each step.
        ledger: What has been charged.
        phases: The steps of a round.
        budget: The epsilon that is never exceeded; None without a limit.
        rounds: The most rounds that there are still to come.

    Attributes:
        mechanism: The same.
        ledger: The same.
        phases: The same.
        budget: The same.
        planned: How many rounds there are still to come.
        rounds: How many of them the budget allows.
        ended: Whether a step has been refused.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        ledger: StepLedger,
        phases: Sequence[Phase],
        *,
        budget: float | None = None,
        rounds: int = 0,
    ) -> None:
        self.mechanism, self.ledger, self.phases, self.budget = mechanism, ledger, tuple(phases), budget
        self.ended, self.planned = ledger.ended, rounds
        self.rounds = self._fitting(rounds)
        self._vetted = self._spent_by_noise()
        for charge in charges(mechanism, self.phases, self.rounds):
            noise = charge.noise_multiplier
            self._vetted[noise] = self._vetted.get(noise, 0) + charge.steps

    def charge(self, number: int, wanted: int, looks: int = 1) -> int:
        """Charge the next steps of a round, as many as may be taken at once; they are on disk when this returns.

        Args:
            number: The round.
            wanted: How many are about to be taken, 1 or more.
            looks: How many noised gradients each of them takes of its batch.

        Returns:
            How many may be taken now; 0 when the budget allows none any more.

        Raises:
            OSError: The disk refused; no step may be taken.
        """
        if self.ended:
            return 0
        steps = self.mechanism.charge(min(wanted, AT_ONCE), looks)
        if self.budget is not None:
            spent = self._spent_by_noise()
            spent[steps.noise_multiplier] = spent.get(steps.noise_multiplier, 0) + steps.steps
            # All kinds together: one that goes beyond its number leaves less for the others.
            known = all(number <= self._vetted.get(noise, 0) for noise, number in spent.items())
            if not known and self.ledger.epsilon(self.mechanism.delta, further=[steps]) > self.budget:
                self.ended = True
                return 0
        self.ledger.charge(number, steps)
        return steps.steps

    def end(self, number: int) -> None:
        """Note that no step is taken any more, before anything is trained without noise; see `StepLedger.end`."""
        self.ended = True
        if not self.ledger.ended:
            self.ledger.end(number)

    def epsilon(self, rounds: int = 0) -> float:
        """Epsilon of all that was charged on these data, and of so many rounds more."""
        further = charges(self.mechanism, self.phases, rounds)
        return self.ledger.epsilon(self.mechanism.delta, further=further)

    def _fitting(self, rounds: int) -> int:
        if self.budget is None or self.ended:
            return 0 if self.ended else rounds
        if not rounds or self.epsilon(rounds) <= self.budget:
            return rounds
        low, high = 0, rounds
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= self.budget else (low, middle)
        return low

    def _spent_by_noise(self) -> dict[float, int]:
        spent: dict[float, int] = {}
        for charge in self.ledger.charges:
            spent[charge.noise_multiplier] = spent.get(charge.noise_multiplier, 0) + charge.steps
        return spent

    def spent(self) -> dict[str, Any]:
        """The costs so far, as the peer's own files say them after a round.

        Returns:
            Plain JSON values, but that an epsilon may be infinite: so it is, too, where it is beyond computing.
        """
        mechanism = self.mechanism
        try:
            epsilon = self.epsilon()
        except ConfigurationError:  # in the thousands: no reason to end a run that has begun
            epsilon = math.inf
        said: dict[str, Any] = {
            "mode": "sample",
            "epsilon": epsilon,
            "delta": mechanism.delta,
            "steps": self.ledger.steps,
            "guarantee": mechanism.words,
            "sampling_rate": mechanism.sampling_rate,
            "noise_multiplier": mechanism.noise_multiplier,
            "head": mechanism.head,
        }
        if self.ledger.earlier:
            said |= {
                "earlier_steps": sum(charge.steps for run in self.ledger.earlier for charge in run.charges),
                "earlier_releases": sum(len(run.rounds) for run in self.ledger.earlier if not run.charges),
                "released_without_noise": self.ledger.released_without_noise,
            }
        return said
