"""Local fine-tuning at the end (`--finish`): epochs on own data after the last mixing, never shared.

After the last mixing a model is a compromise between the peers. `--finish head:E` trains its head, and `--finish all:E`
all of it, for E epochs on the peer's own data:

    w <- the model that predicts after the last mixing
    w <- w - lr g(w)        for E epochs of minibatches, of all parameters or of the head's alone

What is trained is a copy: a run that is continued with more rounds goes on from what the neighbors know. FedBABU's last
step (Oh, Kim and Yun, ICLR 2022) is the same with the whole model, and FedRep's published code ends with epochs of the
head.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor, nn

from dpeer.exceptions import ConfigurationError
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch
from dpeer.training.schedules import factor
from dpeer.training.settings import Hyperparameters
from dpeer.training.sgd import Step, at_rate, projected
from dpeer.training.split import is_under
from dpeer.training.state.snapshots import Predicted
from dpeer.training.trainer import Trainer

_SHARE = 0.25
"""Of the last round's learning rate, where the user gives none."""

_PHASE = "finish"


def finish_rate(h: Hyperparameters, uses: Collection[str]) -> float:
    """The learning rate of `--finish`.

    Args:
        h: The peer's hyperparameters.
        uses: The algorithm's `uses`: a head may have a rate of its own.
    """
    if h.finish_lr is not None:
        return h.finish_lr
    last = factor(h.lr_schedule, h.rounds - 1, decay=h.lr_decay, rounds=h.rounds, warmup=h.warmup)
    return _SHARE * last * (h.head_lr if h.finish.startswith("head") and "head_lr" in uses else h.body_lr)


class Finishing:
    """Fine-tuning at home as `--finish` asks for it.

    Args:
        algorithm: The peer's algorithm.
        peer: The trainer that it steers.

    Attributes:
        asked: Whether it asks for anything.
        found: The finished model; None before the end of the run.

    Raises:
        ConfigurationError: The task has no head.
    """

    def __init__(self, algorithm: Algorithm, peer: Trainer) -> None:
        h = peer.hyperparameters
        self._algorithm, self._peer = algorithm, peer
        part, _, epochs = h.finish.partition(":")
        self.asked, self._epochs = part != "none", int(epochs or 0)
        self._of_head = part == "head"
        self._places = [
            (parameter, here) for name, parameter, here in peer.model.layout if is_under(name, peer.task.head)
        ]
        self.found: Predicted | None = None
        if self._of_head and not self._places:
            raise ConfigurationError(
                f"--finish {h.finish}: nothing of the task's head is trained; --finish all:{self._epochs} trains the "
                "whole model"
            )

    def forget(self) -> None:
        """Drop the finished model: it is of an earlier end of the run."""
        self.found = None

    def train(self) -> None:
        """Train a copy of the model that predicts.

        Raises:
            Interrupted: The trainer was asked to stop; nothing has changed.
            TaskError: The task's model, loss or data raised.
        """
        peer, predictor = self._peer, self._algorithm.predictor(self._peer)
        values = peer.model.data if predictor is None else predictor  # of which `holding` makes a copy
        with peer.holding(values, self._algorithm.untrained() or peer.untrained.copies()):
            step = at_rate(peer.optimizer, self.rate)
            if self._of_head:
                self._fit_head(step)
            else:
                self._fit_all(step)
            self.found = Predicted.now(peer)

    def _fit_all(self, step: Step) -> None:
        peer, held = self._peer, self._algorithm.held()
        step = step if held is None else projected(step, lambda values: values.mul_(held))
        peer.fit(peer.model, epochs=self._epochs, lr=self.rate, step=step, phase=_PHASE)

    def _fit_head(self, step: Step) -> None:
        """Step the head's values in a vector of their own, since an algorithm that shares all has them in its body."""
        peer, held, whole = self._peer, self._algorithm.held(), self._peer.model
        copies = [(str(index), nn.Parameter(one.detach().clone())) for index, (one, _) in enumerate(self._places)]
        own = Flat(_PHASE, copies)
        pairs = [(here, there) for (_, here), (_, _, there) in zip(self._places, own.layout, strict=True)]

        def gradient(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
            for parameter, _ in self._places:
                parameter.requires_grad_(True)
            loss = peer.gradient(whole, batch)
            for here, there in pairs:
                part.grad[there].copy_(whole.grad[here])
            return loss

        def put(values: Tensor) -> None:
            for here, there in pairs:
                if held is not None:
                    values[there].mul_(held[here])
                whole.data[here].copy_(values[there])

        peer.fit(own, epochs=self._epochs, lr=self.rate, gradient=gradient, step=projected(step, put))

    @property
    def rate(self) -> float:
        """The learning rate."""
        return finish_rate(self._peer.hyperparameters, self._algorithm.uses)

    def predictor(self) -> Tensor | None:
        """The parameters that predict, as `Algorithm.predictor` gives them."""
        return self._algorithm.predictor(self._peer) if self.found is None else self.found.values

    def untrained(self) -> Mapping[str, Tensor] | None:
        """The buffers that go with them."""
        return self._algorithm.untrained() if self.found is None else self.found.untrained

    def state(self) -> Mapping[str, Tensor]:
        """See `Stateful`."""
        return {} if self.found is None else self.found.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Stateful`."""
        self.found = Predicted.from_state(state, self._peer.model.count)
