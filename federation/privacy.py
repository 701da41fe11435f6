"""Wiring of privacy: builds `PrivacyConfig` and opens a peer's privacy session from its `RunConfig`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from dpeer import privacy
from dpeer.federation.config import RunConfig
from dpeer.federation.ledger_crosscheck import account
from dpeer.peer.checkpoint import completed
from dpeer.privacy import PeerData, PrivacyConfig, Session
from dpeer.topology import Participation, TimeVaryingTopology, Topology
from dpeer.training import Task
from dpeer.training.algorithms.facts import facts_of
from dpeer.training.settings import TrainingPart


def privacy_config(config: RunConfig, graph: Topology | TimeVaryingTopology) -> PrivacyConfig:
    """The part of a run's configuration on which its privacy depends."""
    asked, how = config.privacy, config.training
    averages = None
    if asked.dp_adversary == "aggregate" and isinstance(graph, Topology) and how.participation == 1:
        averages = graph.weights.tolist()
    return PrivacyConfig(
        asked,
        size=config.graph.size,
        rounds=planned_rounds(how, graph) if asked.privacy != "none" else 0,
        averages=averages,
        batch_size=how.batch_size,
        checkpoint_every=config.run.checkpoint_every,
        algorithm=how.algorithm,
        task=config.data.task,
        finish=how.finish,
        standardize=bool(config.data.standardize),
        shares=facts_of(config.algorithm).shares != "nothing",
    )


def open_session(
    config: RunConfig,
    private: PrivacyConfig,
    task: Task,
    graph: Topology | TimeVaryingTopology,
    folder: Path,
    *,
    digest: str | None,
    resume: bool,
    new_data: bool,
    receivers: Callable[[int], Sequence[int]],
) -> Session:
    """Open the privacy session of one peer.

    Args:
        config: Of the peer.
        private: Its `privacy_config`.
        task: The peer's.
        graph: The graph.
        folder: The peer's privacy folder.
        digest: SHA-256 (hex) of its data; None where unknown.
        resume: Whether the run in the folder is continued.
        new_data: Whether its data differ from those of earlier runs in the folder.
        receivers: The ranks that a round's release may be sent to.
    """
    account(folder, resume=resume)
    data = PeerData(
        digest, new=new_data, records=len(task.train), groups=task.groups, own=task.division is None, found=task.found
    )
    left = None
    if config.privacy.privacy == "sample":
        left = planned_rounds(config.training, graph, completed(folder.parent) if resume else 0)
    return privacy.open(private, folder, data, resume=resume, left=left, receivers=receivers)


def planned_rounds(training: TrainingPart, graph: Topology | TimeVaryingTopology, first: int = 0) -> int:
    """The most rounds in which one peer takes part, from round `first` on."""
    if training.participation == 1:
        return max(0, training.rounds - first)
    return _most_active(Participation(graph, training.participation, training.seed), training.rounds, first)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The same, counted once for all peers of a process."""
    return max(sum(graphs.at(number, rank).active for number in range(first, rounds)) for rank in range(graphs.size))
