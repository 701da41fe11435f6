"""What a user is told about privacy before a peer starts."""

from __future__ import annotations

import numpy as np

from dpeer.federation.protection import planned_releases
from dpeer.federation.settings import Settings
from dpeer.privacy import Protection
from dpeer.privacy.guarantee import check_delta
from dpeer.privacy.planning import ADVICE, drowning, noise_ratio
from dpeer.results.costs import cost
from dpeer.topology import TimeVaryingTopology, Topology


def privacy_notes(
    protection: Protection, settings: Settings, graph: Topology | TimeVaryingTopology, parameters: int
) -> list[str]:
    """Notes to the user at the start.

    Args:
        protection: The peer's.
        settings: All values.
        graph: The graph.
        parameters: The number of parameters of the body.
    """
    guarantee, planned = protection.guarantee, planned_releases(settings, graph)
    fitting = max(protection.fitting(planned), protection.ledger.releases)
    lines = [
        f"privacy of {guarantee.words}: {cost(protection.promised(fitting))} at delta {guarantee.delta:g} after "
        f"{fitting} releases (noise multiplier {guarantee.noise_multiplier:.10g}, clip norm {guarantee.clip_norm:g})"
    ]
    if guarantee.adversary == "aggregate":
        lines.append(
            "the first number holds only against an outsider that sees nothing but averages; every neighbor sees each "
            "message by itself, and the second number holds against it"
        )
        if isinstance(graph, Topology) and not np.allclose(graph.weights, graph.weights[0]):
            lines.append(
                "the averages of different peers differ on this graph: whoever sees several of them in a round learns "
                "more than the first number says, at worst as much as a neighbor; --topology full --weights uniform "
                "has one average for all"
            )
    if protection.ledger.earlier:
        lines.append(_earlier(protection, fitting))
    if protection.ledger.not_new:
        lines.append(
            "WARNING: --new-data, but earlier runs in this folder have released these very data (their SHA-256 is the "
            "same): what they have cost is not counted, and what is promised here is too little"
        )
    if fitting < planned:
        lines.append(
            f"the budget of epsilon {protection.budget:g} is used up after {fitting} of {planned} releases: from then "
            "on the last one is sent again, and the head goes on training"
        )
    if warning := check_delta(guarantee.delta, settings.size):
        lines.append(warning)
    kept = protection.sparsifier.count(parameters) if protection.sparsifier.rule == "random" else parameters
    ratio = noise_ratio(guarantee, kept)
    lines.append(f"the noise of a release is {ratio:,.4g} times as long as a clipped update ({kept:,} values)")
    if drowning(ratio, settings.size, fitting) > 1:
        lines.append(f"training cannot survive this noise: {ADVICE}")
    return lines


def _earlier(protection: Protection, fitting: int) -> str:
    """A note on what earlier runs in the same folder have spent."""
    runs = protection.ledger.earlier
    if not all(run.protects for run in runs):
        return (
            "WARNING: earlier runs in this folder have released bodies without noise that protects, so nothing is "
            "promised about their data; if this run's data are others, start it with --overwrite --new-data"
        )
    made, alone = sum(len(run.rounds) for run in runs), protection.guarantee.epsilon(fitting)
    return (
        f"earlier runs in this folder made {made} releases, which are counted in (this run alone: epsilon {alone:.4g});"
        " if this run's data are others, start it with --overwrite --new-data"
    )
