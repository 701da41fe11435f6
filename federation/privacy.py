"""Wiring of privacy: `PrivacyConfig` from a `RunConfig`, and the rounds in which one peer takes part."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from dpeer.federation.config import RunConfig
from dpeer.privacy import PrivacyConfig
from dpeer.topology import Participation, Topology
from dpeer.training.settings import TrainingPart


def privacy_config(config: RunConfig, graph: Topology) -> PrivacyConfig:
    """The part of a run's configuration on which its privacy depends."""
    asked, how = config.privacy, config.training
    return PrivacyConfig(
        asked,
        size=config.graph.size,
        rounds=planned_rounds(how, graph) if asked.privacy != "none" else 0,
        batch_size=how.batch_size,
        checkpoint_every=config.run.checkpoint_every,
        algorithm=how.algorithm,
        task=config.data.task,
        finish=how.finish,
        standardize=bool(config.data.standardize),
        shares=config.facts.shares != "nothing",
    )


def planned_rounds(training: TrainingPart, graph: Topology, first: int = 0) -> int:
    """The most rounds in which one peer takes part, from round `first` on."""
    if training.participation == 1:
        return max(0, training.rounds - first)
    return _most_active(Participation(graph, training.participation, training.seed), training.rounds, first)


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The same, counted once for all peers of a process."""
    counts = Counter(rank for number in range(first, rounds) for rank in graphs.participants(number))
    return max(counts.values(), default=0)
