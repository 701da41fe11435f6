"""First epoch of a federation and graphs of later ones, by its settings; refuses settings that allow no change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from dpeer.exceptions import ConfigurationError, TopologyError
from dpeer.federation.addresses import check_member_address
from dpeer.federation.checks import check_hostile, check_outer
from dpeer.federation.config import RunConfig
from dpeer.federation.epoch_graph import built_graph, first_graph
from dpeer.federation.operators import check_operators
from dpeer.peer.core.epoch import Epoch, EpochSetup, first_epoch, genesis_of
from dpeer.peer.core.limits import MOST_MEMBERS
from dpeer.peer.core.schedule import Schedule
from dpeer.topology import (
    Graphs,
    Isolated,
    Neighborhood,
    Relabeled,
    TimeVaryingTopology,
    Topology,
    take_part,
)
from dpeer.training import Algorithm
from dpeer.training.algorithms.base import facts_of
from dpeer.training.schedules import ends_with_the_run


@dataclass
class FollowedGraphs:
    """One peer's part of the graph of each round, for what is built before the peer knows of later epochs.

    Attributes:
        start: The graph of the federation's start.
        rank: The peer; without neighbors there if it joins later.
        schedule: That of the running peer, which follows the epochs; None before.
    """

    start: Graphs
    rank: int
    schedule: Schedule | None = None

    def at(self, number: int) -> Neighborhood:
        """The graph of round `number`."""
        if self.schedule is not None:
            return self.schedule.at(number)
        place = Isolated(self.rank + 1) if self.rank >= self.start.size else self.start
        return place.at(number, self.rank)


def epoch_setup(
    config: RunConfig, graph: Topology | TimeVaryingTopology, fingerprint: Mapping[str, Any]
) -> EpochSetup | None:
    """How a federation follows its epochs; None where it cannot change.

    Args:
        config: The peer's.
        graph: The graph of the federation's start.
        fingerprint: What its peers compare.

    Raises:
        ConfigurationError: An operator's key is none, or a setting does not suit a federation that changes.
    """
    operators = check_operators(config.network)
    if not operators or facts_of(config.algorithm).shares == "nothing":
        return None
    check_changeable(config)
    first = first_epoch(
        genesis_of(fingerprint), size=config.graph.size, operators=operators, signers=config.network.signers,
        graph=first_graph(config.graph, graph), rounds=config.training.rounds,
    )  # fmt: skip
    listed = {rank for rank, own in config.network.rank.items() if own.key is not None and rank < config.graph.size}
    encrypted = config.network.encrypt or bool(listed)
    check_address = partial(check_member_address, encrypted=encrypted)
    return EpochSetup(first, _graphs_of(config, first, graph), check_address, keyed=encrypted)


def check_changeable(config: RunConfig) -> None:
    """Refuse settings whose promise holds for the graph and the members of the start alone.

    Raises:
        ConfigurationError: Names the setting, and what would be right.
    """
    how, privacy = config.training, config.privacy
    if config.graph.size > MOST_MEMBERS:
        raise ConfigurationError(f"operators: a federation that can change has at most {MOST_MEMBERS} members")
    wrong = None
    if how.participation_mode == "server":
        wrong = "--participation-mode server", "all peers take the mean of a sample of the first members"
    elif privacy.privacy != "none" and privacy.dp_adversary == "aggregate":
        wrong = "--dp-adversary aggregate", "its noise is for the averages of the first graph"
    elif privacy.privacy != "none" and how.participation < 1:
        wrong = (
            f"--participation {how.participation:g} with --privacy",
            ("its noise is for as many rounds of each peer as the first members have"),
        )
    if wrong is not None:
        raise ConfigurationError(
            f"{wrong[0]}: {wrong[1]}, and the operators may change it: leave it out, or start a federation without "
            "`operators`"
        )


def check_followed(config: RunConfig, epoch: Epoch) -> None:
    """Refuse an epoch with more rounds where training depends on how many were planned.

    Raises:
        ConfigurationError: Names what depends on it.
    """
    how = config.training
    if epoch.rounds == how.rounds:
        return
    fixed = None
    if ends_with_the_run(how.lr_schedule):
        fixed = f"--lr-schedule {how.lr_schedule} ends with round {how.rounds}"
    elif config.algorithm.plan is not Algorithm.plan:
        fixed = f"{how.algorithm} plans its training for {how.rounds} rounds"
    if fixed is not None:
        raise ConfigurationError(f"{fixed}: the federation cannot be extended to {epoch.rounds}")


def _graphs_of(config: RunConfig, first: Epoch, graph: Topology | TimeVaryingTopology) -> Callable[[Epoch], Graphs]:
    how = config.training

    @lru_cache(maxsize=4)
    def graphs_of(epoch: Epoch) -> Graphs:
        same = epoch.graph == first.graph and epoch.ranks == first.ranks
        try:
            listed = graph if same else built_graph(epoch.graph, epoch.ranks)
            if listed.digest != epoch.graph.edges:
                raise TopologyError(
                    f"its edges are {epoch.graph.edges}, and {listed.name} of {listed.size} peers has {listed.digest} "
                    "here: another version of dpeer draws it otherwise"
                )
            check_followed(config, epoch)
            check_hostile(how, config.privacy, listed)
            check_outer(how, listed)
            meeting = take_part(listed, how.participation, how.participation_mode, how.seed)
        except TopologyError:
            raise
        except ConfigurationError as error:
            raise TopologyError(str(error)) from error
        return meeting if epoch.ranks == first.ranks else Relabeled(meeting, epoch.ranks)

    return graphs_of
