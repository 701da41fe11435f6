"""Masks of sparse models: ERK densities, and prune-and-regrow by magnitude and gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def erk_densities(shapes: Sequence[Sequence[int]], density: float) -> list[float]:
    """The share of each layer's weights that is held, so that all layers together are as dense as asked.

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
            # Small layers can be more than all there is to hold: then nothing is left for the others.
            return [1.0 if i in dense else max(0.0, scale * raw[i]) for i in range(len(shapes))]
        dense |= {i for i in range(len(shapes)) if raw[i] == highest}
    return [1.0] * len(shapes)


def exchanged(held: Tensor, weights: Tensor, gradient: Tensor, share: float) -> Tensor:
    """A layer's mask after the smallest weights held made place for those with the largest gradients.

    Args:
        held: Which weights are held, shape (count,), bool.
        weights: Their values, shape (count,).
        gradient: Of all weights, shape (count,).
        share: How many of the weights held are exchanged, rounded up.

    Returns:
        The new mask, with as many weights as the old one. A weight can come back at once.
    """
    number = math.ceil(share * int(held.sum()))
    smallest = torch.where(held, weights.abs(), torch.inf).argsort(stable=True)[:number]
    mask = held.clone()
    mask[smallest] = False
    largest = torch.where(mask, -torch.inf, gradient.abs()).argsort(descending=True, stable=True)[:number]
    mask[largest] = True
    return mask
