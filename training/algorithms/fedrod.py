"""FedRoD: a generic model learned with a balanced loss, and a personal linear head on top of its features.

Chen and Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022. Client m has
n_c samples of class c, a share a_c of all; f are the features, h the shared generic head, p the personal one. Each
minibatch of a round:

    f, h <- SGD step on the balanced softmax loss: cross-entropy of h(f(x)) + log n
    p    <- SGD step on the cross-entropy of h(f(x)) + p(f(x)), with f and h detached

and then f and h are averaged with everyone's. The prediction is the sum of both logits. A class that the client lacks
has n_c = 0: it gets no probability in the balanced loss, so its logit is left alone.

The paper has two variants. In the linear one (the default) p stays at home; it starts as a copy of h. In the other one,
`personal=hypernetwork` (with which DFedMDC's paper compares, appendix B.3), a hypernetwork H that all share makes p of
the client's class distribution, p = H(a; nu). Its parameters take the place of p's own in the second step, and are
averaged as f and h are:

    nu   <- SGD step on the cross-entropy of h(f(x)) + p(f(x)) with p = H(a; nu), f and h detached

Here H is a network (Ha, Dai and Le, HyperNetworks, ICLR 2017) with one hidden layer, of `hidden` units, as published
reimplementations have it,

    H(a; nu) = V relu(U a + b) + c        with nu = (U, b, V, c)

which makes the weight of a linear head, row by row, and then its bias. nu travels as what it has changed by: as
`Extras`, which start at zero, while what it starts with follows from the federation's seed and is known to all. A
gradient of its U is an outer product with a, so that a receiver of nu can compute a.

The sum of two linear heads is a linear head, so what predicts is the task's own model with p added to h.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.nn.utils import skip_init

from dpeer.exceptions import TaskError
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import option
from dpeer.training.batch_loader import Batch
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.objective import counted
from dpeer.training.randomness import Purpose, stream
from dpeer.training.split import Split, is_under
from dpeer.training.trainer import Trainer


class OwnHead:
    """A linear head whose parameters are the peer's own; it starts as a copy of the shared one.

    Attributes:
        trained: What is trained so that the head becomes a better one.
    """

    def __init__(self, shared: nn.Linear) -> None:
        self._named = dict(copy.deepcopy(shared).named_parameters())
        self.trained = Flat("head", list(self._named.items()))

    def made(self) -> Mapping[str, Tensor]:
        """The head's parameters by their names in a linear module; gradients flow back to what is trained."""
        return self._named

    def now(self) -> Mapping[str, Tensor]:
        """The head's parameters as they are after whatever has been mixed, without gradients."""
        return {name: parameter.detach() for name, parameter in self._named.items()}

    def training(self) -> AbstractContextManager[None]:
        """Context in which `trained` may be stepped."""
        return nullcontext()


class MadeHead:
    """A head that a hypernetwork makes; the hypernetwork is trained, and its change is mixed.

    `about` says whose head it is, shape (inputs,); `change` is what nu has changed by: zero at first, then what mixing
    gives.
    """

    def __init__(self, shared: nn.Linear, about: Tensor, hidden: int, change: Tensor, seed: int) -> None:
        self._shapes = {name: parameter.shape for name, parameter in shared.named_parameters()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        self._about, self._change = about, change
        linear_ = partial(skip_init, nn.Linear, device=change.device, dtype=torch.float32)
        layers = linear_(len(about), hidden), linear_(hidden, sum(self._sizes))
        self._start = _first(layers, seed).to(change.device)
        self._network = nn.Sequential(layers[0], nn.ReLU(), layers[1])
        self.trained = Flat("hypernetwork", [*self._network.named_parameters()])

    def made(self) -> Mapping[str, Tensor]:
        """See `OwnHead`."""
        parts = zip(self._shapes.items(), torch.split(self._network(self._about), self._sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def now(self) -> Mapping[str, Tensor]:
        """See `OwnHead`."""
        with torch.no_grad():
            self._take_up()
            return self.made()

    def _take_up(self) -> None:
        torch.add(self._start, self._change, out=self.trained.data)

    @contextmanager
    def training(self) -> Iterator[None]:
        """See `OwnHead`."""
        # nu itself is stepped and not its change, so that weight decay is of nu.
        self._take_up()
        try:
            yield
        finally:  # after an interruption, too, as the model then is as it was trained so far
            torch.sub(self.trained.data, self._start, out=self._change)


def _first(layers: Iterable[nn.Linear], seed: int) -> Tensor:
    """The initial nu: the distribution of ``torch.nn.Linear``, uniform up to 1 / sqrt(inputs of the layer)."""
    random, drawn = stream(seed, Purpose.HYPERNETWORK), []
    for layer in layers:
        bound = 1 / math.sqrt(layer.in_features)
        drawn += [random.uniform(-bound, bound, values.numel()) for values in layer.parameters()]
    return torch.from_numpy(np.concatenate(drawn).astype(np.float32))


_ABSENT = -1e9
"""The log of no samples: finite, so that no product of it with zero is NaN, and far below what exp can tell from it."""

_EXTRA = "hypernetwork"

_HIDDEN = 32
"""As in FL-bench, a published reimplementation; others have 100, or no hidden layer."""

Personal = Literal["linear", "hypernetwork"]


class FedRoD(Algorithm):
    """The whole model is trained and shared; a second head is trained beside it and stays at home, or is made."""

    name = "fedrod"
    summary = (
        "a generic model with balanced softmax loss is averaged; a personal linear head is added, trained at home or, "
        "with --algorithm-option personal=hypernetwork, made by an averaged hypernetwork"
    )
    paper = "Chen, Chao: On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022"
    shares = "model"
    leaves = "the generic model"
    uses = ("head_lr",)

    @dataclass(frozen=True)
    class Options:
        """The kind of personal head."""

        personal: Personal = option("linear", "the personal head: linear, at home, or made by an averaged hypernetwork")  # noqa: RUF009
        hidden: int = option(_HIDDEN, "hidden units of the hypernetwork", ge=1)

        def __post_init__(self) -> None:
            if self.personal == "linear" and self.hidden != _HIDDEN:
                raise ValueError(
                    f"hidden={self.hidden} is of the hypernetwork, and personal={self.personal} has none: leave it "
                    "out, or add personal=hypernetwork"
                )

    personal: OwnHead | MadeHead

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        if self.options.personal == "hypernetwork":
            self.leaves = (
                "the generic model with the hypernetwork (whose change tells the class distribution where no noise "
                "is added)"
            )

    def extras(self, split: Split) -> Mapping[str, int]:
        """The change of the hypernetwork's parameters."""
        shapes = {name: parameter.shape for name, parameter in split.body if is_under(name, split.prefixes)}
        weights = [shape for name, shape in shapes.items() if name.endswith("weight") and len(shape) == 2]
        if self.options.personal == "linear" or not weights:
            return {}  # a head without such a weight is refused by `start`, in words
        made = sum(shape.numel() for shape in shapes.values())
        inputs, hidden = weights[0][0], self.options.hidden
        return {_EXTRA: hidden * (inputs + 1) + made * (hidden + 1)}

    def start(self, peer: Trainer) -> None:
        """Find the head, count the classes, and make the personal head."""
        self._name, self._generic = _linear_head(peer)
        counts = _class_counts(peer, self._generic.out_features)
        self._prior = torch.where(counts > 0, counts.float().log(), _ABSENT).to(peer.compute.device)
        if self.options.personal == "linear":
            self.personal = own = OwnHead(self._generic)
            self.state["personal"] = own.trained.data
            return
        distribution = (counts.double() / counts.sum().clamp(min=1)).float().to(peer.compute.device)
        self.personal = MadeHead(self._generic, distribution, self.options.hidden, peer.extras[_EXTRA], peer.seed)

    def train(self, peer: Trainer) -> None:
        """Step the generic model and what the personal head follows from on every minibatch."""
        h = peer.hyperparameters
        with self.personal.training():
            personal = self.personal.trained, peer.rates.head
            peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, gradient=self._gradients, beside=[personal])

    def _gradients(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """Compute both gradients, of the generic model and for the personal head; return the personal loss."""
        part.grad.zero_()
        self.personal.trained.grad.zero_()
        with torch.enable_grad():
            head = self.personal.made()  # in float32 also where the outputs are not
            with peer.compute.autocast():
                with self._seen() as seen:
                    outputs = peer.outputs(batch)
                if len(seen) != 1 or seen[0][1] is not outputs:
                    raise TaskError(
                        f"fedrod needs a model that returns what its head {self._name!r} gives, once a batch"
                    )
                features = seen[0][0]
                balanced = peer.objective(outputs + self._prior, batch)
                personal = linear(features.detach(), head["weight"], head.get("bias"))
                own = peer.objective(outputs.detach() + personal, batch)
            with blame("the task's model cannot be differentiated"):
                (balanced + own).backward()  # type: ignore[no-untyped-call]
        peer.reattach()
        peer.computed(batch.size)
        return own.detach()

    @contextmanager
    def _seen(self) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Context in which a list gets the head's inputs and outputs of each call."""
        seen: list[tuple[Tensor, Tensor]] = []
        hook = self._generic.register_forward_hook(
            lambda _, given, named, gave: seen.append(((*given, *named.values())[0], gave)), with_kwargs=True
        )
        try:
            yield seen
        finally:
            hook.remove()

    def predictor(self, peer: Trainer) -> Tensor | None:
        """The generic model with the personal head added to its own."""
        both = peer.model.data.clone()
        own = self.personal.now()
        for name, _, here in peer.model.layout:
            if is_under(name, (self._name,)):
                both[here] += own[name.removeprefix(f"{self._name}.")].view(-1)
        return both


def _linear_head(peer: Trainer) -> tuple[str, nn.Linear]:
    """The task's head: its name and the module.

    Raises:
        TaskError: It is not one linear module.
    """
    heads = peer.task.head
    module = dict(peer.module.named_modules()).get(heads[0]) if len(heads) == 1 else None
    if type(module) is not nn.Linear or any(not parameter.requires_grad for parameter in module.parameters()):
        raise TaskError(
            f"fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is "
            f"{', '.join(map(repr, heads)) or 'empty'}{f', a {type(module).__name__}' if module is not None else ''}: "
            "name the last layer alone"
        )
    return heads[0], module


def _class_counts(peer: Trainer, classes: int) -> Tensor:
    """The number of training samples of each class, shape (classes,), on the host.

    Raises:
        TaskError: This is not a classification.
    """
    found = counted(peer.data, "fedrod")
    if len(found) > classes:
        raise TaskError(
            f"class {len(found) - 1} is among the targets, the model has {classes} outputs: they count from 0"
        )
    return pad(found, (0, classes - len(found)))
