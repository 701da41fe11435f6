"""Backends that compute per-example gradients by autograd: one backward pass an example, or vmap over all of them.

`one_by_one` is the definition: the model sees each example alone, so that no gradient can hold another one's record. It
works with every model. `vectorized` (`torch.func`: vmap over grad) is quicker, for models whose author vouches for them
(`Task.vmap`). The third backend is `by_layers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import predict
from dpeer.training.device import Compute, mapped
from dpeer.training.dpsgd.gradient_factors import DenseGradients, ExampleGradients, ParameterGradients
from dpeer.training.dpsgd.separable_layers import is_known_loss
from dpeer.training.dpsgd.stable_matmul import padded_products
from dpeer.training.errors import blame, described, scalar
from dpeer.training.flat import Flat
from dpeer.training.net import Net


def chunks(size: int, rows: int, device: torch.device) -> Iterator[tuple[Tensor, int]]:
    """A batch in pieces that all have the same number of rows; the first example of the last one fills it up.

    Matrix products of other shapes are other code, whose last bits differ; so all that are computed have one shape.
    `rows` examples stand in each piece.

    Yields:
        The examples' places in the batch, shape (rows,), and how many of them, from the first on, count.
    """
    for start in range(0, size, rows):
        places = torch.arange(start, start + rows, device=device)
        yield places.where(places < size, start), min(rows, size - start)


def take(values: Any, index: Tensor) -> Any:
    """Some examples of a minibatch's inputs or targets, or of a model's outputs of any structure that `mapped` knows.

    They lie in fresh memory, which is always aligned alike: the last bits of a matrix product may depend on that. The
    index has shape (examples,).
    """
    return mapped(values, lambda tensor: tensor.index_select(0, index.to(tensor.device)))


def take_pair(compute: Compute, inputs: Any, targets: Any, index: Tensor) -> tuple[Any, Any]:
    """Some examples of a minibatch, shape (examples,), as they are computed together."""
    return compute.lay_out(take(inputs, index)), take(targets, index)


# Of attention on a CPU, for example, which is then computed example by example: right, and nothing a user can change.
# Not in a block around the call: other peers' threads share the list of filters.
warnings.filterwarnings("ignore", "There is a performance drop because we have not yet implemented the batching rule")


Backend = Callable[[Net, Flat, Any, Any, int], ExampleGradients]
"""Computes the losses and gradients of so many examples, of a part, inputs and targets, within `Net.training`."""


class UnsupportedModel(TaskError):  # noqa: N818 - another backend is taken
    """A backend cannot compute this model's gradients."""

    def __init__(self) -> None:
        super().__init__("this backend cannot compute the gradients of single examples of the task's model")


def one_by_one(net: Net, part: Flat, inputs: Any, targets: Any, examples: int) -> ExampleGradients:
    """A forward and a backward pass for each example; takes memory for one gradient an example."""
    device = part.data.device
    values = torch.zeros(examples, part.count, dtype=torch.float32, device=device)
    losses = torch.empty(examples, dtype=torch.float32, device=device)
    parameters = [parameter for _, parameter, _ in part.layout]
    for number in range(examples):
        alone = torch.tensor([number], device=device)
        with torch.enable_grad():
            loss = loss_of_one(net, take(inputs, alone), take(targets, alone))
            with blame("the task's loss cannot be differentiated"):
                found = torch.autograd.grad(loss, parameters, allow_unused=True)
        losses[number] = loss.detach()
        for gradient, (_, _, place) in zip(found, part.layout, strict=True):
            if gradient is not None:
                values[number, place] = gradient.to_dense().reshape(-1)  # of Embedding(sparse=True), for example
    return ExampleGradients(losses, [(slice(0, part.count), DenseGradients(values))], examples, part.count)


def loss_of_one(net: Net, inputs: Any, targets: Any) -> Tensor:
    """The loss of a batch of one example, a scalar."""
    with blame("the task's model failed on a training example", lambda: described(inputs=inputs)):
        outputs = predict(net.module, inputs)
    with blame("the task's loss failed on a training example", lambda: described(outputs=outputs, targets=targets)):
        return scalar(net.loss_function(outputs, targets))


def losses_of(net: Net, outputs: Any, targets: Any, examples: int) -> Tensor:
    """The loss of each example by itself, shape (examples,), for outputs that were computed together.

    A loss of the user's own is called for each example, as if it were alone.
    """
    if is_known_loss(net.loss_function):
        with padded_products():
            return vmap(lambda *of_one: scalar(net.loss_function(*mapped(of_one, _batch_of_one))))(outputs, targets)
    rows = torch.arange(examples, device=net.model.data.device)[:, None]
    # A loss may give back the same memory for the next example.
    return torch.stack([scalar(net.loss_function(take(outputs, row), take(targets, row))).clone() for row in rows])


@padded_products()
def vectorized(net: Net, part: Flat, inputs: Any, targets: Any, examples: int) -> ExampleGradients:
    """All examples at once by vmap over grad; takes memory for one gradient an example.

    Raises:
        UnsupportedModel: torch cannot vectorize what the model or the loss do.
    """
    trained = {name: parameter.detach() for name, parameter, _ in part.layout}

    def one(values: Mapping[str, Tensor], its_inputs: Any, its_targets: Any) -> Tensor:
        its_inputs, its_targets = mapped(its_inputs, _batch_of_one), mapped(its_targets, _batch_of_one)
        return scalar(net.loss_function(predict(with_tensors(net.module, values), its_inputs), its_targets))

    try:
        with torch.enable_grad():
            gradients, losses = vmap(grad_and_value(one), in_dims=(None, 0, 0))(trained, inputs, targets)
    except Exception as error:  # torch's own, or of the task's code that met tensors it does not expect
        raise UnsupportedModel() from error
    parts: list[tuple[slice, ParameterGradients]] = [
        (place, DenseGradients(gradients[name].detach().reshape(examples, -1))) for name, _, place in part.layout
    ]
    return ExampleGradients(losses.detach().float(), parts, examples, part.count)


def _batch_of_one(tensor: Tensor) -> Tensor:
    return tensor[None]


def with_tensors(module: torch.nn.Module, values: Mapping[str, Tensor]) -> Callable[..., Any]:
    """The model as a function, with other tensors in the place of some parameters."""
    return lambda *arguments, **named: functional_call(module, dict(values), arguments, named)
