"""Local fine-tuning at the end (`--finish`): epochs on own data after the last mixing, never shared.

After the last mixing a model is a compromise between the peers. `--finish head:E` trains its head, and `--finish all:E`
all of it, for E epochs on the peer's own data:

    w <- the model that predicts after the last mixing
    w <- w - lr g(w)        for E epochs of minibatches, of all parameters or of the head's alone

What is trained is a copy: a run that is continued with more rounds goes on from what the neighbors know. It is
FedBABU's last step (Oh, Kim and Yun, ICLR 2022), and FedRep's published code ends with epochs of the head.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

from torch import Tensor, nn

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.plugins import predictor_of
from dpeer.training.batch_loader import Batch
from dpeer.training.flat import Flat
from dpeer.training.optimizers import projected
from dpeer.training.setting_texts import Finish
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import is_under
from dpeer.training.trainer import Rates, Trainer

_SHARE = 0.25
"""Of the last round's learning rate, where the user gives none."""

_PHASE = "finish"


def finish_rate(h: Hyperparameters, uses: Collection[str]) -> float:
    """The learning rate of `--finish`; a head may have a rate of its own where the algorithm `uses` it."""
    finish = Finish.parse(h.finish)
    if finish.rate is not None:
        return finish.rate
    last = Rates.of(h, h.rounds - 1)
    share = _SHARE * (last.head if finish.part == "head" and "head_lr" in uses else last.body)
    return max(share, sys.float_info.min)  # after a million rounds of --lr-decay the last rate is 0


class Finishing:
    """Fine-tuning at home as `--finish` asks for it.

    Attributes:
        asked: Whether it asks for anything.
        rate: The learning rate.
        state: The finished model, as `Net.snapshot` gives it; empty before the end of the run.
    """

    def __init__(self, algorithm: Algorithm, peer: Trainer) -> None:
        h = peer.hyperparameters
        self._algorithm, self._peer = algorithm, peer
        finish = Finish.parse(h.finish)
        self.asked, self._epochs, self._of_head = finish.part != "none", finish.epochs, finish.part == "head"
        self.rate = finish_rate(h, algorithm.uses)
        self.state: dict[str, Tensor] = {}

    def forget(self) -> None:
        """Drop the finished model: it is of an earlier end of the run."""
        self.state.clear()

    def train(self) -> None:
        """Train a copy of the model that predicts.

        Raises:
            Interrupted: The trainer was asked to stop; nothing has changed.
            TaskError: The task's model, loss or data raised.
        """
        peer, predictor = self._peer, predictor_of(self._algorithm, self._peer)
        values = peer.model.data if predictor is None else predictor  # of which `holding` makes a copy
        with peer.holding({"values": values, **peer.untrained.copies()}):
            if self._of_head:
                self._fit_head()
            else:
                peer.fit(peer.model, epochs=self._epochs, lr=self.rate, phase=_PHASE)
            found = peer.snapshot()
        self.state |= found

    def _fit_head(self) -> None:
        """Step the head's values in a vector of their own, since an algorithm that shares all has them in its body."""
        peer, whole = self._peer, self._peer.model
        places = [(one, here) for name, one, here in whole.layout if is_under(name, peer.task.head)]
        copies = [(str(index), nn.Parameter(one.detach().clone())) for index, (one, _) in enumerate(places)]
        own = Flat(_PHASE, copies)
        pairs = [(here, there) for (_, here), (_, _, there) in zip(places, own.layout, strict=True)]

        def gradient(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
            for parameter, _ in places:
                parameter.requires_grad_(True)
            loss = peer.gradient(whole, batch)
            for here, there in pairs:
                part.grad[there].copy_(whole.grad[here])
            return loss

        def put(values: Tensor) -> None:
            for here, there in pairs:
                whole.data[here].copy_(values[there])

        peer.fit(own, epochs=self._epochs, lr=self.rate, gradient=gradient, step=projected(peer.optimizer, put))

    def predicting(self) -> Tensor | Mapping[str, Tensor] | None:
        """What predicts, for `Net.holding`: the finished model, or what the algorithm says."""
        return self.state or predictor_of(self._algorithm, self._peer)
