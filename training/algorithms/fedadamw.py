"""FedAdamW: AdamW with block-averaged second moments, corrected for noise, and steps along the mean change of all.

Liu et al., DP-FedAdamW: An Efficient Optimizer for Differentially Private Federated Large Models, Algorithm 1; with
`--privacy sample` this is DP-FedAdamW, without it FedAdamW. Round t of peer i, with a and c from the last mixing
(in the first round a = 0 and c = 0), and s^2 the variance of the noise in each coordinate of a gradient:

    m <- 0;  d <- c / (K lr of the round before)
    v <- max(a, 0) + s^2, the number of a block for each of its values
    repeat K times:
        g <- gradient of a minibatch, with --privacy sample clipped and noised
        m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
        r <- max(v - s^2, floor s^2)
        x <- x - lr (m / (1 - beta1^k) / (sqrt(r) + 1e-8) + gamma d + lambda x)
    send x, a <- the mean of v - s^2 in each block, and c <- the x that the round began with - x
    x, a, c <- sum_l W_il of everyone's

Where v has begun at zero, v / (1 - beta2^k) stands for v in r and in what is sent: in the first round, and for a block
all of whose gradients have been zero so far. Where it has begun at an estimate of the second moment, it is one from the
first step on, and nothing is divided.

What is sent is the second moment without the noise, because its variance is each peer's own: s = sigma C / (q N), and N
differs. So the same thing is averaged, and each peer adds what its own gradients will carry. It is not clamped when it
is sent, for the mean of clamped values is too large; it is where it is used.

The floor is a share of s^2. In the first steps v is a mean of few squares, and v - s^2 is far below the second moment,
or below zero, for many values; they would take the longest steps. Without noise no floor applies.

Where the paper says something else:

    equation 3          has one C too many: the noise of a mean of q N gradients is sigma C / (q N), as in equation 6
    batches             of fixed size are not what its accounting is for: here they are Poisson samples
    equation 8          has the root of what may be negative
    equation 9          has -lambda x in the bracket, so that weights would grow
    line 15             divides by 1 - beta2^k what has begun at v_bar: by 0.001 in the first step
    line 19             averages v with the noise's variance in it
    line 21             is the mean change of a round's clients, which the server sends to all: here neighbors average
                        their changes, which takes a second body's bytes (none with gamma=0)

The change of the mixed body would take no bytes, but it is also a step towards the neighbors, and following that feeds
back: the part of the disagreement that belongs to the eigenvalue l of W then obeys

    e(t + 1) = l ((1 + gamma) e(t) - gamma e(t - 1))

and grows without bound where l < -1 / (1 + 2 gamma), as on a hypercube. With averaged changes it is
e(t + 1) = l (e(t) - c(t)), c(t + 1) = gamma l c(t) + the gradients' part: bounded for every W while gamma < 1.

Where a sample of the peers trains and all take the mean of what it sends (`--participation-mode server`), who is not
in the sample follows that mean change in its next round, too, as the paper's clients do: for K it takes its own.

The head is trained in the same steps. Its second moments stay at home, and its d is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.fedper import LocalAdamW
from dpeer.training.algorithms.moments import Grouping, SecondMoments, second_moment_count
from dpeer.training.algorithms.options import option
from dpeer.training.flat import Flat
from dpeer.training.optimizers import AdamW, Knowledge
from dpeer.training.split import Split
from dpeer.training.trainer import Rates, Trainer

Aggregate = Literal["mean", "full", "none"]
"""The part of the second moments that travels: one number for each block, all of them, or nothing."""

_MOMENT, _CHANGE = "second_moment", "change"

_COVERED, _TRAINED = "covered", "trained"


class FedAdamW(Algorithm):
    """Body and head trained jointly by AdamW; the body and means of its second moments are shared."""

    name = "fedadamw"
    summary = (
        "body and head are trained at once by AdamW; the body and, for each block of it, the mean second moment are "
        "averaged; steps follow the mean change of all bodies; the noise of privacy is taken out of the moments"
    )
    paper = LocalAdamW.paper
    shares = "body"
    leaves = "the body, its change in the round, 4 bytes for each block (a layer, or a head's slice of q, k or v)"
    defaults: ClassVar[Mapping[str, Any]] = LocalAdamW.defaults

    @dataclass(frozen=True)
    class Options:
        """The parts of the method, each of which can be left out, as in Tables 6, 7 and 8."""

        aggregate: Aggregate = option("mean", "second moments that are averaged: mean of each block, full, or none")  # noqa: RUF009
        blocks: Grouping = option("layer", "what a block is: layer, or residual for a ResNet's residual blocks")  # noqa: RUF009
        correct: bool = option(True, "take the variance of the noise of --privacy sample out of the second moments")
        floor: float = option(0.1, "least second moment after that, as a share of the noise's variance", gt=0)
        gamma: float = option(0.5, "weight of the mean change in each step; with 0 no change is sent", ge=0, le=1)

        def __post_init__(self) -> None:
            if self.aggregate != "mean" and self.blocks != "layer":
                raise ValueError(f"blocks={self.blocks} has no effect with aggregate={self.aggregate}: leave it out")

    _moments: SecondMoments

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        parts = ["the body", "its change in the round"] if self.options.gamma else ["the body"]
        moments = {
            "mean": "4 bytes for each block (a layer, or a head's slice of q, k or v)",
            "full": "its second moments",
        }
        parts += [moments[self.options.aggregate]] if self.options.aggregate in moments else []
        self.leaves = ", ".join(parts)

    def extras(self, split: Split) -> Mapping[str, int]:
        """One second moment for each block of the body, or for each of its values; and the change of each value."""
        found = {_CHANGE: split.body_count} if self.options.gamma else {}
        if self.options.aggregate != "none":
            found[_MOMENT] = second_moment_count(split, self.options.aggregate == "full", self.options.blocks)
        return found

    def start(self, peer: Trainer) -> None:
        """Second moments and changes are zero at first."""
        shared = peer.extras[_MOMENT] if self.options.aggregate != "none" else None
        self._moments = SecondMoments(peer, shared, self.options.aggregate == "full", self.options.blocks, self.state)
        # K lr of the last round that was trained, and that round.
        self.state[_COVERED] = torch.zeros(1, dtype=torch.float64, device="cpu")
        self.state[_TRAINED] = torch.tensor([-1], device="cpu")

    def train(self, peer: Trainer) -> None:
        """K AdamW steps on body and head jointly."""
        h = peer.hyperparameters
        made: list[AdamW] = []
        noise = peer.noise_std**2 if self.options.correct else 0.0
        before, followed = peer.body.data.clone(), self._followed(peer)

        def step(flat: Flat) -> AdamW:
            known = Knowledge(self._moments.known(flat), noise, self.options.floor, _pull(peer, flat, followed))
            made.append(AdamW(flat, h.momentum, h.weight_decay, known))
            return made[-1]

        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, step=step)
        taken = made[-1].steps if made else 0  # privacy may grant none
        if taken:
            self._moments.learn(made[-1].second)
        if self.options.gamma:
            torch.sub(before, peer.body.data, out=peer.extras[_CHANGE])
        # All steps, whether a budget has ended them before or not: the mean change is that of all peers, and a peer
        # that has taken one step would follow it many times as fast in the next round.
        self.state[_COVERED].fill_(_cover(peer, peer.number) if taken else 0.0)
        self.state[_TRAINED].fill_(peer.number)

    def _followed(self, peer: Trainer) -> float:
        """Gamma over K lr of the round that the mean change is of; 0 where none is followed.

        After a round without training a change is out of date, but where a sample's mean change comes.
        """
        if self.state[_TRAINED] == peer.number - 1:
            covered = float(self.state[_COVERED])
        else:
            covered = _cover(peer, peer.number - 1) if peer.sampled_share < 1 else 0.0
        return self.options.gamma / covered if covered else 0.0


def _cover(peer: Trainer, number: int) -> float:
    """K lr of a round."""
    h = peer.hyperparameters
    return peer.planned_steps(h.body_epochs) * Rates.of(h, number).body


def _pull(peer: Trainer, flat: Flat, followed: float) -> Tensor | None:
    """Gamma d for what is trained, of which the body comes first; None where that is zero."""
    if not followed:
        return None
    pull = torch.zeros_like(flat.data)
    torch.mul(peer.extras[_CHANGE], followed, out=pull[: peer.body.count])
    return pull
