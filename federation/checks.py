"""Checks across settings: robust mixing, sampled participation, first weights of private runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from dpeer.exceptions import AlgorithmError, ConfigurationError
from dpeer.federation.config import RunConfig
from dpeer.plugins import check_source
from dpeer.topology import Row, Topology
from dpeer.training import Task
from dpeer.training.algorithms.dis_pfl import DisPFL
from dpeer.training.algorithms.plugins import is_built_in
from dpeer.training.codecs import find_codec
from dpeer.training.setting_texts import Robust, ends_with_the_run
from dpeer.training.settings import TrainingPart
from dpeer.training.state.store import Origin

Refused = Iterator[tuple[bool, str]]
"""Combinations: whether each is asked for, and why not then, with the setting, its value and what would be right."""


def check_settings(config: RunConfig) -> None:
    """Refuse settings that contradict each other, the graph or the promise of privacy; no data are read."""
    _check(_of_settings(config))
    # What follows from settings that cannot be met is refused where it is computed.
    _ = config.meeting, config.protected.guarantee
    check_exchange(config, config.topology)


def check_exchange(config: RunConfig, graph: Topology) -> None:
    """Refuse ways to send and mix bodies that contradict each other, the graph or the promise of privacy."""
    _check(_of_mixing(config))
    if config.algorithm.shares != "nothing":
        check_hostile(config.training, graph)


def check_list(config: RunConfig, graph: Topology, rounds: int) -> None:
    """Refuse a member list whose graph, or number of rounds, does not go with how the run trains."""
    check_exchange(config, graph)
    if rounds != config.training.rounds:
        _check(_of_rounds(config, rounds))


def _check(combinations: Refused) -> None:
    for asked, why in combinations:
        if asked:
            raise ConfigurationError(why)


def _of_settings(config: RunConfig) -> Refused:
    data, level, seconds = config.data, config.privacy.privacy, config.run.round_seconds
    quorum, size = config.network.quorum, config.graph.size
    released, rounds = config.privacy.rounds_released, config.training.rounds
    yield (
        data.schema is not None and bool(data.standardize) and level != "none",
        "--standardize: with --privacy the ranges of the schema scale numbers, and nothing of the data does: leave it "
        "out",
    )
    # At client level noise covers a whole update, however many steps it is made of. At sample level it covers each step
    # alone, and the steps of a round are public.
    yield (
        seconds is not None and level == "sample",
        f"--round-seconds {seconds} with --privacy sample: how many steps fit into a time depends on the records that "
        "were drawn, and no epsilon covers that: give --local-steps, as few as this peer has the time for",
    )
    if config.run.keep == "blend":
        yield (
            level != "none",
            f"--keep blend with --privacy {level}: its weight is read off data without noise: leave it out",
        )
        yield (
            config.algorithm.shares == "nothing",
            f"--keep blend with --algorithm {config.training.algorithm}: nothing is shared, so the federated and the "
            "local-only model are one: use --keep best",
        )
        yield (
            config.run.alone != "always",
            f"--keep blend with --alone {config.run.alone}: it needs the local-only model: give --alone always",
        )
    yield released > rounds, f"--rounds-released {released}: expected at most {rounds}, the rounds of this run"
    yield (
        isinstance(quorum, int) and not size // 2 < quorum <= size,
        f"--quorum {quorum}: expected {size // 2 + 1} to {size} of {size} ranks; two groups of at most half the ranks "
        "could both go on, each without the other",
    )


def _of_mixing(config: RunConfig) -> Refused:
    """Ways to mix that need what the receiver itself has sent, where a sample of the peers sends to all."""
    how = config.training
    server = how.participation_mode == "server"
    for given, flag in (
        (how.robust != "none", f"--robust {how.robust}"),
        (how.max_norm is not None, f"--max-norm {how.max_norm}"),
        (how.compress not in ("float32", "bfloat16", "float16"), f"--compress {how.compress}"),
    ):
        yield (
            server and given,
            f"--participation-mode server with {flag}: it needs what the receiver itself has sent in the round, and "
            "most send nothing: leave one of the two out",
        )
    yield (
        server and issubclass(config.algorithm, DisPFL),
        f"--participation-mode server: {config.algorithm.name} mixes in a way of its own, which needs what each "
        "receiver itself has sent in the round: use --participation-mode peers, or another --algorithm",
    )


def _of_rounds(config: RunConfig, rounds: int) -> Refused:
    how = config.training
    then = "so this run cannot be extended: begin another one with --init-from"
    yield (
        ends_with_the_run(how.lr_schedule),
        f"--rounds {rounds}: --lr-schedule {how.lr_schedule} ends with round {how.rounds}, {then}",
    )
    yield (
        issubclass(config.algorithm, DisPFL),
        f"--rounds {rounds}: {how.algorithm} plans its training for {how.rounds} rounds, {then}",
    )


def check_hostile(training: TrainingPart, graph: Topology) -> None:
    """Refuse a robust rule that the graph does not suit; alike on all peers."""
    if training.robust == "none":
        return
    flag = f"--robust {training.robust}"
    if graph.directed:
        raise ConfigurationError(
            f"{flag} with {graph.name}: peers there hear others than hear them, and what the rule withstands is known "
            "where neighbors hear each other, as in ring, exponential and full"
        )
    if graph.declared:
        raise ConfigurationError(
            f"{flag} with weights declared: how many hostile neighbors the rule withstands is known where bodies "
            "count by the graph alone: leave one of the two out"
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


_WAYS = {
    Origin.CLIENT: "a run with --privacy client has saved it, which trains without noise and protects messages alone",
    Origin.POST: "a run with --privacy sample --dp-head post has saved it, which ends with training without noise",
}
"""How records that a run had to protect came into a file without noise."""


def check_first_weights(task: Task, file: Path | None, privacy: str) -> None:
    """Refuse, in a private run, first weights that records came into which a private run was to protect."""
    origin = None if task.initial is None else task.initial.origin
    if privacy == "none" or origin not in _WAYS:
        return
    raise ConfigurationError(
        f"--init-from {file}: {_WAYS[origin]}: with --privacy {privacy} its records would come "
        "back unprotected, since all peers need this file and begin from it: take a model of public data, or of a run "
        "with --privacy sample and --dp-head joint or alternate, or post with --finish none"
    )


def check_plugins(config: RunConfig) -> None:
    """Refuse an algorithm or a codec of a user's own whose source cannot be read, which peers compare."""
    if not is_built_in(config.algorithm):
        check_source(f"algorithm {config.algorithm.name}", config.algorithm, AlgorithmError)
    if (codec := find_codec(config.training.compress)) is not None:
        check_source(f"codec {codec.__name__}", codec, ConfigurationError)
