"""Privacy from settings: the configuration of a run, the session of one rank, and what first weights may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from dpeer import privacy
from dpeer.exceptions import ConfigurationError
from dpeer.federation.ledger_crosscheck import account
from dpeer.federation.settings import Settings
from dpeer.peer.checkpoint import completed
from dpeer.privacy import PeerData, PrivacyConfig, Session
from dpeer.privacy.settings import PrivacySettings
from dpeer.topology import Participation, TimeVaryingTopology, Topology
from dpeer.training import Task
from dpeer.training.privacy_mark import Origin

_UNPROTECTED = {
    Origin.CLIENT: "a run with --privacy client has saved it, which trains without noise and protects messages alone",
    Origin.POST: "a run with --privacy sample --dp-head post has saved it, which ends with training without noise",
}
"""By its origin, why records that were to be protected are in a file without noise."""


def privacy_config(settings: Settings, graph: Topology | TimeVaryingTopology, *, shares: bool = True) -> PrivacyConfig:
    """The configuration of privacy.

    Args:
        settings: As a rank uses them.
        graph: The graph.
        shares: Whether the algorithm shares anything.
    """
    private = settings.privacy != "none"
    averages = None
    if settings.dp_adversary == "aggregate" and isinstance(graph, Topology) and settings.participation == 1:
        averages = graph.weights.tolist()
    return PrivacyConfig(
        PrivacySettings(**{name: getattr(settings, name) for name in PrivacySettings.model_fields}),
        size=settings.size,
        rounds=planned_rounds(settings, graph) if private else 0,
        averages=averages,
        batch_size=settings.batch_size,
        checkpoint_every=settings.checkpoint_every,
        algorithm=settings.algorithm,
        task=settings.task,
        finish=settings.finish,
        standardize=bool(settings.standardize),
        shares=shares,
    )


def open_session(
    config: PrivacyConfig,
    task: Task,
    settings: Settings,
    graph: Topology | TimeVaryingTopology,
    folder: Path,
    *,
    digest: str | None,
    resume: bool,
    new_data: bool,
    receivers: Callable[[int], Sequence[int]],
) -> Session:
    """Open the privacy session of one rank.

    Args:
        config: What `privacy_config` gave.
        task: The rank's.
        settings: As this rank uses them.
        graph: The graph.
        folder: The rank's privacy folder.
        digest: SHA-256 (hex) of its data; None where unknown.
        resume: Whether the run in the folder is continued.
        new_data: Whether its data are others than those of earlier runs in the folder.
        receivers: The ranks that a round's release may be sent to.
    """
    account(folder, resume=resume)
    data = PeerData(
        digest, new=new_data, records=len(task.train), groups=task.groups, own=task.division is None, found=task.found
    )
    left = None
    if settings.privacy == "sample":
        left = planned_rounds(settings, graph, completed(folder.parent) if resume else 0)
    return privacy.open(config, folder, data, resume=resume, left=left, receivers=receivers)


def planned_rounds(settings: Settings, graph: Topology | TimeVaryingTopology, first: int = 0) -> int:
    """The most rounds in which one peer takes part, from round `first` on."""
    if settings.participation == 1:
        return max(0, settings.rounds - first)
    return _most_active(Participation(graph, settings.participation, settings.seed), settings.rounds, first)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The same, counted once for all peers of a process."""
    return max(sum(graphs.at(number, rank).active for number in range(first, rounds)) for rank in range(graphs.size))


def check_first_weights(task: Task, settings: Settings) -> None:
    """Refuse, in a private run, first weights (``--init-from``) from records that a private run was to protect.

    Their effect on the weights is in no ledger.

    Args:
        task: The peer's, with what its model has from the file.
        settings: As this rank uses them.

    Raises:
        ConfigurationError: They are such.
    """
    origin = None if task.initial is None else task.initial.origin
    if settings.privacy == "none" or origin not in _UNPROTECTED:
        return
    raise ConfigurationError(
        f"--init-from {settings.init_from}: {_UNPROTECTED[origin]}: with --privacy {settings.privacy} its records "
        "would come back unprotected, since all peers need this file and begin from it: take a model of public data, "
        "or of a run with --privacy sample and --dp-head joint, alternate or frozen"
    )


def first_weights_notes(task: Task, settings: Settings) -> list[str]:
    """A note at the start of a private run on first weights of a run without privacy."""
    if settings.privacy == "none" or task.initial is None or task.initial.origin is not Origin.NONE:
        return []
    return [
        f"--init-from {settings.init_from}: a run without --privacy has trained these weights: the records that it "
        "used are not protected by this run, so they must be public"
    ]
