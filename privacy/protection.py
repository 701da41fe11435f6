"""One peer's privacy while it runs: what it has promised, spent, and may still do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpeer.privacy.guarantee import Guarantee
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped
from dpeer.privacy.sparsify import Sparsifier


@dataclass(frozen=True)
class Protection:
    """What protects a peer's data set.

    Attributes:
        guarantee: Mechanism, adversary and adjacency.
        ledger: What has been released.
        budget: The epsilon that is never exceeded; None without a limit.
        sparsifier: What of an update is kept.
    """

    guarantee: Guarantee
    ledger: Ledger
    budget: float | None = None
    sparsifier: Sparsifier = field(default_factory=Sparsifier)

    @property
    def may_release(self) -> bool:
        """Whether the budget allows one release more."""
        return self.budget is None or self.ledger.releases < self.guarantee.releases(self.budget)

    def spent(self, met: Clipped | None) -> dict[str, Any]:
        """What the peer's own files say after a round.

        Args:
            met: What clipping met in that round; None where nothing was released anew.

        Returns:
            Plain JSON values: epsilon and delta so far, for the chosen adversary and (in aggregate mode) for both.
        """
        releases, guarantee = self.ledger.releases, self.guarantee
        said: dict[str, Any] = {
            "epsilon": guarantee.epsilon(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
        }
        if guarantee.adversary == "aggregate":
            said |= {
                "epsilon_neighbor": guarantee.epsilon(releases, "neighbor"),
                "epsilon_aggregate": guarantee.epsilon(releases, "aggregate"),
            }
        if met is not None:
            said |= {"update_norm": met.norm, "clipped": met.clipped, "not_finite": not met.finite}
        return said
