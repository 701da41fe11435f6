"""Client-level privacy: the guarantee of a peer's whole data set, and the session of a peer that releases bodies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, Charge
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier
from dpeer.privacy.outlook import ADVICE, cost, fitting, noise_over_drift
from dpeer.privacy.soundness import check_delta, check_noise, check_probability


@dataclass(frozen=True)
class Guarantee:
    """A peer's whole data set, protected against neighbors by Gaussian noise on each clipped update that it releases.

    Attributes:
        noise_multiplier: sigma, the noise that protects over the clip norm.
        clip_norm: C, the largest L2 norm of an update.
        delta: The probability that epsilon does not hold.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    noise_multiplier: float
    clip_norm: float
    delta: float

    def __post_init__(self) -> None:
        check_noise(self.noise_multiplier, self.clip_norm)
        check_probability(self.delta)

    @property
    def noise_std(self) -> float:
        """The standard deviation s of the noise on each coordinate of a message: sigma C."""
        return self.noise_multiplier * self.clip_norm

    def charge(self, releases: int) -> Charge:
        """The charge of so many releases: replacing the data set by any other moves each of them by at most S = 2 C."""
        return Charge(1.0, self.noise_multiplier / 2.0, releases)

    def moves(self, rounds: int) -> int:
        """How often so many rounds move the body by up to C: with each release."""
        return rounds

    def mu(self, releases: int) -> float:
        """Mu of Gaussian differential privacy after so many releases."""
        charge = self.charge(releases)
        return math.sqrt(charge.steps) / charge.noise_multiplier

    def epsilon(self, releases: int, accountant: Accountant | None = None) -> float:
        """Epsilon at this guarantee's delta after so many releases.

        Raises:
            ConfigurationError: releases is negative, or the accountant cannot compute it.
        """
        return accounting.total_epsilon([self.charge(releases)], self.delta, accountant)

    def calibrated(self, epsilon: float, releases: int, accountant: Accountant | None = None) -> Guarantee:
        """The same guarantee with the least noise of ten digits that lets so many releases stay within epsilon.

        Raises:
            ConfigurationError: epsilon or releases is out of its range.
        """

        def charged(noise: float) -> list[Charge]:
            return [dataclasses.replace(self, noise_multiplier=noise).charge(releases)]

        noise = accounting.least_noise(charged, epsilon, self.delta, accountant, digits=10)
        return dataclasses.replace(self, noise_multiplier=noise)

    def noise_ratio(self, parameters: int) -> float:
        """The expected L2 norm of one message's noise over the clip norm: sigma sqrt(p) for p parameters."""
        if parameters < 1:
            raise ConfigurationError(f"parameters {parameters}: a body has at least 1")
        return self.noise_multiplier * math.sqrt(parameters)

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        return "one peer's whole data set, against a neighbor, replace-one"


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

    @property
    def may_release(self) -> bool:
        """Whether the budget allows one release more."""
        return self.budget is None or self.guarantee.epsilon(self.ledger.releases + 1) <= self.budget

    @property
    def rounds(self) -> int:
        """In how many of the planned rounds the budget allows a release."""
        return fitting(self.planned, self.guarantee.epsilon, self.budget)

    def noised(self, parameters: int) -> int:
        """How many of so many shared values get noise."""
        return self.sparsifier.count(parameters) if self.sparsifier.rule == "random" else parameters

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

    def notes(self, parameters: int) -> list[str]:
        """Notes on privacy before the peer starts.

        Args:
            parameters: The number of values that are shared.
        """
        m = self.guarantee
        releases = max(self.rounds, self.ledger.releases)
        lines = [
            f"privacy of {m.words}: {cost(m.epsilon(releases))} at delta {m.delta:g} after {releases} releases "
            f"(noise multiplier {m.noise_multiplier:.10g}, clip norm {m.clip_norm:g})"
        ]
        if releases < self.planned:
            lines.append(
                f"the budget of epsilon {self.budget:g} is used up after {releases} of {self.planned} releases: from "
                "then on the last one is sent again, and the head goes on training"
            )
        if warning := check_delta(m.delta, self.size):
            lines.append(warning)
        kept = self.noised(parameters)
        ratio = m.noise_ratio(kept)
        lines.append(f"the noise of a release is {ratio:,.4g} times as long as a clipped update ({kept:,} values)")
        if noise_over_drift(ratio, self.size, releases) > 1:
            lines.append(f"training cannot survive this noise: {ADVICE['client']}")
        return lines
