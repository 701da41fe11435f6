"""Checks across settings: robust mixing, sampled participation, first weights of private runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from dpeer.exceptions import AlgorithmError, ConfigurationError
from dpeer.federation.config import RunConfig
from dpeer.federation.run_settings import RunPart
from dpeer.plugins import check_source
from dpeer.topology import Row, Topology
from dpeer.training import Task
from dpeer.training.algorithms.dis_pfl import DisPFL
from dpeer.training.algorithms.plugins import is_built_in
from dpeer.training.codecs import find_codec
from dpeer.training.mixing.robust_setting import Robust
from dpeer.training.schedules import ends_with_the_run
from dpeer.training.settings import TrainingPart
from dpeer.training.state.store import Origin


def check_settings(config: RunConfig) -> None:
    """Refuse settings that contradict each other, the graph or the promise of privacy; no data are read.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    data = config.data
    if data.schema is not None and data.standardize and config.privacy.privacy != "none":
        raise ConfigurationError(
            "--standardize: with --privacy the ranges of the schema scale numbers, and nothing of the data does: leave "
            "it out"
        )
    check_round_budget(config.run, config.privacy.privacy)
    check_stated(config.privacy.rounds_released, config.training.rounds)
    check_quorum(config.network.quorum, config.graph.size)
    # What follows from settings that cannot be met is refused where it is computed.
    _ = config.meeting, config.protected.guarantee
    check_exchange(config, config.topology)


def check_exchange(config: RunConfig, graph: Topology) -> None:
    """Refuse ways to send and mix bodies that contradict each other, the graph or the promise of privacy.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    how, facts = config.training, config.facts
    if how.participation_mode == "server":
        check_server(how)
    if facts.shares == "nothing":
        return
    check_hostile(how, graph)
    if how.participation_mode == "server" and issubclass(config.algorithm, DisPFL):
        raise ConfigurationError(
            f"--participation-mode server: {facts.name} mixes in a way of its own, which needs what each receiver "
            "itself has sent in the round: use --participation-mode peers, or another --algorithm"
        )


def check_list(config: RunConfig, graph: Topology, rounds: int) -> None:
    """Refuse a member list whose graph, or number of rounds, does not go with how the run trains.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    how = config.training
    check_exchange(config, graph)
    if rounds == how.rounds:
        return
    if ends_with_the_run(how.lr_schedule):
        raise ConfigurationError(
            f"--rounds {rounds}: --lr-schedule {how.lr_schedule} ends with round {how.rounds}, so this run cannot be "
            "extended: begin another one with --init-from"
        )
    if issubclass(config.algorithm, DisPFL):
        raise ConfigurationError(
            f"--rounds {rounds}: {how.algorithm} plans its training for {how.rounds} rounds, so this run cannot be "
            "extended: begin another one with --init-from"
        )


def check_quorum(quorum: str | int, size: int) -> None:
    """Refuse a number of ranks that is no quorum.

    Raises:
        ConfigurationError: Two groups of so many ranks can be apart, or the federation has fewer ranks.
    """
    if isinstance(quorum, int) and not size // 2 < quorum <= size:
        raise ConfigurationError(
            f"--quorum {quorum}: expected {size // 2 + 1} to {size} of {size} ranks; two groups of at most half the "
            "ranks could both go on, each without the other"
        )


def check_hostile(training: TrainingPart, graph: Topology) -> None:
    """Refuse a robust rule that the graph does not suit; alike on all peers.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    if training.robust == "none":
        return
    flag = f"--robust {training.robust}"
    if graph.directed:
        raise ConfigurationError(
            f"{flag} with {graph.name}: peers there hear others than hear them, and what the rule withstands is known "
            "where neighbors hear each other, as in ring, exponential and full"
        )
    reason = _unsuited(graph, Robust.parse(training.robust))
    if reason is not None:
        raise ConfigurationError(f"{flag} with {graph.name}: {reason}")


@lru_cache(maxsize=4)  # all peers of a process ask
def _unsuited(graph: Topology, robust: Robust) -> str | None:
    """Why some peer would be at the mercy of a single neighbor, or would never hear one; None if none is.

    Of a graph that changes the first rounds are looked at.
    """
    numbers = range(graph.period)
    rows = (graph.at(number, rank).row for number in numbers for rank in range(graph.size))
    return next((reason for row in rows if (reason := _lacks(row, robust)) is not None), None)


def _lacks(row: Row, robust: Robust) -> str | None:
    neighbors = len(row) - 1
    has = f"rank {row.rank} has {neighbors} neighbor{'s' if neighbors != 1 else ''}"
    if robust.rule == "trimmed-mean" and neighbors < 2 * robust.trim:
        most = neighbors // 2
        right = f"give trimmed-mean:{most}" if most else "use clip:TAU"
        return f"{has}, of whom it withstands {most} at most: {right}, or a graph with {2 * robust.trim} neighbors each"
    if robust.rule == "clip" and robust.radius is None and neighbors < 2:
        return f"{has}, and the radius follows from two or more: give clip:TAU, or a graph with more neighbors"
    if robust.rule == "median":
        rank, weight = max(row.items(), key=lambda entry: entry[1])
        if weight >= 0.5 - 1e-9:
            whose = "its own body" if rank == row.rank else f"that of rank {rank}"
            return (
                f"rank {row.rank} gives {whose} the weight {weight:.3g}, and a median needs less than 0.5 for each: "
                "use clip, or a graph on which all have two neighbors or more and equally many"
            )
    return None


_AS_FLOATS = ("float32", "bfloat16", "float16")


def check_server(training: TrainingPart) -> None:
    """Refuse ways to mix that compare a received body with the one that the receiver itself has sent.

    Raises:
        ConfigurationError: Names the setting.
    """
    robust = f"--robust {training.robust}" if training.robust != "none" else None
    furthest = f"--max-norm {training.max_norm}" if training.max_norm is not None else None
    compressed = f"--compress {training.compress}" if training.compress not in _AS_FLOATS else None
    for flag in filter(None, (robust, furthest, compressed)):
        raise ConfigurationError(
            f"--participation-mode server with {flag}: it needs what the receiver itself has sent in the round, and "
            "most send nothing: leave one of the two out"
        )


def check_round_budget(run: RunPart, privacy: str) -> None:
    """Refuse a budget of a round's time where privacy does not allow it.

    At client level noise covers a whole update, however many steps it is made of. At sample level it covers each step
    alone, and the steps of a round are public.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    seconds = run.round_seconds
    if privacy == "sample" and seconds is not None:
        asked = f"{seconds:g}" if isinstance(seconds, float) else seconds
        raise ConfigurationError(
            f"--round-seconds {asked} with --privacy sample: how many steps fit into a time depends on the records "
            "that were drawn, and no epsilon covers that: give --local-steps, as few as this peer has the time for"
        )


def check_stated(released: int, rounds: int) -> None:
    """Refuse to charge more rounds than a run has.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    if released > rounds:
        raise ConfigurationError(f"--rounds-released {released}: expected at most {rounds}, the rounds of this run")


_WAYS = {
    Origin.CLIENT: "a run with --privacy client has saved it, which trains without noise and protects messages alone",
    Origin.POST: "a run with --privacy sample --dp-head post has saved it, which ends with training without noise",
}
"""How records that a run had to protect came into a file without noise."""


def check_first_weights(task: Task, file: Path | None, privacy: str) -> None:
    """Refuse, in a private run, first weights that records came into which a private run was to protect.

    Args:
        task: The peer's, with what its model has from the file.
        file: The file of the first weights.
        privacy: The level of privacy.

    Raises:
        ConfigurationError: They are such.
    """
    origin = None if task.initial is None else task.initial.origin
    if privacy == "none" or origin not in _WAYS:
        return
    raise ConfigurationError(
        f"--init-from {file}: {_WAYS[origin]}: with --privacy {privacy} its records would come "
        "back unprotected, since all peers need this file and begin from it: take a model of public data, or of a run "
        "with --privacy sample and --dp-head joint or alternate, or post with --finish none"
    )


def first_weights_notes(task: Task, file: Path | None, privacy: str) -> list[str]:
    """Notes at the start of a private run on first weights of a run without privacy."""
    if privacy == "none" or task.initial is None or task.initial.origin is not Origin.NONE:
        return []
    return [
        f"--init-from {file}: a run without --privacy has trained these weights: the records that it "
        "used are not protected by this run, so they must be public"
    ]


def check_plugins(config: RunConfig) -> None:
    """Refuse an algorithm or a codec of a user's own whose source cannot be read, which peers compare.

    Raises:
        AlgorithmError: It is the algorithm's.
        ConfigurationError: It is the codec's.
    """
    if not is_built_in(config.algorithm):
        check_source(f"algorithm {config.algorithm.name}", config.algorithm, AlgorithmError)
    if (codec := find_codec(config.training.compress)) is not None:
        check_source(f"codec {codec.__name__}", codec, ConfigurationError)
