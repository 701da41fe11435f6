"""Making a peer's privacy from settings; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpeer.exceptions import BudgetTooSmall, CheckpointError, ConfigurationError
from dpeer.federation.folders import sent_unrecorded
from dpeer.federation.settings import Settings, default_of
from dpeer.privacy import Guarantee, Ledger, Protection, Sparsifier
from dpeer.privacy.guarantee import check_delta, default_delta
from dpeer.privacy.history import note_plain, releases_in
from dpeer.privacy.planning import ADVICE, calibrated, drowning, noise_ratio
from dpeer.privacy.settings import PrivacySettings
from dpeer.privacy.soundness import check_adversary, check_budget, check_strength, worst_share
from dpeer.results.costs import cost
from dpeer.topology import ChangingTopology, Participation, Topology


def promise(settings: Settings, graph: Topology | ChangingTopology) -> Guarantee | None:
    """The guarantee of a run with these settings, equal on all peers; None without privacy.

    Raises:
        ConfigurationError: The settings do not say enough, or ask for what is not sound.
        BudgetTooSmall: The budget allows no release.
    """
    if settings.privacy == "none":
        for name in PrivacySettings.model_fields:
            if getattr(settings, name) != default_of(name):
                raise ConfigurationError(f"{_said(name, settings)} protects nothing without --privacy client: add it")
        return None
    check_strength(settings.noise_multiplier, settings.target_epsilon)
    check_adversary(settings.dp_adversary, settings.dp_min_honest, Sparsifier.parse(settings.sparsify))
    delta = settings.delta if settings.delta is not None else default_delta(settings.size)
    check_delta(delta, settings.size)
    base = Guarantee(
        settings.noise_multiplier or 1.0,
        settings.clip_norm,
        delta,
        settings.dp_adversary,
        settings.dp_adjacency,
        1.0 if settings.dp_adversary == "neighbor" else _share(settings, graph),
    )
    if settings.noise_multiplier is None:
        assert settings.target_epsilon is not None
        return calibrated(base, settings.target_epsilon, planned_releases(settings, graph))
    check_budget(base, settings.target_epsilon)
    return base


def protect(
    settings: Settings,
    guarantee: Guarantee | None,
    folder: Path,
    *,
    resume: bool,
    data: str | None = None,
    new_data: bool = False,
    receivers: Callable[[int], Sequence[int]] = lambda number: (),
) -> Protection | None:
    """Make the privacy of one peer, with its ledger in this folder.

    Args:
        settings: As this rank uses them.
        guarantee: What `promise` gave.
        folder: The rank's privacy folder.
        resume: Whether the run in the folder is continued.
        data: SHA-256 (hex) of the peer's data; None where nobody knows.
        new_data: Whether the data are others than those of earlier runs in the folder.
        receivers: The ranks that a round's release may be sent to.

    Raises:
        CheckpointError: The ledger to go on with is damaged, or of another mechanism, or has no privacy to go on with.
        BudgetTooSmall: Earlier runs in the folder have used up the budget.
    """
    if sent_unrecorded(folder.parent):
        note_plain(folder)  # now, for the metrics that tell of it will be gone
    if guarantee is None:
        if resume and (made := releases_in(folder.parent)):
            raise CheckpointError(
                f"the run in {str(folder.parent)!r} has made {made} private releases: go on with its --privacy client, "
                "or start over with --overwrite"
            )
        return None
    ledger = Ledger(folder, asdict(guarantee), resume=resume, data=data, new_data=new_data)
    sparsifier = Sparsifier.parse(settings.sparsify)
    protection = Protection(guarantee, ledger, settings.target_epsilon, sparsifier, receivers)
    if protection.ledger.releases == 0 and protection.ledger.earlier and not protection.may_release:
        raise BudgetTooSmall(_used_up(protection, folder.parent))
    return protection


def _used_up(protection: Protection, folder: Path) -> str:
    before, first = protection.epsilon(0), protection.epsilon(1)
    budget, place = f"--target-epsilon {protection.budget:g}", f"earlier runs in {str(folder)!r}"
    if math.isinf(before):
        return (
            f"{budget} cannot be kept: {place} have released bodies without noise that protects; if the data are "
            "others now, say --new-data"
        )
    return (
        f"{budget} allows not even one release: {place} have spent epsilon {before:.4g}, one more would make it "
        f"{first:.4g}; if the data are others now, say --new-data; else give a larger --target-epsilon or more noise "
        "on all peers alike"
    )


def privacy_notes(
    protection: Protection, settings: Settings, graph: Topology | ChangingTopology, parameters: int
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


def planned_releases(settings: Settings, graph: Topology | ChangingTopology) -> int:
    """The most rounds in which one peer takes part."""
    if settings.participation == 1:
        return settings.rounds
    return _most_active(Participation(graph, settings.participation, settings.seed), settings.rounds)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int) -> int:
    """The same, counted once for all peers of a process."""
    return max(sum(graphs.at(number, rank).active for number in range(rounds)) for rank in range(graphs.size))


def _share(settings: Settings, graph: Topology | ChangingTopology) -> float:
    """The share of the peer that is hidden worst in any peer's average."""
    if not isinstance(graph, Topology) or settings.participation < 1:
        raise ConfigurationError(
            "--dp-adversary aggregate needs the same average in every round: use a fixed --topology and "
            "--participation 1, or --dp-adversary neighbor"
        )
    assert settings.dp_min_honest is not None
    return worst_share(graph.weights.tolist(), settings.dp_min_honest)


def _said(name: str, settings: Settings) -> str:
    return f"--{name.replace('_', '-')} {getattr(settings, name)}"
