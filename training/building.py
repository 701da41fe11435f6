"""Builds a learner, and its parts in the order of their needs: algorithm, trainer, gossip, selection, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError, TaskError
from dpeer.privacy import ClientSession, SampleSession, Session
from dpeer.training import payload
from dpeer.training.algorithms import Algorithm, find_algorithm
from dpeer.training.algorithms.base import facts_of
from dpeer.training.algorithms.plugins import blamed, extras_of, is_built_in, new_algorithm
from dpeer.training.device import HOST, Compute
from dpeer.training.dpsgd.sampled_releases import SampledReleases, check_sound, planned_phases
from dpeer.training.dpsgd.trainer import DPSGDTrainer
from dpeer.training.fine_tuning import Finishing
from dpeer.training.flat import new_vector
from dpeer.training.learner import TorchLearner
from dpeer.training.mixing.building import build_gossip
from dpeer.training.randomness import GlobalGenerators, Purpose
from dpeer.training.selection import ModelSelection
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split, frozen_alike, split
from dpeer.training.state.checkpoints import Checkpoints
from dpeer.training.state.kept_model import Keeping
from dpeer.training.state.snapshots import Snapshots, Stateful
from dpeer.training.state.store import Origin
from dpeer.training.step_pace import StepPace
from dpeer.training.task import Task, claim
from dpeer.training.trainer import Trainer


class Beginning:
    """The hash of what is equal on all peers, taken before an algorithm's code has seen the peer's data.

    Args:
        parts: The model's trainable parameters, divided.
        frozen: The frozen values that are compared, by name.
    """

    def __init__(self, parts: Split, frozen: Mapping[str, Tensor]) -> None:
        self._frozen = frozen
        self._body = self._hash([parameter.detach().reshape(-1) for _, parameter in parts.body])

    def _hash(self, body: list[Tensor]) -> str:
        return payload.digest(torch.cat([new_vector(0), *(values.cpu() for values in body)]), self._frozen)

    def digest(self, trainer: Trainer) -> str:
        """SHA-256 (hex) of the bytes of extras and body, and of the frozen values if any."""
        return payload.digest(trainer.shared.data, self._frozen)

    def check(self, trainer: Trainer, algorithm: str) -> None:
        """Refuse an algorithm that has changed any of it before the first round.

        Args:
            trainer: The trainer that it steers.
            algorithm: Its name, for messages.

        Raises:
            AlgorithmError: It has.
        """
        if trainer.extras.data.any() or self._hash([trainer.body.data]) != self._body:
            raise AlgorithmError(
                f"algorithm {algorithm}: its start has changed the body or extras, or frozen values outside the head, "
                "which are to begin equal on all peers and would tell of this peer's data: change them in train"
            )


def build_learner(
    task: Task,
    algorithm: str | type[Algorithm],
    hyperparameters: Hyperparameters | None = None,
    *,
    rank: int,
    seed: int,
    keep: Literal["last", "best"] = "last",
    evaluate_on: Literal["test", "validation"] = "test",
    training_accuracy: bool = False,
    sampled_share: float = 1.0,
    compute: Compute = HOST,
    session: Session | None = None,
    options: Any = None,
    pace: StepPace | None = None,
    kind: type[TorchLearner] = TorchLearner,
) -> TorchLearner:
    """Build the learner of one peer.

    Args:
        task: The model and the data, as a task factory returned them.
        algorithm: Its name, one of `ALGORITHMS`, or what else `find_algorithm` takes, such as a class.
        hyperparameters: The numbers that steer training.
        rank: This peer.
        seed: The federation's seed, not negative; equal on all peers.
        keep: Which model `write_model` writes: the "last", or the "best" by the loss on the task's validation data
            among those that were evaluated, before and after mixing, and finished at the end.
        evaluate_on: Which of the task's data `evaluate` uses.
        training_accuracy: Whether `evaluate` measures accuracy on the training data, too.
        sampled_share: The share of all peers whose bodies a mixing takes the mean of, where a sample of them sends to
            all; 1 elsewhere.
        compute: On which device, where the model and the data are moved to, and how.
        session: Differential privacy, of messages or of each record in local training, or the record of a run without
            noise; None trains and sends without noise and record.
        options: The algorithm's options, by name; its defaults for those that are not given.
        pace: Times the steps, and chooses the threads that train; None for neither.
        kind: The learner's class.

    Raises:
        UnknownName: No such algorithm, or option of it.
        AlgorithmError: A class that cannot be used as an algorithm, or an option that cannot be what was given.
        TaskError: The model cannot be trained by it, or ``keep="best"`` without validation data.
        ConfigurationError: The algorithm has a way of its own to send bodies and cannot quantize or protect them.
    """
    _check_validation(task, keep, evaluate_on)
    found = find_algorithm(algorithm)
    facts = facts_of(found)
    generators = GlobalGenerators(seed, rank, compute.device, draws=True if facts.draws else task.draws)
    sampling = session if isinstance(session, SampleSession) else None
    sampled = None
    with generators.kept(Purpose.START, 0) if facts.draws else nullcontext():
        made = new_algorithm(found, {} if options is None else options)
        if sampling is not None:
            check_sound(made, facts.shares, sampling, keep=keep)
        claim(task.model)
        parts = split(task.model, task.head, facts.shares, facts.name)
        began = Beginning(parts, frozen_alike(task.model, task.head) if facts.shares != "nothing" else {})
        with compute.reporting():
            if not compute.on_host:
                task.model.to(compute.device)  # parameters stay the same objects
            trainer = _trainer(
                sampling, task, parts, hyperparameters or Hyperparameters(), rank=rank, seed=seed, compute=compute,
                generators=generators, extras=extras_of(made, parts), pace=pace,
            )  # fmt: skip
            selection = ModelSelection(task, keep, evaluate_on, compute, trainer.loss_function)
        digest = began.digest(trainer)
        trainer.sampled_share = sampled_share
        with blamed(made, "start"):
            made.start(trainer)
        gossip = build_gossip(made, trainer, session)
        if isinstance(trainer, DPSGDTrainer):
            of_releases = found.mixed is Algorithm.mixed or not facts.mixed_uses_data
            sampled = SampledReleases(trainer, of_releases=of_releases)
            with blamed(made, "train"):
                planned = planned_phases(found, {} if options is None else options, trainer)
            trainer.prepare(planned)
    if not is_built_in(found):
        began.check(trainer, facts.name)
    finishing = Finishing(made, trainer)
    origin = Origin.of_run(
        client=isinstance(session, ClientSession), sample=sampling is not None,
        at_home=sampling is not None and sampling.at_home,
        first=None if task.initial is None else task.initial.origin,
    )  # fmt: skip
    keeping = Keeping(
        trainer, finishing, selection, shares=facts.shares != "nothing", origin=origin, training=training_accuracy
    )
    kept: dict[str, Stateful] = {
        "algorithm": made, "extras": trainer.extras, "codec": gossip, "finish": finishing,
    }  # fmt: skip
    if sampled is not None:
        kept["sampled"] = sampled
    checkpoints = Checkpoints(made, trainer, Snapshots(trainer, kept), selection, session)
    return kind(
        facts=facts, algorithm=made, trainer=trainer, generators=generators, gossip=gossip,
        selection=selection, finishing=finishing, keeping=keeping, checkpoints=checkpoints, session=session,
        sampled=sampled, digest=digest,
    )  # fmt: skip


def _check_validation(task: Task, keep: str, evaluate_on: str) -> None:
    """Refuse to choose or to measure by validation data that the task lacks.

    Raises:
        TaskError: Says what would be right.
    """
    for option, value, other in (("keep", keep, "last"), ("evaluate-on", evaluate_on, "test")):
        if value in ("best", "validation") and task.validation is None:
            raise TaskError(
                f"--{option} {value} needs validation data: hold some out with --validation 0.1 (your own task: give "
                f"it `validation=`), or use --{option} {other}"
            )


def _trainer(session: SampleSession | None, *given: Any, **named: Any) -> Trainer:
    return Trainer(*given, **named) if session is None else DPSGDTrainer(*given, **named, session=session)
