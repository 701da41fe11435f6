"""Dis-PFL: every peer trains a sparse model of its own, and only what two peers both hold is averaged between them.

Dai et al., DisPFL: Towards Communication-Efficient Personalized Federated Learning via Decentralized Sparse Training,
ICML 2022, Algorithm 1, as its published code does it. Round t of peer k with mask m_k, T rounds being planned:

    w_k <- SGD steps, the mask applied after each
    m'  <- m_k less the smallest weights of each layer, a share alpha/2 (1 + cos(pi t / T)) of them, plus as many
           weights outside it whose gradients on one minibatch are the largest
    send w_k with m_k
    w_k <- for each weight the mean over those neighbors, and itself, who hold it; then m' applied;  m_k <- m'

The layers' densities are those of an Erdos-Renyi kernel (ERK, Evci et al., Rigging the Lottery, ICML 2020). All peers
start from one mask, the code's default. The mean is weighted by W; with uniform weights it is the code's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import option
from dpeer.training.randomness import Purpose, stream
from dpeer.training.trainer import Trainer


def erk_densities(shapes: Sequence[Sequence[int]], density: float) -> list[float]:
    """The share of each layer's weights that a mask has, so that all layers together are as dense as asked.

    The Erdos-Renyi kernel of Evci et al., Rigging the Lottery: Making All Tickets Winners, ICML 2020: a layer's density
    is proportional to the sum of its dimensions over their product; layers for which that would be more than all are
    dense, and the others make up for it.

    Args:
        shapes: The layers' dimensions.
        density: Share of all weights, over 0 and at most 1.
    """
    counts = [math.prod(shape) for shape in shapes]
    raw = [sum(shape) / count if shape and count else 1.0 for shape, count in zip(shapes, counts, strict=True)]
    dense = {i for i, count in enumerate(counts) if not count}
    while len(dense) < len(shapes):
        rest = density * sum(counts) - sum(counts[i] for i in dense)
        scale = rest / sum(raw[i] * counts[i] for i in range(len(shapes)) if i not in dense)
        highest = max(raw[i] for i in range(len(shapes)) if i not in dense)
        if scale * highest <= 1:
            # Small layers can take more than the whole density: nothing is left for the others then.
            return [1.0 if i in dense else max(0.0, scale * raw[i]) for i in range(len(shapes))]
        dense |= {i for i in range(len(shapes)) if raw[i] == highest}
    return [1.0] * len(shapes)


def exchanged(mask: Tensor, weights: Tensor, gradient: Tensor, share: float) -> Tensor:
    """A layer's mask after its smallest weights made place for those with the largest gradients.

    Args:
        mask: Which weights it has, shape (count,), bool.
        weights: Their values, shape (count,).
        gradient: Of all weights, shape (count,).
        share: How many of its weights are exchanged, rounded up.

    Returns:
        The new mask, with as many weights as the old one. A weight can come back at once.
    """
    number = math.ceil(share * int(mask.sum()))
    smallest = torch.where(mask, weights.abs(), torch.inf).argsort(stable=True)[:number]
    new = mask.clone()
    new[smallest] = False
    largest = torch.where(new, -torch.inf, gradient.abs()).argsort(descending=True, stable=True)[:number]
    new[largest] = True
    return new


_ROUNDING = 1e-6  # of densities: a layer of all its weights is 0.999... of them


class DisPFL(Algorithm):
    """The whole model, but never more than a part of it at once."""

    name = "dis-pfl"
    summary = "each peer trains a sparse model with a mask of its own; weights are averaged over those who hold them"
    paper = "Dai et al.: DisPFL: Towards Communication-Efficient Personalized Federated Learning, ICML 2022"
    shares = "model"
    leaves = "what is held of the model"

    @dataclass(frozen=True)
    class Options:
        """How sparse a model is."""

        sparsity: float = option(0.5, "share of the weights that are zero", ge=0, lt=1)
        prune_rate: float = option(0.5, "share of the weights exchanged in the first round", ge=0, le=1)

    def start(self, peer: Trainer) -> None:
        """Draw the mask, the same on all peers.

        Raises:
            TaskError: Nothing would be left of a layer.
        """
        layers = [parameter.shape for _, parameter, _ in peer.model.layout]
        densities = erk_densities(layers, 1 - self.options.sparsity)
        mask = torch.zeros(peer.model.count, dtype=torch.bool, device="cpu")
        for index, ((name, parameter, here), density) in enumerate(zip(peer.model.layout, densities, strict=True)):
            order = stream(peer.seed, Purpose.MASK, index).permutation(parameter.numel())
            number = int(density * parameter.numel() + _ROUNDING)
            if parameter.numel() and not number:
                raise TaskError(
                    f"option sparsity={self.options.sparsity:g} leaves nothing of {name!r}: small layers are kept "
                    "whole first; choose less"
                )
            mask[here][torch.from_numpy(order[:number])] = True
        peer.mask = self.state["mask"] = mask.to(peer.compute.device)
        self._next = peer.mask.clone()
        peer.model.data.mul_(peer.mask)

    def train(self, peer: Trainer) -> None:
        """Sparse SGD steps, then another mask."""
        h, mask = peer.hyperparameters, self.state["mask"]
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body)
        share = self.options.prune_rate / 2 * (1 + math.cos(math.pi * peer.number / h.rounds))
        gradient, values = self._screened(peer), peer.model.data
        for _, _, here in peer.model.layout:
            self._next[here] = exchanged(mask[here], values[here], gradient[here], share)

    def _screened(self, peer: Trainer) -> Tensor:
        """The gradient of all weights, masked out or not, on one minibatch, in evaluation mode as in the code."""
        with peer.training(peer.model):
            peer.module.eval()
            peer.gradient(peer.model, next(peer.minibatches("screen", 1)))
        return peer.model.grad

    def mixed(self, peer: Trainer) -> None:
        """The next mask holds from now on."""
        peer.model.data.mul_(self.state["mask"].copy_(self._next))
