"""The one place where topology, training and peer are wired together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from dpeer.cli.config import Settings
from dpeer.cli.graph import build_graph
from dpeer.topology import ChangingTopology, Graphs, Isolated, Topology, spectral_gap
from dpeer.training import (
    BUILTIN_TASKS,
    DEFAULT_PARTITION,
    Hyperparameters,
    Learner,
    Task,
    find_algorithm,
    load_task,
)


@dataclass(frozen=True)
class Assembly:
    """Everything one peer is made of, before it is connected to anything."""

    learner: Learner
    topology: Graphs
    fingerprint: dict[str, Any]
    facts: dict[str, Any]
    """What summary.json says about the run besides its results."""
    notes: list[str]
    """What the user is told when it starts."""


def assemble(settings: Settings, rank: int) -> Assembly:
    """Load the task and build the learner and the graph of one rank.

    Args:
        settings: As this rank uses them (`Settings.of_rank`).
        rank: Which peer.

    Raises:
        ConfigurationError: something in the settings cannot be done; nothing has been connected yet.
    """
    builtin = BUILTIN_TASKS.get(settings.task)
    if builtin is not None:  # its own defaults, where the user said nothing
        own = {name: value for name, value in builtin.hyperparameters.items() if name not in settings.model_fields_set}
        settings = settings.model_copy(update=own)
    graph = build_graph(settings)
    find_algorithm(settings.algorithm)  # a wrong name shows before data are read
    hyperparameters = Hyperparameters(
        **{field.name: getattr(settings, field.name) for field in fields(Hyperparameters)}
    )
    task = load_task(
        settings.task, rank, settings.size, settings.seed, settings.task_options, partition=settings.partition
    )
    learner = Learner(task, settings.algorithm, hyperparameters, rank=rank, seed=settings.seed, keep=settings.keep)
    facts = {
        "size": settings.size,
        "topology": settings.topology,
        "algorithm": settings.algorithm,
        "task": settings.task,
        "partition": (settings.partition or DEFAULT_PARTITION) if builtin else None,
        "rounds": settings.rounds,
        "seed": settings.seed,
        "spectral_gap": _spectral_gap(graph),
        "body_parameters": learner.body_parameters,
        "head_parameters": learner.head_parameters,
        "body_names": [entry["name"] for entry in learner.manifest["parameters"]],
        "training_samples": learner.num_samples,
        "settings": settings.model_dump(mode="json", exclude={"rank"}),
    }
    return Assembly(
        learner=learner,
        topology=graph if learner.shares else Isolated(settings.size),
        fingerprint=fingerprint(settings, graph),
        facts=facts,
        notes=_notes(task, learner, settings),
    )


@cache
def _spectral_gap(graph: Topology | ChangingTopology) -> float:
    """The graph's gap, computed once for all peers of a process."""
    return spectral_gap(graph)


def fingerprint(settings: Settings, graph: Topology | ChangingTopology) -> dict[str, Any]:
    """What must be equal on all peers, in the order in which differences are named (DESIGN section 4)."""
    return {
        "size": settings.size,
        "topology": settings.topology.partition(":")[0],  # a file may lie elsewhere on every host
        **{f"topology {name}": value for name, value in graph.parameters.items()},
        "weights": graph.weights_rule,
        "edges": graph.digest,
        "algorithm": settings.algorithm,
        "rounds": settings.rounds,
        "seed": settings.seed,
        **{
            name: getattr(settings, name)
            for name in ("body_lr", "head_lr", "lr_decay", "momentum", "weight_decay", "rho")
        },
        "wire_dtype": "float32",
        "privacy": "none",
        "clip_norm": None,
        "noise_multiplier": None,
    }


def _notes(task: Task, learner: Learner, settings: Settings) -> list[str]:
    """What the user should know about this peer before it starts."""
    names = ("body_lr", "head_lr", "lr_decay", "momentum", "rho", "body_epochs", "head_epochs", "batch_size")
    values = ", ".join(f"{name.replace('_', '-')} {getattr(settings, name):g}" for name in names)
    notes = [
        f"{settings.algorithm} on {settings.task}: {learner.num_samples} training samples, body of "
        f"{learner.body_parameters:,} parameters, head of {learner.head_parameters:,}",
        values,
    ]
    if not learner.shares:
        notes.append("nothing leaves this peer: it trains alone")
    elif task.head and not learner.head_parameters:
        notes.append(
            f"{settings.algorithm} shares the whole model: the task's head ({', '.join(task.head)}) leaves this peer"
        )
    return notes
