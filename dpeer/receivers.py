"""Receivers of a peer's next release, as the round loop knows them before the round is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Receivers:
    """Who receives the next release.

    Attributes:
        column: The weights with which they mix it, by rank.
        away: Those that are away, or sit the round out.
        confirmed: By rank, the last round whose release it has named as part of its mix.
        adopting: Those that sit the round out and are heard, so that they may adopt the release.
    """

    column: Mapping[int, float]
    away: Collection[int] = ()
    confirmed: Mapping[int, int] = field(default_factory=dict)
    adopting: Collection[int] = ()
