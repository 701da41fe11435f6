"""The read-only properties of a learner: for the handshake, the logs and the files."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dpeer.privacy import Session
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.facts import Facts
from dpeer.training.device import Compute, host
from dpeer.training.dpsgd_trainer import DPSGDTrainer
from dpeer.training.fine_tuning import Finishing
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.private import PrivateGossip
from dpeer.training.mixing.weighted_sum import all_finite
from dpeer.training.model_export import Keeping
from dpeer.training.sample_level import SampledReleases
from dpeer.training.selection import ModelSelection, Point
from dpeer.training.trainer import Trainer


class Description:
    """The properties of a `TorchLearner`, which sets the attributes that they read."""

    _algorithm: Algorithm
    _facts: Facts
    _trainer: Trainer
    _session: Session | None
    _gossip: Gossip
    _sampled: SampledReleases | None
    _selection: ModelSelection
    _finishing: Finishing
    _keeping: Keeping
    _mixed: bool
    _digest: str

    @property
    def algorithm(self) -> Algorithm:
        """The peer's algorithm."""
        return self._algorithm

    @property
    def manifest(self) -> dict[str, Any]:
        """What a payload holds: ``{"dtype", "count", "parameters": [{"name", "shape", "offset"}, ...]}``.

        With "extras", by name how many there are, where the algorithm has any.
        """
        return self._trainer.shared.manifest

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the bytes of extras and initial body, and of frozen parameters outside the head if any."""
        return self._digest

    @property
    def payload_bytes(self) -> int:
        """The most bytes that one payload may have."""
        return self._gossip.codec.payload_bytes if self.shares else 0

    def room(self) -> memoryview | None:
        """Writable memory of `payload_bytes` to put a payload's pieces together in; None if none is needed.

        It is page-locked where the body is on a GPU. It may be given out again when nothing refers to it any more. Any
        thread may call this.
        """
        return self._gossip.codec.receive_buffer()

    @property
    def shares(self) -> bool:
        """Whether anything leaves the peer at all."""
        return self._facts.shares != "nothing"

    @property
    def body_parameters(self) -> int:
        """The number of trained parameters that neighbors get."""
        return self._trainer.body.count

    @property
    def shared_values(self) -> int:
        """The number of values that neighbors get: the body's parameters and the algorithm's extras."""
        return self._trainer.shared.count

    @property
    def head_parameters(self) -> int:
        """The number of trained parameters that stay on the peer."""
        return self._algorithm.at_home(self._trainer)

    @property
    def gradients(self) -> int:
        """For how many samples a gradient has been computed since the learner was made."""
        return self._trainer.figures.gradients

    @property
    def finite(self) -> bool:
        """Whether all parameters are finite, as they are now, and those of a finished model if there is one."""
        finished = self._finishing.found
        values = [self._trainer.model.data] + ([] if finished is None else [finished.values])
        return all_finite(values)

    @property
    def best_round(self) -> int | None:
        """The round of the best model so far; None without ``keep="best"`` or before the first."""
        return self._selection.best_round

    @property
    def best_loss(self) -> float | None:
        """The best model's loss on the validation data; None without ``keep="best"`` or before the first."""
        return None if self._selection.best is None else self._selection.best_loss

    @property
    def kept_point(self) -> Point:
        """When in its round the model that is kept was as it is: trained, mixed or finished."""
        return self._selection.best_point or self._keeping.point(mixed=self._mixed)

    @property
    def finish_rate(self) -> float | None:
        """The learning rate with which the model is finished; None where it is not."""
        return self._finishing.rate if self._finishing.asked else None

    @property
    def privacy(self) -> dict[str, Any] | None:
        """What the peer's releases have cost so far, plain JSON values with "epsilon" and "delta"; None without DP."""
        if self._sampled is not None:
            return self._sampled.spent
        return self._gossip.spent if isinstance(self._gossip, PrivateGossip) else None

    @property
    def session(self) -> Session | None:
        """The privacy session of the peer."""
        return self._session

    @property
    def units(self) -> int:
        """How many records, or groups of them, privacy at sample level draws from; without it all training samples."""
        return self._trainer.figures.units

    @property
    def trained_together(self) -> int:
        """The most parameters that a step of a round trains."""
        trainer = self._trainer
        parts = {"body": trainer.body.count, "head": trainer.head.count}
        phases = trainer.session.guarantee.phases if isinstance(trainer, DPSGDTrainer) else ()
        return max((parts.get(phase.part, trainer.model.count) for phase in phases), default=trainer.model.count)

    @property
    def computes_one_by_one(self) -> bool:
        """Whether privacy at sample level computes each record by itself because of the task's model or loss."""
        trainer = self._trainer
        return isinstance(trainer, DPSGDTrainer) and trainer.computes_one_by_one

    @property
    def num_samples(self) -> int:
        """How many training samples this peer has."""
        return self._trainer.figures.samples

    @property
    def body(self) -> Tensor:
        """A copy of the body as it is now, shape (body_parameters,), on the host; for consensus distances."""
        return host(self._trainer.body.data)

    @property
    def compute(self) -> Compute:
        """The device, precision and memory layout that the peer computes with."""
        return self._trainer.compute

    @property
    def has_images(self) -> bool:
        """Whether the model's inputs are images, which `Compute.channels_last` is about."""
        return self._trainer.data.has_images
