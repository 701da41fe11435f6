"""What privacy at sample level refuses in a task before anything is trained, each in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training.batches import Batches, predict
from dpeer.training.broadcasting import check_broadcast
from dpeer.training.device import tensors_of
from dpeer.training.dpsgd.examples import check_alike, check_examples
from dpeer.training.dpsgd.state import remembered
from dpeer.training.errors import blame
from dpeer.training.randomness import generator_states
from dpeer.training.unread import unread

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

CLOSE = 1e-3
"""How much gradients and losses may differ, relative to their size, that are computed alone and together."""

_NEW = object()
"""Where there is nothing."""


def evaluate(peer: Trainer, inputs: Any) -> None:
    """Look at an example as evaluation does, for what is kept of it would be in the next round's gradients."""
    peer.module.eval()
    try:
        with torch.no_grad(), blame("the task's model failed on a training example in evaluation mode"):
            predict(peer.module, inputs)
    finally:
        peer.module.train()


def changed(before: Mapping[str, Any], after: Mapping[str, Any], *, growing: bool = False) -> str | None:
    """The first path at which two snapshots of `remembered` differ; None where none does.

    Args:
        before: The earlier one.
        after: The later one.
        growing: Whether what was empty may be filled: then a difference is a value that was there and is another one.
    """
    if not growing:
        return next((path for path in [*before, *after] if before.get(path, _NEW) != after.get(path, _NEW)), None)
    # A file that is opened when it is first needed is None or False before, too.
    empty = {path for path, value in before.items() if value is None or value is False or path.endswith(".length")}
    both = [path for path in before if path in after and path not in empty]
    return next((path for path in both if before[path] != after[path]), None)


def check_memory(path: str | None) -> None:
    """Refuse a task whose code has changed an attribute while it looked at examples.

    Args:
        path: Where, as `changed` says it.

    Raises:
        TaskError: It has.
    """
    if path is not None:
        raise TaskError(
            f"{path} has changed while the model looked at examples: what it keeps of some would be in the "
            "gradients of others, without noise; privacy at sample level needs a model, a loss and data that keep "
            "nothing (set what does not depend on the data when they are made)"
        )


def check_read_again(first: Sequence[tuple[Any, Any]], again: Sequence[tuple[Any, Any]]) -> None:
    """Refuse data of which an example is another one when it is read after others.

    Args:
        first: Minibatches of one example each.
        again: The same, read later.

    Raises:
        TaskError: One of them differs in a bit.
    """
    for one, other in zip(first, again, strict=True):
        values, later = tensors_of(one), tensors_of(other)
        if len(values) != len(later) or not all(map(_same, values, later)):
            raise TaskError(
                "the task's training data give other values for an example when others were read before it: privacy "
                "at sample level needs each example to depend on itself alone (change inputs at random in the task's "
                "`augment`)"
            )


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def check_collate(peer: Trainer) -> None:
    """Refuse data of which some examples have another shape or type than others, and are padded or converted together.

    Data in memory have one; others are read once.

    Raises:
        TaskError: There are two such examples, or `collate` keeps something of them.
    """
    if peer.data.in_memory:
        return
    kept, first = remembered(None, [peer.task.collate]), None
    for number in range(len(peer.data)):
        one = cut(peer, peer.data.located(torch.tensor([number], device="cpu")))
        first = first or one
        for ours, its, what in zip(first, one, ("inputs", "targets"), strict=True):
            check_alike(ours, its, what)
    check_memory(changed(kept, remembered(None, [peer.task.collate])))


def check_first_read(peer: Trainer) -> None:
    """Refuse data whose examples depend on which of them is read first.

    Raises:
        TaskError: They do.
    """
    fresh = unread(peer.task.unread)  # which stays as it is, for whoever looks next
    if peer.data.in_memory or fresh is None:
        return
    other = Batches("train", fresh, peer.task.collate, peer.compute)
    for number in (len(peer.data) - 1, 0):
        index = torch.tensor([number], device="cpu")
        values, same = (tensors_of(data.each(data.located(index))) for data in (other, peer.data))
        if len(values) != len(same) or not all(map(_same, values, same)):
            raise TaskError(
                "the task's training data give other values for an example when the last one is read first: something "
                "is settled by the first one that is read (a scale, a length, ...), and all others follow from it; "
                "privacy at sample level needs each example to depend on itself alone: say it when the data are made"
            )


def cut(peer: Trainer, index: Tensor) -> tuple[Any, Any]:
    """The minibatch of these examples, if it can be cut into them."""
    inputs, targets = peer.data.each(index)
    check_examples(inputs, len(index), "inputs")
    check_examples(targets, len(index), "targets")
    return inputs, targets


def check_settings(peer: Trainer) -> None:
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


def check_model(module: nn.Module) -> None:
    """Refuse layers of which it is known that they couple examples, draw, or cannot be looked into.

    Raises:
        TaskError: There is one.
    """
    for name, layer in module.named_modules():
        if layer._compiled_call_impl is not None:
            raise TaskError(
                f"{type(layer).__name__} {name!r} is compiled (model.compile()), and what compiled code keeps of "
                "examples cannot be seen: privacy at sample level needs a model that is not"
            )
        if isinstance(layer, _BatchNorm) and (layer.training or not layer.track_running_stats):
            raise TaskError(
                f"{type(layer).__name__} {name!r} computes each example from the others of its batch, so there is no "
                "gradient of a single one: privacy at sample level needs torch.nn.GroupNorm or LayerNorm instead"
            )


def check_still(peer: Trainer, before: object, buffers: Mapping[str, Tensor]) -> None:
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
        if name not in buffers or not same_bits(value, buffers[name]):
            raise TaskError(
                f"the model's forward changes {name!r} in training, which carries what it has seen of one example into "
                "the gradients of others, without noise: privacy at sample level needs a model that keeps its buffers"
            )


def check_unwritten(peer: Trainer, values: Tensor) -> None:
    """Refuse a task whose code writes to trained parameters: what it writes of an example would leave without noise.

    The values are put back.

    Args:
        peer: Whose task it is.
        values: What `peer.model.data` must be.

    Raises:
        TaskError: It does.
    """
    peer.reattach()
    found = peer.model.data
    if same_bits(found, values):
        return
    name = next(name for name, _, place in peer.model.layout if not same_bits(found[place], values[place]))
    found.copy_(values)
    raise TaskError(
        f"the task's model or loss writes to the trained parameter {name!r} while it computes (as torch.nn.Embedding "
        "with max_norm does), and what it writes of an example would leave this peer without noise: privacy at sample "
        "level needs one that changes nothing that is trained"
    )


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same, also where they are not numbers, as a neighbor's body may not be."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def check_batch(peer: Trainer, inputs: Any, targets: Any, losses: Tensor) -> None:
    """Refuse a loss of a batch that is not the mean of its examples' losses, or these themselves.

    Raises:
        TaskError: It is not.
    """
    with torch.no_grad(), blame("the task's model or loss failed on a training batch"):
        outputs = predict(peer.module, inputs)
        check_broadcast(peer.loss_function, outputs, targets)
        found = peer.loss_function(outputs, targets).detach().float()
    if found.shape == losses.shape and len(losses) > 1:
        same = torch.allclose(found, losses, rtol=CLOSE, atol=CLOSE)
    elif found.numel() == 1:
        same = torch.allclose(found.reshape(()), losses.mean(), rtol=CLOSE, atol=CLOSE)
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
