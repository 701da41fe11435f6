"""The one place where topology, training and peer are wired together."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import TensorDataset

from dpeer.exceptions import AlgorithmError, ConfigurationError, TaskError
from dpeer.federation.data_files import hashes, partition_of
from dpeer.federation.defaults import holds_out_if_enough, kept, with_choice, with_defaults
from dpeer.federation.fingerprint import divided, fingerprint, named, of_model, own_names
from dpeer.federation.graph import build_graph, take_part
from dpeer.federation.local_baseline import AloneBeside, alone_beside, copy_apart
from dpeer.federation.notes import notes, one_by_one_notes
from dpeer.federation.options import options_of, with_options
from dpeer.federation.privacy import check_first_weights, first_weights_notes, open_session, privacy_config
from dpeer.federation.robust_checks import check_hostile
from dpeer.federation.same_rows import Held, held_rows
from dpeer.federation.settings import Settings
from dpeer.federation.training_monitor import watch_of
from dpeer.privacy import ClientSession, SampleSession
from dpeer.privacy.history import FOLDER
from dpeer.results.files import rank_folder
from dpeer.results.training_alerts import Watch
from dpeer.topology import Graphs, Isolated, ServerSampling, TimeVaryingTopology, Topology, spectral_gap
from dpeer.training import (
    BUILTIN_TASKS,
    Choices,
    Hyperparameters,
    Task,
    TorchLearner,
    class_counts,
    find_algorithm,
    load_task,
)
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.facts import facts_of
from dpeer.training.device import Compute, find_device
from dpeer.training.payload import little_endian
from dpeer.training.settings import DataSettings
from dpeer.training.validation import whole_training_set


@dataclass(frozen=True)
class PeerParts:
    """Everything one peer is made of, before it is connected to anything."""

    learner: TorchLearner
    topology: Graphs
    fingerprint: dict[str, Any]
    names: dict[str, dict[str, str]]
    """By field of the fingerprint, what the hashes in it stand for here."""
    facts: dict[str, Any]
    """The entries of summary.json about the run that are not results."""
    notes: list[str]
    """Lines that the user is told when the peer starts."""
    alone: AloneBeside | None
    """What is trained beside, to compare with; None where nothing is."""
    watch: Watch
    """What looks for signs that training goes wrong."""
    partition: dict[str, Any] | None
    """The content of partition.json: which samples of common pools the rank holds."""
    preparation: dict[str, Any] | None
    """The content of preparation.json: how a table's rows become inputs."""
    held: Held | None
    """What tells rows that others on this host hold, too; None with privacy, and where that cannot be told."""
    about: dict[str, Any]
    """What checkpoints keep: the settings that were given, so that `dpeer model` can assemble the peer again, and
    hashes of the two files above."""


def assemble(
    settings: Settings,
    rank: int,
    *,
    resume: bool = False,
    new_data: bool = False,
    workers: int | None = None,
    home: Path | None = None,
) -> PeerParts:
    """Load the task and build the learner and the graph of one rank.

    Args:
        settings: As this rank uses them (`Settings.of_rank`).
        rank: Which peer.
        resume: Whether the peer continues an earlier run, whose releases then are its own.
        new_data: Whether its data are others than those of earlier runs in the same folder.
        workers: How many threads all peers share that run in this process; None for a peer that runs by itself.
        home: The folder from which relative paths lead; None for the current one. (A task of another rank may have
            left it.)

    Raises:
        BudgetTooSmall: not one private release fits the budget.
        ConfigurationError: something in the settings cannot be done; nothing has been connected yet.
    """
    given = settings.model_dump(mode="json", exclude_unset=True, exclude={"rank"})
    if home is not None:
        os.chdir(home)
    own_folder = rank_folder(settings.out, rank).absolute()  # now: the task may change to another folder
    builtin = BUILTIN_TASKS.get(settings.task)
    algorithm = find_algorithm(settings.algorithm)  # a wrong name shows before data are read
    said_of_it = facts_of(algorithm)
    said = settings.model_fields_set
    settings = with_options(with_defaults(settings), said)
    only_if_enough, settings = holds_out_if_enough(settings), with_choice(settings)
    if settings.schema is not None and settings.standardize and settings.privacy != "none":
        raise ConfigurationError(
            "--standardize: with --privacy the ranges of the schema scale numbers, and nothing of the data does: leave "
            "it out"
        )
    options = options_of(settings)
    graph = build_graph(settings)
    meeting = take_part(graph, settings)
    config = privacy_config(settings, graph, shares=said_of_it.shares != "nothing")
    guarantee = config.guarantee
    if said_of_it.shares != "nothing":
        check_hostile(settings, graph)
        if settings.participation_mode == "server" and algorithm.codec is not Algorithm.codec:
            raise ConfigurationError(
                f"--participation-mode server: {said_of_it.name} mixes in a way of its own, which needs what each "
                "receiver itself has sent in the round: use --participation-mode peers, or another --algorithm"
            )
    compute = Compute(find_device(settings.device, rank), settings.amp, settings.channels_last)
    task = task_of(settings, rank, only_if_enough=only_if_enough)
    lacking = only_if_enough and settings.keep == "best" and task.validation is None
    if task.held_out is None:  # what nobody has asked for and cannot be had, or a task that brings its own
        if "validation" in said and settings.validation and task.validation is not None:
            raise ConfigurationError(
                f"--validation {settings.validation:g}: task {settings.task!r} brings validation data of its own: "
                "leave it out"
            )
        settings = settings.model_copy(update={"validation": 0.0, **({"keep": "last"} if lacking else {})})
    content = content_of(task, settings)
    session = open_session(
        config, task, settings, graph, own_folder / FOLDER, digest=content, resume=resume, new_data=new_data,
        receivers=lambda number: meeting.at(number, rank).out_neighbors,
    )  # fmt: skip
    way = (settings.partition or builtin.partition) if builtin else None
    # Before the algorithm's code sees the data: neighbors get to know this.
    compared = (
        fingerprint(settings, graph, options, guarantee)
        | divided(task, way, settings, private=settings.privacy != "none")
        | named(task, said_of_it.shares)
        | of_model(task)
    )
    copied = copy_apart(task, settings, said_of_it.shares)
    learner = TorchLearner(
        task, settings.algorithm, hyperparameters_of(settings), rank=rank,
        seed=seed_of(settings), keep=kept(settings), evaluate_on=settings.evaluate_on,
        training_accuracy=settings.training_accuracy, patience=settings.patience,
        steady=isinstance(graph, Topology) and settings.participation == 1,
        sampled_share=meeting.share if isinstance(meeting, ServerSampling) else 1.0, compute=compute,
        session=session, options=options,
    )  # fmt: skip
    if guarantee is not None and learner.shares and not isinstance(session, ClientSession):
        raise AlgorithmError(f"algorithm {settings.algorithm}: it said that it shares nothing, and shares something")
    facts = {
        "size": settings.size,
        "topology": settings.topology,
        "algorithm": settings.algorithm,
        "task": settings.task,
        "partition": way,
        "rounds": settings.rounds,
        "seed": settings.seed,
        "spectral_gap": _spectral_gap(graph),
        "body_parameters": learner.body_parameters,
        "head_parameters": learner.head_parameters,
        "training_samples": learner.num_samples,
        "evaluated_samples": len(getattr(task, settings.evaluate_on)),
        "stated": session.guarantee.stated if isinstance(session, SampleSession) else None,
        "class_counts": class_counts(task, "train"),
        "class_names": list(task.names.get("classes", ())) or None,
        "evaluated_class_counts": class_counts(task, settings.evaluate_on),
        "settings": settings.model_dump(mode="json", exclude={"rank"}),
    }
    beside = alone_beside(
        copied, learner, hyperparameters_of(settings), lambda number: meeting.at(number, rank).active, settings, rank,
        seed=seed_of(settings), folder=own_folder, workers=workers,
    )  # fmt: skip
    sampled = isinstance(session, SampleSession)
    private = session.notes(learner.trained_together if sampled else learner.shared_values)
    partition = None
    if task.indices is not None:
        places = {name: index.tolist() for name, index in task.indices.items()}
        partition = partition_of(settings.task, way, places, content)
    preparation = None if task.reading is None else task.reading.to_json()
    return PeerParts(
        learner=learner,
        topology=meeting if learner.shares else take_part(Isolated(settings.size), settings),
        fingerprint=compared,
        names=own_names(task, said_of_it.shares),
        facts=facts,
        alone=beside,
        watch=watch_of(task, algorithm, facts, settings),
        notes=[
            *notes(task, learner, facts, settings, said, lacking=lacking),
            *private,
            *one_by_one_notes(learner),
            *first_weights_notes(task, settings),
        ],
        held=held_rows(task) if learner.shares and settings.privacy == "none" else None,
        partition=partition,
        preparation=preparation,
        about={"settings": given, "files": hashes(partition, preparation)},
    )


def task_of(settings: Settings, rank: int, *, only_if_enough: bool = False) -> Task:
    """The task of one rank.

    Args:
        settings: As this rank uses them.
        rank: Which peer.
        only_if_enough: See `Choices.only_if_enough`.

    Raises:
        ConfigurationError: It cannot be loaded, its data cannot be divided as asked, or its first weights are of
            records that a private run would not protect.
    """
    given = {name: getattr(settings, name) for name in DataSettings.model_fields}
    choices = Choices(**given, apart=settings.privacy == "sample", only_if_enough=only_if_enough)
    task = load_task(
        settings.task, rank, settings.size, _first(settings.seed_partition, settings.seed), settings.task_options,
        choices, init_seed=_first(settings.seed_init, settings.seed),
    )  # fmt: skip
    check_first_weights(task, settings)
    return task


def hyperparameters_of(settings: Settings) -> Hyperparameters:
    """The numbers that steer local training."""
    return Hyperparameters(**{name: getattr(settings, name) for name in Hyperparameters.model_fields})


def isolated(settings: Settings, rank: int) -> tuple[Task, TorchLearner]:
    """The task and the learner of one rank, measured on its validation data; without a graph and without a folder.

    Args:
        settings: As this rank uses them.
        rank: Which peer.

    Raises:
        ConfigurationError: Something in the settings cannot be done, or the task brings no validation data.
    """
    said = settings.model_fields_set
    settings = with_options(with_defaults(settings), said)
    options, task = options_of(settings), task_of(settings, rank)
    if task.validation is None:
        raise TaskError(
            f"task {settings.task!r} has no validation data to choose by: give its Task(...) a data set `validation=`"
        )
    return task, learner_by_itself(task, settings, rank, options, evaluate_on="validation")


def learner_by_itself(
    task: Task, settings: Settings, rank: int, options: Any, *, evaluate_on: Literal["test", "validation"] = "test"
) -> TorchLearner:
    """The learner of one rank without a graph, a folder and privacy: nothing of it may leave the peer.

    Args:
        task: The rank's.
        settings: All values as they are used.
        rank: Which peer.
        options: The algorithm's.
        evaluate_on: Which of the task's data it is measured on.
    """
    compute = Compute(find_device(settings.device, rank), settings.amp, settings.channels_last)
    return TorchLearner(
        task, settings.algorithm, hyperparameters_of(settings), rank=rank, seed=seed_of(settings),
        evaluate_on=evaluate_on, compute=compute, options=options,
    )  # fmt: skip


def seed_of(settings: Settings) -> int:
    """The seed of the peers' batch order."""
    return _first(settings.seed_batches, settings.seed)


def _first(own: int | None, common: int) -> int:
    return common if own is None else own


def content_of(task: Task, settings: Settings) -> str | None:
    """SHA-256 of all samples; None where they are not dense tensors in memory. It stays in the peer's folder.

    It does not depend on what a run without privacy holds out: a private one on the same data must know them again.
    """
    content = hashlib.sha256()
    parts = (task.train, task.validation, task.test)
    if settings.privacy == "none" and (whole := whole_training_set(task)) is not None:
        parts = (whole, None, task.test)
    for dataset in parts:
        if dataset is None:
            continue
        if not isinstance(dataset, TensorDataset) or any(t.layout != torch.strided for t in dataset.tensors):
            return None
        for tensor in dataset.tensors:
            content.update(little_endian(tensor))
    return content.hexdigest()


@cache
def _spectral_gap(graph: Topology | TimeVaryingTopology) -> float:
    """The graph's gap, computed once for all peers of a process."""
    return spectral_gap(graph)
