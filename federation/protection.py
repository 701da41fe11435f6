"""Making a peer's privacy from settings; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from dpeer.exceptions import BudgetTooSmall, CheckpointError, ConfigurationError
from dpeer.federation.ledger_crosscheck import check_ledger, sent_unrecorded
from dpeer.federation.settings import Settings, default_of
from dpeer.privacy import Guarantee, Ledger, Protection, Sparsifier
from dpeer.privacy.guarantee import check_delta, default_delta
from dpeer.privacy.history import note_plain, releases_in, steps_in
from dpeer.privacy.planning import calibrated
from dpeer.privacy.settings import PrivacySettings
from dpeer.privacy.soundness import (
    check_adversary,
    check_budget,
    check_level,
    check_strength,
    check_unseen,
    worst_share,
)  # fmt: skip
from dpeer.topology import Participation, TimeVaryingTopology, Topology


def promise(settings: Settings, graph: Topology | TimeVaryingTopology) -> Guarantee | None:
    """The guarantee of a run with these settings, equal on all peers; None without privacy at client level.

    Raises:
        ConfigurationError: The settings do not say enough, or ask for what is not sound.
        BudgetTooSmall: The budget allows no release.
    """
    changed = [name for name in PrivacySettings.model_fields if getattr(settings, name) != default_of(name)]
    check_level(settings.privacy, {name: getattr(settings, name) for name in changed})
    if settings.privacy == "none":
        return None
    if settings.privacy == "sample":
        check_strength(settings.noise_multiplier, settings.target_epsilon, "sample")
        check_unseen(settings.dp_head, settings.finish, standardize=bool(settings.standardize))
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
    account(folder, resume=resume)
    if guarantee is None:
        if resume and (steps := steps_in(folder.parent)):
            raise CheckpointError(
                f"the run in {str(folder.parent)!r} has charged {steps} private steps: go on with its --privacy "
                "sample, or start over with --overwrite"
            )
        if resume and (made := releases_in(folder.parent)):
            raise CheckpointError(
                f"the run in {str(folder.parent)!r} has made {made} private releases: go on with its --privacy client, "
                "or start over with --overwrite"
            )
        return None
    # Between two checkpoints, and one that is made while the checkpoint after it is written.
    keep = settings.checkpoint_every + 1
    ledger = Ledger(folder, asdict(guarantee), resume=resume, data=data, new_data=new_data, keep=keep)
    sparsifier = Sparsifier.parse(settings.sparsify)
    protection = Protection(guarantee, ledger, settings.target_epsilon, sparsifier, receivers)
    if protection.ledger.releases == 0 and protection.ledger.earlier and not protection.may_release:
        raise BudgetTooSmall(_used_up(protection, folder.parent))
    return protection


def account(folder: Path, *, resume: bool) -> None:
    """See that the ledger of a rank's privacy folder says all that has left the rank, before anything else does.

    Args:
        folder: The folder.
        resume: Whether the run in it is continued.

    Raises:
        CheckpointError: The ledger to go on with has lost something.
    """
    if resume:
        check_ledger(folder.parent)
    if sent_unrecorded(folder.parent):
        note_plain(folder)  # now, for the metrics that tell of it will be gone


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


def planned_releases(settings: Settings, graph: Topology | TimeVaryingTopology, first: int = 0) -> int:
    """The most rounds in which one peer takes part, from round `first` on."""
    if settings.participation == 1:
        return max(0, settings.rounds - first)
    return _most_active(Participation(graph, settings.participation, settings.seed), settings.rounds, first)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The same, counted once for all peers of a process."""
    return max(sum(graphs.at(number, rank).active for number in range(first, rounds)) for rank in range(graphs.size))


def _share(settings: Settings, graph: Topology | TimeVaryingTopology) -> float:
    """The share of the peer that is hidden worst in any peer's average."""
    if not isinstance(graph, Topology) or settings.participation < 1:
        raise ConfigurationError(
            "--dp-adversary aggregate needs the same average in every round: use a fixed --topology and "
            "--participation 1, or --dp-adversary neighbor"
        )
    assert settings.dp_min_honest is not None
    return worst_share(graph.weights.tolist(), settings.dp_min_honest)
