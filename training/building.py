"""Builds a learner from its parts, one builder each, in the order of their needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal

import torch

from dpeer.exceptions import AlgorithmError
from dpeer.privacy import ClientSession, SampleTerms, Session
from dpeer.privacy.guarantee import Phase
from dpeer.training import payload
from dpeer.training.algorithms import Algorithm, find_algorithm
from dpeer.training.algorithms.plugins import blamed, extras_of, is_built_in, new_algorithm
from dpeer.training.codecs import Codec, Dense, Masked, new_codec
from dpeer.training.combinations import Combination, check
from dpeer.training.device import HOST, Compute
from dpeer.training.dpsgd.private_minibatches import Planned, PrivateMinibatches
from dpeer.training.fine_tuning import Finishing
from dpeer.training.flat import new_vector
from dpeer.training.learner import About, TorchLearner
from dpeer.training.mixing.gossip import Gossip, SparseGossip
from dpeer.training.mixing.guard import Guard
from dpeer.training.mixing.private import PrivateGossip
from dpeer.training.randomness import GlobalGenerators, Purpose
from dpeer.training.setting_texts import Robust
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import frozen_alike, split
from dpeer.training.state.checkpoints import Checkpoints, Stateful
from dpeer.training.state.kept_model import Keeping, ModelSelection
from dpeer.training.state.store import Origin
from dpeer.training.step_pace import StepPace
from dpeer.training.task import Task, claim
from dpeer.training.trainer import Trainer


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
    session: ClientSession | SampleTerms | None = None,
    options: Any = None,
    pace: StepPace | None = None,
) -> TorchLearner:
    """Build the learner of one peer.

    Args:
        task: The model and the data, as a task factory returned them.
        algorithm: Its name, one of `ALGORITHMS`, or what else `find_algorithm` takes, such as a class.
        hyperparameters: The numbers that steer training; if None, with the algorithm's own defaults.
        rank: This peer.
        seed: The federation's seed, not negative; equal on all peers.
        keep: Which model `write_model` writes: the "last", or the "best" by the loss on the task's validation data
            among those that were evaluated, before and after mixing, and finished at the end.
        evaluate_on: Which of the task's data `evaluate` uses.
        training_accuracy: Whether `evaluate` measures accuracy on the training data, too.
        sampled_share: The share of all peers whose bodies a mixing takes the mean of, where a sample of them sends to
            all; 1 elsewhere.
        compute: On which device, where the model and the data are moved to, and how.
        session: Differential privacy, of messages, or what is asked of each step of local training; None trains and
            sends without noise and record.
        options: The algorithm's options, by name; its defaults for those that are not given.
        pace: Times the steps, and chooses the threads that train; None for neither.

    Raises:
        UnknownName: No such algorithm, or option of it.
        AlgorithmError: A class that cannot be used as an algorithm, or an option that cannot be what was given.
        TaskError: The model cannot be trained by it.
        ConfigurationError: Two of these do not go together; see `dpeer.training.combinations`.
    """
    found = find_algorithm(algorithm)
    own, h = not is_built_in(found), hyperparameters or Hyperparameters(**found.defaults)
    shares = found.shares != "nothing"
    make = partial(new_algorithm, found, {} if options is None else options)
    generators = GlobalGenerators(seed, rank, compute.device, draws=own or task.draws)
    with generators.kept(Purpose.START, 0) if own else nullcontext():
        made = make()
        parts = split(task.model, task.head, found.shares, found.name)
        frozen = frozen_alike(task.model, task.head) if shares else {}
        values = torch.cat([new_vector(0), *(parameter.detach().reshape(-1) for _, parameter in parts.body)])
        alike = payload.digest(values, frozen)  # before the algorithm's code sees the data
        extras = extras_of(made, parts)
        start = torch.cat([new_vector(sum(extras.values())), values])
        codec = new_codec(h.compress, start.to(compute.device), rank) if shares else None
        check(Combination(made, h, task, session, keep, evaluate_on, compute.amp, codec, tuple(extras)))
        claim(task.model)
        with compute.reporting():
            if not compute.on_host:
                task.model.to(compute.device)  # parameters stay the same objects
            trainer = Trainer(
                task, parts, h, rank=rank, seed=seed, compute=compute, generators=generators, extras=extras, pace=pace,
                sampled_share=sampled_share,
            )  # fmt: skip
            selection = ModelSelection(task, keep, evaluate_on, compute, trainer.loss_function)
        digest = payload.digest(trainer.shared.data, frozen)
        terms = session if isinstance(session, SampleTerms) else None
        with blamed(made, "start"), trainer.drawing(Planned(trainer.plain, terms)) if terms else nullcontext():
            made.start(trainer)
        if own and (trainer.extras.data.any() or payload.digest(trainer.body.data, frozen) != alike):
            raise AlgorithmError(
                f"algorithm {found.name}: its start has changed the body or extras, or frozen values outside the head, "
                "which are to begin equal on all peers and would tell of this peer's data: change them in train"
            )
        gossip = _gossip(trainer, codec, session)
        opened: Session | None = session if isinstance(session, ClientSession) else None
        if terms is not None:
            with blamed(made, "train"):
                trainer.source = private = PrivateMinibatches(trainer.plain, terms, _planned(make, trainer, terms))
            opened = private.session
    finishing = Finishing(made, trainer)
    origin = Origin.of_run(
        client=isinstance(session, ClientSession), sample=terms is not None,
        at_home=terms is not None and terms.at_home, first=None if task.initial is None else task.initial.origin,
    )  # fmt: skip
    keeping = Keeping(trainer, finishing, selection, shares=shares, origin=origin, training=training_accuracy)
    kept: dict[str, Stateful] = {
        "algorithm": made, "extras": trainer.extras, "codec": gossip, "finish": finishing, "sampled": trainer.source,
    }  # fmt: skip
    return TorchLearner(
        algorithm=made, trainer=trainer, generators=generators, gossip=gossip, selection=selection,
        finishing=finishing, keeping=keeping, checkpoints=Checkpoints(made, trainer, kept, selection, opened),
        session=opened, about=_about(made, trainer, gossip, finishing, digest),
    )  # fmt: skip


def _gossip(trainer: Trainer, codec: Codec | None, session: ClientSession | SampleTerms | None) -> Gossip:
    """The gossip step: what is sent, and how it is mixed."""
    h, body, rank = trainer.hyperparameters, trainer.shared, trainer.rank
    guard = Guard(rank, Robust.parse(h.robust), h.max_norm)
    if trainer.mask is not None:
        return SparseGossip(body, rank, Masked(body.data, rank, trainer.mask), guard)
    if isinstance(session, ClientSession) and isinstance(codec, Dense):
        return PrivateGossip(body, rank, codec, guard, session, trainer.seed)
    return Gossip(body, rank, codec or Dense(body.data, rank), guard)


def _planned(make: Callable[[], Algorithm], trainer: Trainer, terms: SampleTerms) -> Sequence[Phase]:
    """The steps of a round, as a second instance of the algorithm asks for them; nothing is trained."""
    probe, plan = make(), Planned(trainer.plain, terms)
    extras = trainer.extras.data.clone()
    with trainer.holding(trainer.model.data.clone()), trainer.drawing(plan):
        try:
            probe.start(trainer)
            probe.train(trainer)
        finally:
            trainer.extras.data.copy_(extras)
    return plan.planned


def _about(algorithm: Algorithm, trainer: Trainer, gossip: Gossip, finishing: Finishing, digest: str) -> About:
    """What the learner states about itself."""
    shares, personal = algorithm.shares != "nothing", algorithm.state.get("personal")
    parts = {"body": trainer.body.count, "head": trainer.head.count}
    trained = (parts.get(phase.part, trainer.model.count) for phase in trainer.source.planned)
    return About(
        manifest=trainer.shared.manifest,
        digest=digest,
        payload_bytes=gossip.codec.payload_bytes if shares else 0,
        shares=shares,
        samples=len(trainer.data),
        body_parameters=trainer.body.count,
        shared_values=trainer.shared.count,
        head_parameters=trainer.head.count + (0 if personal is None else personal.numel()),
        trained_together=max(trained, default=trainer.model.count),
        one_by_one=trainer.source.one_by_one,
        finish_rate=finishing.rate if finishing.asked else None,
        compute=trainer.compute,
    )
