"""Ways to compute the gradient of each example's loss; `by_layers` is a third one.

`one_by_one` is the definition: the model sees each example alone, so its gradient cannot depend on any other. It works
with every model and is slow. `vectorized` is the same by construction (`torch.func`: vmap over grad), and quicker; what
draws random numbers, or looks at values to decide what to do, it cannot run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from dpeer.exceptions import TaskError
from dpeer.training.batches import predict
from dpeer.training.device import mapped
from dpeer.training.dpsgd.examples import examples_of
from dpeer.training.dpsgd.gradient_factors import Computed, Part, Whole
from dpeer.training.dpsgd.stable_matmul import Unsuited, steadily
from dpeer.training.dpsgd.supported_layers import computes_alone
from dpeer.training.errors import as_tensor, batch_hint, blame, loss_hint, not_differentiable_hint
from dpeer.training.flat import Flat

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer


# Of attention on a CPU, for example, which is then computed example by example: right, and nothing a user can change.
# Not in a block around the call: other peers' threads share the list of filters.
warnings.filterwarnings("ignore", "There is a performance drop because we have not yet implemented the batching rule")


class Way(Protocol):
    """Computes the gradients of a few examples."""

    def __call__(self, peer: Trainer, part: Flat, inputs: Any, targets: Any, examples: int) -> Computed:
        """The examples' losses and gradients; to be called, as gradients are, within `Trainer.training`."""


def one_by_one(peer: Trainer, part: Flat, inputs: Any, targets: Any, examples: int) -> Computed:
    """A forward and a backward pass for each example; takes memory for one gradient an example."""
    device = part.data.device
    values = torch.zeros(examples, part.count, dtype=torch.float32, device=device)
    losses = torch.empty(examples, dtype=torch.float32, device=device)
    parameters = [parameter for _, parameter, _ in part.layout]
    for number in range(examples):
        alone = torch.tensor([number], device=device)
        with torch.enable_grad():
            loss = loss_of_one(peer, examples_of(inputs, alone), examples_of(targets, alone))
            with blame("the task's model cannot be differentiated", partial(not_differentiable_hint, loss)):
                found = torch.autograd.grad(loss, parameters, allow_unused=True)
        losses[number] = loss.detach()
        for gradient, (_, _, place) in zip(found, part.layout, strict=True):
            if gradient is not None:
                values[number, place] = gradient.to_dense().reshape(-1)  # of Embedding(sparse=True), for example
    return Computed(losses, [(slice(0, part.count), Whole(values))], examples, part.count)


def loss_of_one(peer: Trainer, inputs: Any, targets: Any) -> Tensor:
    """The loss of a batch of one example, a scalar."""
    with blame("the task's model failed on a training example", lambda: batch_hint(inputs)):
        outputs = predict(peer.module, inputs)
    with blame("the task's loss failed on a training example", lambda: loss_hint(targets, outputs)):
        return as_one(peer.loss_function(outputs, targets))


def as_one(loss: Tensor) -> Tensor:
    """One example's loss as a scalar, whether the task's loss is a mean over the batch or one for each example.

    Raises:
        TaskError: It is neither.
    """
    if as_tensor(loss).numel() != 1:
        raise TaskError(
            f"the task's loss gave a tensor of shape {tuple(loss.shape)} for one example; it must give one number for "
            "each example, or their mean"
        )
    with torch.enable_grad():  # whatever mode the loss has left
        return loss.reshape(())


@steadily()
def vectorized(peer: Trainer, part: Flat, inputs: Any, targets: Any, examples: int) -> Computed:
    """All examples at once by vmap over grad; takes memory for one gradient an example.

    Raises:
        Unsuited: torch cannot vectorize what the model or the loss do.
    """
    trained = {name: parameter.detach() for name, parameter, _ in part.layout}

    def one(values: Mapping[str, Tensor], its_inputs: Any, its_targets: Any) -> Tensor:
        its_inputs, its_targets = mapped(its_inputs, _batch_of_one), mapped(its_targets, _batch_of_one)
        return as_one(peer.loss_function(predict(_with(peer, values), its_inputs), its_targets))

    try:
        with torch.enable_grad():
            gradients, losses = vmap(grad_and_value(one), in_dims=(None, 0, 0))(trained, inputs, targets)
    except Exception as error:  # torch's own, or of the task's code that met tensors it does not expect
        raise Unsuited() from error
    parts: list[tuple[slice, Part]] = [
        (place, Whole(gradients[name].detach().reshape(examples, -1))) for name, _, place in part.layout
    ]
    return Computed(losses.detach().float(), parts, examples, part.count)


def losses_of(peer: Trainer, outputs: Any, targets: Any, examples: int) -> Tensor:
    """The loss of each example by itself, shape (examples,), for outputs that were computed together.

    A loss of which nothing is known is called for each example, as if it were alone.

    Raises:
        Unsuited: The loss cannot be computed for several examples at once.
    """
    if computes_alone(peer.loss_function):
        with steadily():
            return vmap(lambda *of_one: as_one(peer.loss_function(*mapped(of_one, _batch_of_one))))(outputs, targets)
    losses = []
    for row in torch.arange(examples, device=peer.model.data.device)[:, None]:
        with torch.enable_grad():  # whatever mode the loss has left for the next one
            loss = as_one(peer.loss_function(examples_of(outputs, row), examples_of(targets, row)))
            losses.append(loss.clone())  # a loss may give back the same memory for the next one
    with torch.enable_grad():
        return torch.stack(losses)


def _batch_of_one(tensor: Tensor) -> Tensor:
    return tensor[None]


def _with(peer: Trainer, values: Mapping[str, Tensor]) -> Callable[..., Any]:
    """The model with other values for some parameters."""
    return lambda *arguments, **named: functional_call(peer.module, dict(values), arguments, named)
