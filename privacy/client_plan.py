"""A planned run at client level: what is known of it, and what follows, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import planning
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.guarantee import Adjacency, Adversary, Guarantee, uniform_share
from dpeer.privacy.plan import Plan
from dpeer.privacy.planning import finite
from dpeer.privacy.soundness import check_adversary


@dataclass(frozen=True)
class ClientPlan(Plan):
    """What is known of a run that protects each peer's whole data set; None is what is not known.

    Attributes:
        dp_adversary: Against whom.
        dp_adjacency: What a peer's data set cannot be told from.
        dp_min_honest: Honest peers in every average that an outsider sees.
        accountant: What computes epsilon.
    """

    dp_adversary: Adversary = "neighbor"
    dp_adjacency: Adjacency = "replace"
    dp_min_honest: int | None = None
    accountant: Accountant = "exact"

    @property
    def units(self) -> int | None:
        """See `Plan.units`: peers."""
        return self.size

    @property
    def unit(self) -> str:
        """See `Plan.unit`."""
        return "peer"

    @property
    def releases(self) -> int:
        """The number of planned releases: one in each round."""
        return self.planned

    def guarantee(self) -> Guarantee:
        """The guarantee with the noise multiplier that was given, else with the least noise for the target epsilon.

        Raises:
            ConfigurationError: The values contradict each other.
        """
        share = self._share()
        multiplier = 1.0 if self.noise_multiplier is None else self.noise_multiplier
        asked = Guarantee(multiplier, self.clip_norm, self.chosen_delta, self.dp_adversary, self.dp_adjacency, share)
        if self.noise_multiplier is not None:
            return asked
        assert self.target_epsilon is not None
        return planning.calibrated(asked, self.target_epsilon, self.releases, self.accountant)

    def both(self, guarantee: Guarantee, releases: int | None = None) -> dict[str, float | None]:
        """Both epsilons of aggregate mode, by their JSON keys; empty in the other mode, infinite ones None."""
        if guarantee.adversary == "neighbor":
            return {}
        many = self.releases if releases is None else releases
        return {
            "epsilon_neighbor": finite(planning.epsilon(guarantee, many, self.accountant, "neighbor")),
            "epsilon_aggregate": finite(planning.epsilon(guarantee, many, self.accountant, "aggregate")),
        }

    def described(self, guarantee: Guarantee, releases: int | None = None) -> dict[str, Any]:
        """What the guarantee promises after so many releases (by default all), in plain JSON values."""
        many = self.releases if releases is None else releases
        return {
            "epsilon": finite(planning.epsilon(guarantee, many, self.accountant)),
            "delta": guarantee.delta,
            "mode": "client",
            "adversary": guarantee.adversary,
            "adjacency": guarantee.adjacency,
            "noise_multiplier": guarantee.noise_multiplier,
            "rounds": many,
            "accountant": self.accountant,
            **self.both(guarantee, many),
        }

    def outlook(self, guarantee: Guarantee) -> dict[str, Any]:
        """How many releases the budget allows, and whether training can survive the noise, in plain JSON values."""
        assert self.size is not None
        assert self.parameters is not None
        fit, used = self._allowed(guarantee)
        ratio = planning.noise_ratio(guarantee, self.parameters)
        drowning = planning.drowning(ratio, self.size, used)
        return {
            **self.described(guarantee, used),
            "rounds": self.releases,
            "releases": used,
            "releases_that_fit": fit,
            "target_epsilon": self.target_epsilon,
            "size": self.size,
            "parameters": self.parameters,
            "clip_norm": self.clip_norm,
            "noise_std": guarantee.noise_std,
            "noise_norm_over_clip_norm": ratio,
            "noise_over_longest_way": drowning,
            "survives": drowning <= 1.0,
            "warnings": self.warnings(),
        }

    def _allowed(self, guarantee: Guarantee) -> tuple[int | None, int]:
        """The number of releases that fit into the budget, if there is one, and that of a run of these rounds."""
        if self.target_epsilon is None:
            return None, self.releases
        if self.noise_multiplier is None and self.accountant != "exact":
            return self.releases, self.releases  # the noise was made for them; each count takes a second
        fit = planning.releases(guarantee, self.target_epsilon, self.accountant)
        return fit, min(fit, self.releases)

    def _share(self) -> float:
        check_adversary(self.dp_adversary, self.dp_min_honest)
        if self.dp_min_honest is None:
            return 1.0
        if self.size is not None and self.dp_min_honest > self.size:
            raise ConfigurationError(
                f"--dp-min-honest {self.dp_min_honest}: there are {self.size} peers (--size): choose at most that"
            )
        return uniform_share(self.dp_min_honest)
