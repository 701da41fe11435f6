"""Backend choice: the quickest per-example gradients that suit the model and pass a self-test on this machine.

`by_layers` serves models of known layers (`separable_layers`), `vectorized` these and models whose author vouches for
them (`Task.vmap`), `one_by_one` everything else. A backend is taken only if it passes a self-test on the machine at
hand: on synthetic examples it must give the gradient of the example alone, with the same last bits at every place.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpeer.training.device import mapped
from dpeer.training.dpsgd.backends import Backend, one_by_one, take, take_pair, vectorized
from dpeer.training.dpsgd.by_layers import by_layers
from dpeer.training.dpsgd.gradient_factors import ExampleGradients
from dpeer.training.dpsgd.separable_layers import is_known_loss, is_known_model
from dpeer.training.flat import Flat
from dpeer.training.net import Net

_COMPARED = 4
"""Synthetic examples that are computed by each backend, and alone."""

_CLOSE = 1e-3
"""How much gradients and losses may differ, relative to their size, that are computed alone and together."""

_ROUNDING = 1e-5
"""How much a parameter's gradient may differ relative to the longest whole gradient: what is zero but for rounding has
no size of its own."""


def choose(net: Net, part: Flat, rows: int) -> Backend:
    """The quickest backend for these parameters; to be called within `Net.training`.

    Which one is taken must not follow from a record, or the last bits of all other gradients would: so inputs, targets
    and weights of the self-test are drawn. Drawn weights also open gates that begin at zero and hide what is behind.

    Args:
        net: Whose task it is.
        part: What is trained.
        rows: How many examples are always computed together.
    """
    allowed = _allowed(net)
    if not allowed:
        return one_by_one
    inputs, targets = _synthetic(net, *net.data.each(net.data.located(torch.arange(rows) % len(net.data))))
    few = torch.arange(min(_COMPARED, rows))
    with net.untrained.kept(), net.holding(usual_weights(net.model)):
        try:
            alone = one_by_one(net, part, take(inputs, few), take(targets, few), len(few))
        except Exception:  # drawn numbers that mean nothing to the model
            return one_by_one
        return next((each for each in allowed if _passes(each, net, part, inputs, targets, rows, alone)), one_by_one)


def _allowed(net: Net) -> list[Backend]:
    """The backends that compute several examples at once and suit the model and the loss, the quickest first."""
    vouched = net.task.vmap
    if not is_known_model(net.module):
        return [vectorized] if vouched else []
    return [by_layers, vectorized] if vouched or is_known_loss(net.loss_function) else [by_layers]


def _synthetic(net: Net, inputs: Any, targets: Any) -> tuple[Any, Any]:
    """A minibatch with the shapes and dtypes of another one, and nothing else of it.

    Floats are from 0 to 1, for what takes a root of them; tokens are from the vocabulary, other whole numbers 0 or 1.
    """
    generator = torch.Generator().manual_seed(0)
    options = {} if net.task.built is None else net.task.built["options"]
    vocabulary = int(options.get("vocabulary", 2))

    def drawn(below: int, tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return torch.rand(tensor.shape, generator=generator).to(tensor)
        return torch.randint(below, tensor.shape, generator=generator).to(tensor)

    return mapped(inputs, partial(drawn, vocabulary)), mapped(targets, partial(drawn, 2))


def usual_weights(model: Flat) -> Tensor:
    """Drawn weights as large as a layer's first ones, vectors about 1; shape (count,)."""
    generator, values = torch.Generator().manual_seed(0), torch.empty_like(model.data)
    for _, parameter, place in model.layout:
        drawn = 2 * torch.rand(parameter.numel(), generator=generator, device="cpu") - 1
        fan_in = parameter.numel() / len(parameter) if parameter.ndim > 1 else 0
        values[place] = (drawn / math.sqrt(fan_in) if fan_in else 1 + 0.1 * drawn).to(values.device)
    return values


def _passes(
    backend: Backend, net: Net, part: Flat, inputs: Any, targets: Any, rows: int, alone: ExampleGradients
) -> bool:
    """Whether a backend gives the first examples the gradients that they have alone, and the same bits at any place.

    Gradients are looked at one by one: no more of them are in memory than in a step.
    """
    every, first = torch.arange(rows), dict[int, tuple[Tensor, Tensor, Tensor]]()
    for order in (every, every.flip(0), every % alone.examples, torch.zeros_like(every)):
        try:
            found = backend(net, part, *take_pair(net.compute, inputs, targets, order), rows)
        except Exception:  # what torch, or the task's code with tensors that it does not expect, cannot do
            return False
        norms = found.norms()
        for row, example in enumerate(order.tolist()):
            if example < alone.examples:
                seen = found.row(row), norms[row], found.losses[row]
                before = first.setdefault(example, seen)
                if before is seen and not _is_close(part, alone, example, *seen):
                    return False
                if not all(map(torch.equal, before, seen)):
                    return False
    return True


def _is_close(part: Flat, alone: ExampleGradients, example: int, row: Tensor, norm: Tensor, loss: Tensor) -> bool:
    """Whether gradient, its length and the loss are those of the example alone, but for rounding."""
    expected, rounding = alone.row(example), _ROUNDING * float(alone.norms().max())
    return (
        torch.allclose(loss, alone.losses[example], rtol=_CLOSE, atol=_CLOSE)
        and abs(float(norm) - _length(row)) <= _CLOSE * _length(expected) + rounding
        and all(
            _length((row - expected)[place]) <= _CLOSE * _length(expected[place]) + rounding
            for _, _, place in part.layout
        )
    )


def _length(vector: Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))
