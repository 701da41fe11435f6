"""Task checks for DP-SGD: refuse what couples records (layers, losses, data); the replacement of BatchNorm.

Code of the user's own is trusted to compute each record from that record alone (docs/privacy.md). What is looked for
are layers and settings that are known not to, and mistakes that show in a single pass over a few records.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import predict
from dpeer.training.dpsgd.backend_choice import usual_weights
from dpeer.training.dpsgd.backends import loss_of_one
from dpeer.training.errors import blame
from dpeer.training.net import Net
from dpeer.training.objective import check_broadcast
from dpeer.training.randomness import LOCK, generator_states, undisturbed

_LOOKED_AT = 8
"""Examples, evenly from all over the data, that are computed alone and as one batch."""

_CLOSE = 1e-3
"""How much losses may differ, relative to their size, that are computed alone and together."""


def check_task(net: Net) -> None:
    """Refuse what would make a record's gradient depend on others; to be called within `Net.training`.

    Raises:
        TaskError: A layer, the loss or the data do; names it, and says what would be right.
    """
    for name, layer in net.module.named_modules():
        if problem := _problem(layer):
            raise TaskError(f"{name or 'the model'} ({type(layer).__name__}) {problem}")
    _check_few_examples(net)


def _problem(layer: nn.Module) -> str | None:
    """Why a layer is unsound under DP-SGD, and how to mend it; None where it is sound."""
    if isinstance(layer, _BatchNorm) and (layer.training or not layer.track_running_stats):
        return (
            "computes each example from the others of its batch, so that no single one has a gradient: "
            "`model = dpeer.training.replace_batch_norm(model)` puts GroupNorm in its place"
        )
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        return "keeps statistics of all examples in its buffers: make it with track_running_stats=False"
    if isinstance(layer, _DropoutNd) and layer.p:
        return (
            "draws random numbers that follow from the public seed and from who is in the batch: set its p to 0, for "
            "the noise does what it is for"
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
        return "writes to its weights while it computes, which no noise would cover: leave max_norm out"
    return None


def replace_batch_norm(model: nn.Module) -> nn.Module:
    """A copy of a model in which GroupNorm takes the place of every BatchNorm, with its affine parameters.

    Groups are at most 32, as in ResNets, and have at least four channels: of a single value nothing would be left.

    Args:
        model: The model; it stays as it is.
    """
    replaced = copy.deepcopy(model)
    made: dict[_BatchNorm, nn.GroupNorm] = {}
    places = [*replaced.named_modules(remove_duplicate=False)]  # one layer may stand at several
    for name, norm in places:
        if not isinstance(norm, _BatchNorm):
            continue
        if norm not in made:
            channels = norm.num_features
            groups = math.gcd(32, max(1, channels // 4), channels)
            made[norm] = nn.GroupNorm(groups, channels, norm.eps, norm.affine).train(norm.training)
            if norm.affine:
                made[norm].weight, made[norm].bias = norm.weight, norm.bias
        if not name:
            return made[norm]
        owner, _, own = name.rpartition(".")
        setattr(replaced.get_submodule(owner), own, made[norm])
    return replaced


def _check_few_examples(net: Net) -> None:
    """Compute a few examples alone and as a batch, at usual weights: initial ones may be sure, or cancel.

    Raises:
        TaskError: A loss is not finite, or that of the batch is no mean of theirs; the task draws from global
            generators, or changes its buffers.
    """
    total = len(net.data)
    known = torch.arange(min(_LOOKED_AT, total), device="cpu") * total // min(_LOOKED_AT, total)
    with LOCK, undisturbed(), torch.no_grad():  # or another peer's draws would be taken for this one's
        states, buffers = generator_states(net.model.data.device), net.untrained.copies()
        with net.untrained.kept(), net.holding(usual_weights(net.model)):
            losses = torch.stack(
                [loss_of_one(net, *net.data.each(net.data.located(one))).detach() for one in known[:, None]]
            )
            if generator_states(net.model.data.device) != states:
                raise TaskError(
                    "the task's model, loss or data draws from the generators of torch, numpy or random, whose numbers "
                    "follow from the public seed and from who is in the batch: privacy at sample level cannot have "
                    "that (set dropout to 0: the noise does what it is for; change inputs at random in the task's "
                    "`augment`)"
                )
            _check_buffers(net, buffers)
            if not losses.isfinite().all():
                raise TaskError(
                    f"the loss of one of {len(known)} training examples is not finite: privacy at sample level needs "
                    "the loss of each example alone (targets that a loss ignores have none)"
                )
            _check_batch(net, known, losses.float())


def _check_buffers(net: Net, before: dict[str, Tensor]) -> None:
    for name, value in net.untrained.copies().items():
        if name not in before or not torch.equal(value.nan_to_num(), before[name].nan_to_num()):
            raise TaskError(
                f"the model's forward changes {name!r} in training, which carries what it has seen of one example into "
                "the gradients of others, without noise: privacy at sample level needs a model that keeps its buffers"
            )


def _check_batch(net: Net, known: Tensor, losses: Tensor) -> None:
    """Refuse a loss of a batch that is not the mean of its examples' losses, or these themselves."""
    inputs, targets = net.data.each(net.data.located(known))
    with blame("the task's model or loss failed on a training batch"):
        outputs = predict(net.module, inputs)
        check_broadcast(net.loss_function, outputs, targets)
        found = net.loss_function(outputs, targets).detach().float()
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
            "the task's loss of a batch is not the mean of its examples' losses: --privacy sample needs a mean over "
            "the batch, or a loss for each example, in which none depends on the others (leave out weights "
            "of classes, layers that mix the batch, and sums)"
        )
