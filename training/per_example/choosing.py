"""Which way of computing per-example gradients suits a model, and which models have none.

Sampling and clipping by example promise nothing where one example can change what is computed from another. So the
start looks at a few examples, each alone, then all together, and refuses what differs. Of the ways that give the same
gradients the quickest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training.augmentation import augmented
from dpeer.training.batches import predict
from dpeer.training.device import mapped
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.per_example.examples import check_examples
from dpeer.training.per_example.layers import by_layers
from dpeer.training.per_example.parts import Computed
from dpeer.training.per_example.state import remembered
from dpeer.training.per_example.ways import Way, one_by_one, vectorized
from dpeer.training.randomness import LOCK, generator_states, undisturbed

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_LOOKED_AT = 8
"""Examples that the start looks at."""

_EXTREME = 4
"""How many of the examples that are farthest from zero are looked at besides."""

_NEW = object()
"""Where there is nothing."""

_CLOSE = 1e-3
"""How much gradients and losses may differ, relative to their size, that are computed alone and together."""

WAYS: Mapping[str, Way] = {"layers": by_layers, "vectorized": vectorized, "one-by-one": one_by_one}
"""By what tests and benchmarks call them; the quickest first."""


def choose(peer: Trainer, part: Flat) -> Way:
    """The quickest way that suits the task, for these parameters; to be called within `Trainer.training`.

    Raises:
        TaskError: The model, its loss or its data couple examples, or draw random numbers.
        ConfigurationError: The precision is too low.
    """
    _check_settings(peer)
    _check_model(peer.module)
    count = min(_LOOKED_AT, peer.num_samples)
    # From all over the data: the first ones are often of one class. And those that are like no others.
    rows = torch.cat([torch.arange(count, device="cpu") * peer.num_samples // count, peer.data.longest(_EXTREME)])
    rows = torch.unique(rows)
    index, count = peer.data.located(rows), len(rows)
    with LOCK, undisturbed():  # or another peer's draws would be taken for this one's
        before, buffers = generator_states(part.data.device), peer.untrained.copies()
        attributes = remembered(peer.module, _functions(peer))
        singles = [_cut(peer, index[i : i + 1]) for i in range(count)]
        alone = [one_by_one(peer, part, *single, 1) for single in singles]
        _evaluate(peer, singles[0][0])
        if peer.task.augment is not None:
            augmented(peer.task.augment, singles[0][0], np.random.default_rng(0))
        peer.reattach()
        _check_still(peer, before, buffers)
        _check_memory(peer, attributes)
        inputs, targets = _cut(peer, index)
        losses = torch.cat([one.losses for one in alone])
        gradients = torch.cat([one.sums(torch.ones(1, 1, device=losses.device)) for one in alone])
        if not losses.isfinite().all() or not gradients.isfinite().all():
            raise TaskError(
                f"the loss of one of {count} training examples, or its gradient, is not finite: privacy at "
                "sample level needs the loss of each example alone (targets that a loss ignores have none)"
            )
        _check_batch(peer, inputs, targets, losses)
        for way in WAYS.values():
            try:
                found = way(peer, part, inputs, targets, count)
            except Exception:
                if way is one_by_one:
                    raise
                continue  # what torch, or the task's code in an unusual place, cannot do
            if _agree(found, losses, gradients):
                return way
    raise TaskError(
        "the task's model or data couple examples: the gradient of one example differs when it is taken from a batch "
        "with others (padding to the longest of a batch does that); have the dataset give each example as it is alone"
    )


def _functions(peer: Trainer) -> list[Any]:
    """What of a task may remember something besides its model."""
    task = peer.task
    return [task.loss, task.augment, task.collate, task.metrics]


def _evaluate(peer: Trainer, inputs: Any) -> None:
    """Look at an example as evaluation does, for what is kept of it would be in the next round's gradients."""
    peer.module.eval()
    try:
        with torch.no_grad(), blame("the task's model failed on a training example in evaluation mode"):
            predict(peer.module, inputs)
    finally:
        peer.module.train()


def _check_memory(peer: Trainer, before: Mapping[str, Any]) -> None:
    """Refuse a task whose code has changed an attribute while it looked at examples.

    Raises:
        TaskError: It has.
    """
    after = remembered(peer.module, _functions(peer))
    changed = next((path for path in [*before, *after] if before.get(path, _NEW) != after.get(path, _NEW)), None)
    if changed is not None:
        raise TaskError(
            f"{changed} has changed while the model looked at examples: what it keeps of some would be in the "
            "gradients of others, without noise; privacy at sample level needs a model and a loss that keep nothing "
            "(set what does not depend on the data when they are made)"
        )


def check_collate(peer: Trainer) -> None:
    """Refuse a collate function that makes an example longer or shorter with others than alone.

    Raises:
        TaskError: Examples that are collated alone differ in shape, so that together some are padded.
    """
    if peer.task.collate is None:
        return
    shapes: set[str] = set()
    for number in range(peer.num_samples):
        inputs, _ = _cut(peer, peer.data.located(torch.tensor([number], device="cpu")))
        shapes.add(str(mapped(inputs, _shape)))
        if len(shapes) > 1:
            one, other = sorted(shapes)
            raise TaskError(
                f"the task's collate gives inputs of shapes {one} and {other} for single examples, so that in a batch "
                "one depends on how long the others are: privacy at sample level needs all to have one shape; pad to "
                "a fixed length"
            )


def _shape(tensor: Tensor) -> Any:
    return tuple(tensor.shape)


def _cut(peer: Trainer, index: Tensor) -> tuple[Any, Any]:
    """The minibatch of these examples, if it can be cut into them."""
    inputs, targets = peer.data.take(index)
    check_examples(inputs, len(index), "inputs")
    check_examples(targets, len(index), "targets")
    return inputs, targets


def _check_settings(peer: Trainer) -> None:
    """Refuse settings with which an example's gradient depends on others.

    Raises:
        ConfigurationError: There is one.
    """
    if peer.compute.amp is not None:
        raise ConfigurationError(
            f"--amp {peer.compute.amp}: privacy at sample level computes in float32, because in {peer.compute.amp} an "
            "example's gradient depends too much on which others are computed beside it; leave --amp out"
        )
    if peer.hyperparameters.class_weights != "none":
        raise ConfigurationError(
            f"--class-weights {peer.hyperparameters.class_weights}: privacy at sample level cannot weight classes by "
            "how many examples each has, which is a fact about the data; leave it out"
        )


def _check_model(module: nn.Module) -> None:
    """Refuse layers of which it is known that they couple examples, or draw.

    Raises:
        TaskError: There is one.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or not layer.track_running_stats):
            raise TaskError(
                f"{type(layer).__name__} {name!r} computes each example from the others of its batch, so there is no "
                "gradient of a single one: privacy at sample level needs torch.nn.GroupNorm or LayerNorm instead"
            )


def _check_still(peer: Trainer, before: object, buffers: Mapping[str, Tensor]) -> None:
    """Refuse a task that draws, or whose model remembers examples.

    Raises:
        TaskError: It does.
    """
    if generator_states(peer.model.data.device) != before:
        drops = [
            f"{type(layer).__name__} {name!r}"
            for name, layer in peer.module.named_modules()
            if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p
        ]
        who = drops[0] if drops else "the task's model, loss or data"
        raise TaskError(
            f"{who} draws from the generators of torch, numpy or random, whose numbers follow from the public seed and "
            "from who is in the batch: privacy at sample level cannot have that (set dropout to 0: the noise does what "
            "it is for; change inputs at random in the task's `augment`)"
        )
    for name, value in peer.untrained.copies().items():
        if name not in buffers or not torch.equal(value, buffers[name]):
            raise TaskError(
                f"the model's forward changes {name!r} in training, which carries what it has seen of one example into "
                "the gradients of others, without noise: privacy at sample level needs a model that keeps its buffers"
            )


def _check_batch(peer: Trainer, inputs: Any, targets: Any, losses: Tensor) -> None:
    """Refuse a loss of a batch that is not the mean of its examples' losses, or these themselves.

    Raises:
        TaskError: It is not.
    """
    with torch.no_grad(), blame("the task's model or loss failed on a training batch"):
        found = peer.loss_function(predict(peer.module, inputs), targets).detach().float()
    if found.shape == losses.shape and len(losses) > 1:
        same = torch.allclose(found, losses, rtol=_CLOSE, atol=_CLOSE)
    elif found.numel() == 1:
        same = torch.allclose(found.reshape(()), losses.mean(), rtol=_CLOSE, atol=_CLOSE)
    else:
        raise TaskError(
            f"the task's loss gave a tensor of shape {tuple(found.shape)} for a batch of {len(losses)}; it must give "
            "one number for each example, or their mean"
        )
    if not same:
        raise TaskError(
            "the task's loss of a batch is not the mean of its examples' losses: privacy at sample level needs a mean "
            "over the batch, or a loss for each example, in which none depends on the others (leave out "
            "weights of classes, layers that mix the batch, and sums)"
        )


def _agree(found: Computed, losses: Tensor, gradients: Tensor) -> bool:
    if not torch.allclose(found.losses, losses, rtol=_CLOSE, atol=_CLOSE):
        return False
    theirs = found.sums(torch.eye(len(losses), device=losses.device))
    norms = torch.linalg.vector_norm(gradients, dim=1)
    apart = torch.linalg.vector_norm(theirs - gradients, dim=1)
    # The lengths are computed in a way of their own.
    return bool((apart <= _CLOSE * norms + 1e-6).all()) and torch.allclose(
        found.norms().float(), norms, rtol=_CLOSE, atol=1e-6
    )
