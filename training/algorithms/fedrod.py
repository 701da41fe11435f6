"""FedRoD (linear): a generic model learned with a balanced loss, and a personal linear head on top of its features.

Chen and Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022, the linear
variant (the other one makes the personal head by a hypernetwork). Client m has n_c samples of class c; f are the
features, h the shared generic head, p the personal one. Each minibatch of a round:

    f, h <- SGD step on the balanced softmax loss: cross-entropy of h(f(x)) + log n
    p    <- SGD step on the cross-entropy of h(f(x)) + p(f(x)), with f and h detached

and then f and h are averaged with everyone's. The prediction is the sum of both logits. A class that the client lacks
has n_c = 0: it gets no probability in the balanced loss, so its logit is left alone. p starts as a copy of h.

The sum of two linear heads is a linear head, so what predicts is the task's own model with p added to h.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.minibatches import Batch
from dpeer.training.objective import counted
from dpeer.training.split import is_under
from dpeer.training.trainer import Trainer

_ABSENT = -1e9
"""The log of no samples: finite, so that no product of it with zero is NaN, and far below what exp can tell from it."""


class FedRoD(Algorithm):
    """The whole model is trained and shared; a second head is trained beside it and stays at home."""

    name = "fedrod"
    summary = "a generic model with balanced softmax loss is averaged; a personal linear head is added at home (linear)"
    paper = "Chen, Chao: On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022"
    shares = "model"
    leaves = "the generic model"
    uses = ("head_lr",)

    def start(self, peer: Trainer) -> None:
        """Find the head, copy it, and count the classes."""
        self._name, self._generic = _linear_head(peer)
        self._personal = copy.deepcopy(self._generic)
        self._own = Flat("head", list(self._personal.named_parameters()))
        self._prior = _log_counts(peer, self._generic.out_features)

    def train(self, peer: Trainer) -> None:
        """Step the generic model and the personal head on every minibatch."""
        h = peer.hyperparameters
        personal = self._own, h.head_lr
        peer.fit(peer.model, epochs=h.body_epochs, lr=h.body_lr, gradient=self._gradients, beside=[personal])

    def _gradients(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """Compute both gradients, of the generic model and of the personal head; return the personal loss."""
        part.grad.zero_()
        self._own.grad.zero_()
        with torch.enable_grad():
            with peer.compute.autocast():
                with self._seen() as seen:
                    outputs = peer.outputs(batch)
                if len(seen) != 1 or seen[0][1] is not outputs:
                    raise TaskError(
                        f"fedrod needs a model that returns what its head {self._name!r} gives, once a batch"
                    )
                features = seen[0][0]
                balanced = peer.objective(outputs + self._prior, batch)
                own = peer.objective(outputs.detach() + self._personal(features.detach()), batch)
            with blame("the task's model cannot be differentiated"):
                (balanced + own).backward()  # type: ignore[no-untyped-call]
        peer.reattach()
        peer.gradients += batch.size
        return own.detach()

    @contextmanager
    def _seen(self) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Within it a list gets the head's inputs and outputs of each call."""
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
        own = dict(self._personal.named_parameters())
        for name, _, here in peer.model.layout:
            if is_under(name, (self._name,)):
                both[here] += own[name.removeprefix(f"{self._name}.")].detach().view(-1)
        return both

    def at_home(self, peer: Trainer) -> int:
        """The personal head's parameters."""
        return self._own.count

    def state(self) -> Mapping[str, Tensor]:
        """See `Algorithm.state`."""
        return {"personal": self._own.data}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Algorithm.restore`."""
        self._own.data.copy_(state["personal"].view(self._own.data.shape))

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`; the personal head's are computed in the same pass."""
        return h.body_epochs


def _linear_head(peer: Trainer) -> tuple[str, nn.Linear]:
    """The task's head: its name and the module.

    Raises:
        TaskError: It is not one linear module.
    """
    heads = peer.task.head
    module = dict(peer.module.named_modules()).get(heads[0]) if len(heads) == 1 else None
    if type(module) is not nn.Linear or any(not parameter.requires_grad for parameter in module.parameters()):
        raise TaskError(
            f"fedrod (linear) needs a head that is one torch.nn.Linear module, all of it trained; the task's head is "
            f"{', '.join(map(repr, heads)) or 'empty'}{f', a {type(module).__name__}' if module is not None else ''}: "
            "name the last layer alone"
        )
    return heads[0], module


def _log_counts(peer: Trainer, classes: int) -> Tensor:
    """The log of how many training samples of each class there are, shape (classes,).

    Raises:
        TaskError: This is not a classification.
    """
    if peer.task.loss is not None:
        raise TaskError(
            "fedrod has a loss of its own, the balanced softmax of cross-entropy: the task must not give one"
        )
    if peer.hyperparameters.class_weights != "none":
        raise TaskError("fedrod has a loss that balances classes itself: leave out --class-weights balanced")
    found = counted(peer.data, "fedrod")
    if len(found) > classes:
        raise TaskError(
            f"class {len(found) - 1} is among the targets, the model has {classes} outputs: they count from 0"
        )
    counts = torch.nn.functional.pad(found, (0, classes - len(found)))
    return torch.where(counts > 0, counts.float().log(), _ABSENT).to(peer.compute.device)
