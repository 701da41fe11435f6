"""Builder of one peer: task, learner, graph, privacy session and fingerprint from its `RunConfig`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import TensorDataset

from dpeer import privacy
from dpeer.exceptions import AlgorithmError, ConfigurationError
from dpeer.federation.baseline.training import AllOrNone, BaselineTraining, baseline_training, copy_for_baseline
from dpeer.federation.checks import check_first_weights, check_settings
from dpeer.federation.config import RunConfig
from dpeer.federation.fingerprint import divided, fingerprint, named, of_model, own_names
from dpeer.federation.member_changes import graph_of_list, list_zero
from dpeer.federation.notes import notes
from dpeer.federation.policy import find, obey
from dpeer.federation.process_tuning import share_of_cores
from dpeer.federation.resume_checks import check_ledger, counted, hashes, partition_of
from dpeer.peer.checkpoint import completed
from dpeer.peer.config import ListsConfig, LivenessConfig, PeerConfig
from dpeer.peer.core.member_list import MemberList, Signers
from dpeer.privacy import ClientSession, PeerData, SampleSession
from dpeer.privacy.ledger import FOLDER
from dpeer.results.effect import majority_accuracy
from dpeer.results.files import rank_folder
from dpeer.results.training_alerts import AlertMonitor, guessing_loss
from dpeer.topology import Graphs, Isolated, ServerSampling, Topology, spectral_gap
from dpeer.training import (
    BUILTIN_TASKS,
    Choices,
    Task,
    TorchLearner,
    build_learner,
    class_counts,
    load_task,
)
from dpeer.training.device import Compute, find_device
from dpeer.training.payload import little_endian
from dpeer.training.settings import DataSettings
from dpeer.training.step_pace import StepPace


@dataclass(frozen=True)
class PeerParts:
    """Everything one peer is made of, before it is connected to anything."""

    learner: TorchLearner
    topology: Graphs
    peer: PeerConfig
    """Its place in the federation and how it runs its rounds; it listens nowhere yet."""
    fingerprint: dict[str, Any]
    facts: dict[str, Any]
    """The entries of summary.json about the run that are not results."""
    notes: list[str]
    """Lines for the user when the peer starts."""
    promises: list[str]
    """Those of them that are about privacy, the guarantee first; none without."""
    baseline: BaselineTraining | None
    """What is trained beside, to compare with; None where nothing is."""
    watch: AlertMonitor
    """What looks for signs that training goes wrong."""
    partition: dict[str, Any] | None
    """The content of partition.json: which samples of common pools the rank holds."""
    preparation: dict[str, Any] | None
    """The content of preparation.json: how a table's rows become inputs."""


def build(
    config: RunConfig,
    *,
    resume: bool = False,
    process: AllOrNone | None = None,
    home: Path | None = None,
    given: MemberList | None = None,
) -> PeerParts:
    """Load the task and build the learner and the graph of one peer.

    Args:
        config: The peer's.
        resume: Whether the peer continues an earlier run, whose releases then are its own.
        process: What decides for all peers of this process whether they are compared; None for a peer in a process of
            its own.
        home: The base of relative paths; None for the current folder. (The task of another rank may have left it.)
        given: A member list that the operator hands over at the start.

    Raises:
        BudgetTooSmall: The budget allows no private release.
        ConfigurationError: A setting cannot be met; nothing has been connected yet.
    """
    if home is not None:
        os.chdir(home)
    rank, data, run, how = config.rank, config.data, config.run, config.training
    own_folder = rank_folder(run.out, rank).absolute()  # now: the task may change to another folder
    shares, private = config.algorithm.shares, config.privacy.privacy != "none"
    check_settings(config)
    if (policy := find(config.network.secret)) is not None:
        obey(policy.verdicts(config.values()))
    graph, meeting, guarantee = config.topology, config.meeting, config.protected.guarantee

    def exchanging(drawn: Topology) -> Graphs:
        """The graph on which bodies are exchanged."""
        return config.taking_part(Isolated(drawn.size) if shares == "nothing" else drawn)

    topology = exchanging(graph)
    compute = compute_of(config)
    task = task_of(config)
    lacking = config.held_out_if_enough and run.keep == "best" and task.validation is None
    keep, held_out = run.keep, data.validation
    if task.held_out is None:  # the default could not be met, or the task brings validation data of its own
        if "validation" in config.given and held_out and task.validation is not None:
            raise ConfigurationError(
                f"--validation {held_out:g}: task {data.task!r} brings validation data of its own: leave it out"
            )
        keep, held_out = "last" if lacking else keep, 0.0
    if keep == "blend" and task.validation is None:
        raise ConfigurationError(
            "--keep blend needs validation data, which weigh both models: hold some out with --validation 0.1 (your "
            "own task: `validation=`), or use --keep last"
        )
    content = content_of(task)
    if resume:
        check_ledger(own_folder)
    own_data = PeerData(
        content, records=len(task.train), groups=task.groups, own=task.division is None, found=task.found
    )
    left = config.planned_rounds(completed(own_folder)) if resume else None
    # Where nothing is shared no client-level release is made, but records are protected in the model, too.
    protects = private and (shares != "nothing" or config.privacy.privacy == "sample")
    stated = config.privacy.rounds_released
    asked = privacy.open(config.protected, own_folder / FOLDER, own_data, resume=resume, left=left)
    builtin = BUILTIN_TASKS.get(data.task)
    partition = (data.partition or builtin.partition) if builtin else None
    # Before the algorithm's code sees the data: neighbors get to know this.
    compared = (
        fingerprint(config)
        | divided(task, partition, data.test_split, private=private)
        | named(task, shares)
        | of_model(task)
    )
    kept: Literal["last", "best"] = "last" if keep == "last" else "best"
    copied = copy_for_baseline(task, run.alone, shares)
    learner = build_learner(
        task, how.algorithm, how, rank=rank, seed=how.seed,
        keep=kept, evaluate_on=run.evaluate_on,
        training_accuracy=run.training_accuracy,
        sampled_share=meeting.share if isinstance(meeting, ServerSampling) else 1.0, compute=compute,
        session=asked, options=config.options, pace=None if process is not None else pace_of(config, compute),
    )  # fmt: skip
    session = learner.session
    if guarantee is not None and learner.about.shares and not isinstance(session, ClientSession):
        raise AlgorithmError(f"algorithm {how.algorithm}: it declares that it shares nothing, and shares something")
    facts = {
        "size": config.graph.size,
        "topology": config.graph.topology,
        "algorithm": how.algorithm,
        "task": data.task,
        "partition": partition,
        "rounds": how.rounds,
        "seed": how.seed,
        "spectral_gap": _spectral_gap(graph),
        "body_parameters": learner.about.body_parameters,
        "head_parameters": learner.about.head_parameters,
        "extras": learner.about.manifest.get("extras", {}),
        "training_samples": learner.about.samples,
        "evaluated_samples": len(getattr(task, run.evaluate_on)),
        # N and its unit, which a model's card has in place of the training records' true number.
        "stated": {"number": session.guarantee.units, "of": session.guarantee.unit}
        if isinstance(session, SampleSession)
        else None,
        "class_counts": class_counts(task, "train"),
        "class_names": list(task.names.get("classes", ())) or None,
        "evaluated_class_counts": class_counts(task, run.evaluate_on),
        "settings": config.plain() | {"validation": held_out, "keep": keep},
        **({} if policy is None else {"policy": policy.sha256}),
    }
    beside = baseline_training(config, copied, learner, keep=kept, folder=own_folder, resume=resume, process=process)
    about = learner.about
    promises = [] if session is None else session.notes(session.noised(about.shared_values, about.trained_together))
    divided_as = None
    if task.indices is not None:
        places = {name: index.tolist() for name, index in task.indices.items()}
        divided_as = partition_of(data.task, partition, places, content)
    preparation = None if task.preparation is None else task.preparation.to_json()
    network = config.network

    lists = None
    if network.operators:
        zero = list_zero(config.graph, network, how.rounds, compared)
        signers = Signers(tuple(network.operators), network.signers)
        forbids = None if policy is None else policy.forbids
        lists = ListsConfig(zero, signers, lambda one: exchanging(graph_of_list(config.graph, one)), given, forbids)
    peer = PeerConfig(
        rank=rank,
        rounds=how.rounds,
        listen=None,
        fingerprint=compared,
        names=own_names(task, shares),
        # The settings that were given, by which `dpeer model` builds the peer again, and hashes of its data files.
        about={"settings": config.given, "files": hashes(divided_as, preparation)},
        evaluate_every=run.evaluate_every,
        checkpoint_every=run.checkpoint_every,
        wait=network.wait,
        deadline=None if network.deadline == "never" else network.deadline,
        round_seconds=run.round_seconds,
        quorum=network.quorum,
        liveness=LivenessConfig.after(network.dead_after),
        out=own_folder,
        resume=resume,
        counted=counted(own_folder, resume=resume, stated=stated) if protects else None,
        rounds_released=stated,
        lists=lists,
    )
    return PeerParts(
        learner=learner,
        topology=topology,
        peer=peer,
        fingerprint=compared,
        facts=facts,
        baseline=beside,
        watch=_alert_monitor(task, config, facts),
        notes=[
            *([] if policy is None else [f"this site's policy holds, of SHA-256 {policy.sha256[:16]}…"]),
            *notes(config, task, learner, facts, promises, lacking=lacking),
        ],
        promises=promises,
        partition=divided_as,
        preparation=preparation,
    )


def task_of(config: RunConfig) -> Task:
    """The task of one peer.

    Raises:
        ConfigurationError: It cannot be loaded, its data cannot be divided as asked, or its first weights are of
            records that a private run would not protect.
    """
    data, how, privacy = config.data, config.training, config.privacy.privacy
    given = {name: getattr(data, name) for name in DataSettings.model_fields}
    choices = Choices(**given, apart=privacy == "sample", only_if_enough=config.held_out_if_enough)
    task = load_task(
        data.task, config.rank, config.graph.size, how.seed, data.task_options, choices,
    )  # fmt: skip
    check_first_weights(task, data.init_from, privacy)
    return task


def compute_of(config: RunConfig) -> Compute:
    """The device, precision and memory layout of one peer."""
    host = config.host
    return Compute(find_device(host.device, config.rank), host.amp, host.channels_last)


def pace_of(config: RunConfig, compute: Compute) -> StepPace | None:
    """What times the steps of a peer in a process of its own, and chooses its threads unless the user has."""
    if compute.device.type != "cpu":
        return None
    return StepPace(share_of_cores(config.network, config.graph.size) if config.host.threads is None else None)


def content_of(task: Task) -> str | None:
    """SHA-256 of all samples; None where they are not dense tensors in memory. It stays in the peer's folder."""
    content = hashlib.sha256()
    for dataset in (task.train, task.validation, task.test):
        if dataset is None:
            continue
        if not isinstance(dataset, TensorDataset) or any(t.layout != torch.strided for t in dataset.tensors):
            return None
        for tensor in dataset.tensors:
            content.update(little_endian(tensor))
    return content.hexdigest()


@cache
def _spectral_gap(graph: Topology) -> float:
    """The graph's gap, computed once for all peers of a process."""
    return spectral_gap(graph)


def _alert_monitor(task: Task, config: RunConfig, facts: Mapping[str, Any]) -> AlertMonitor:
    """The training alerts of a peer, with thresholds from its task."""
    train, evaluated = facts["class_counts"], facts["evaluated_class_counts"]
    return AlertMonitor(
        chance=guessing_loss(train) if task.loss is None else None,
        majority=majority_accuracy(train, evaluated),
        classes=sum(count > 0 for count in evaluated or ()),
        private=config.privacy.privacy != "none",
    )
