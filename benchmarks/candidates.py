"""DFedSMDC with the candidates of `benchmarks/defaults.py` in place of a fixed radius and a fixed rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeer.training import Trainer, option, sam
from dpeer.training.algorithms.dfedsmdc import DFedSMDC


class Candidate(DFedSMDC):
    """DFedSMDC whose radius depends on the body or on the round, or whose rate each peer finds in its first round."""

    draws = False

    @dataclass(frozen=True)
    class Options(DFedSMDC.Options):
        """What is tried; each is off by default."""

        relative: float = option(0.0, "the radius as a share of the body's length, in place of rho", ge=0)
        ramp: int = option(0, "rounds over which the radius grows to its full length", ge=0)
        find: bool = option(False, "try rates for two epochs each before the first round; keep the best by loss")

    _factor = 1.0

    def train(self, peer: Trainer) -> None:
        """A round of DFedSMDC, with the radius and the rates of this peer."""
        h, o = peer.hyperparameters, self.options
        if o.find and peer.number == 0:
            self._factor = self._found(peer)
        peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr * self._factor)
        perturbed = sam(self._radius(peer))
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr * self._factor, gradient=perturbed)

    def _radius(self, peer: Trainer) -> float:
        o = self.options
        radius = o.relative * float(torch.linalg.vector_norm(peer.body.data)) if o.relative else float(o.rho)
        return radius * min(1.0, (peer.number + 1) / o.ramp) if o.ramp else radius

    def _found(self, peer: Trainer) -> float:
        """The factor of the rates with which the training loss is the lowest in the second of two epochs."""
        h, losses = peer.hyperparameters, {}
        for factor in (1.0, 0.3, 0.1, 0.03):
            with peer.holding(peer.model.data.clone(), peer.untrained.copies()):
                peer.fit(peer.model, epochs=2, lr=h.body_lr * factor, phase="find")
            losses[factor] = peer.loss if peer.loss is not None and math.isfinite(peer.loss) else math.inf
        return min(losses, key=lambda factor: losses[factor])

    def state(self) -> Mapping[str, Tensor]:
        """The rate that was found."""
        return {"factor": torch.tensor([self._factor])}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave."""
        self._factor = float(state["factor"].item())
