"""Net: one peer's model as flat vectors, with its buffers, its training data and its loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.exceptions import CheckpointError
from dpeer.training.batch_loader import Batch, Batches, predict
from dpeer.training.device import HOST, Compute
from dpeer.training.errors import blame, described, scalar
from dpeer.training.flat import Exchanged, Extended, Extras, Flat, new_vector
from dpeer.training.objective import check_broadcast, objective
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split
from dpeer.training.task import Loss, Task


class Net:
    """One peer's model, its data and its loss.

    The model is on its device already; `extras` is how many values travel beside the body, by name.

    Attributes:
        body: The parameters that are shared; all of them, or none, for algorithms that do not divide the model.
        head: The parameters that stay on the peer.
        model: All trainable parameters, body first; the same memory.
        extras: What travels and is mixed beside the body, by name; vectors of zeros at first, to be changed in place.
        everything: Extras, body and head; the same memory.
        shared: What travels and is mixed: extras and body; the same memory.
        module: The task's model.
        untrained: What else of the model may change: buffers and frozen parameters.
        task: The task.
        data: The training data.
        loss_function: What is made small: ``loss_function(outputs, targets)``, the mean over the batch.
    """

    def __init__(
        self,
        task: Task,
        split: Split,
        hyperparameters: Hyperparameters,
        *,
        compute: Compute = HOST,
        extras: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.hyperparameters = hyperparameters
        self.task, self.module, self.compute = task, task.model, compute
        shared = split.body_count
        total = shared + sum(parameter.numel() for _, parameter in split.head)
        beside = sum(extras.values())
        # Extras, body and head, so that what travels is one vector, and so is what is trained.
        self.everything, grad = new_vector(beside + total, compute.device), new_vector(total, compute.device)
        data = self.everything[beside:]
        self.body = Flat("body" if split.head else "model", split.body, data[:shared], grad[:shared])
        self.head = Flat("head" if split.body else "model", split.head, data[shared:], grad[shared:])
        self.model = Flat("model", [*split.body, *split.head], data, grad)
        self.extras = Extras(extras, self.everything[:beside])
        together = self.everything[: beside + shared]
        self.shared: Exchanged = Extended(self.extras, self.body, together) if extras else self.body
        self.untrained = ModuleBuffers(task.model, self.model)
        self.data = Batches("train", task.train, task.collate, compute)
        self.loss_function: Loss = compute.own(objective(task, hyperparameters.class_weights, self.data), task.model)
        self._gradients, self._paired = 0, False

    @contextmanager
    def training(self, part: Flat) -> Iterator[None]:
        """Context in which only `part` gets gradients, and only where `gradient` asks for them.

        What is not trained is left out of the backward pass: head epochs need only a forward pass of the body.
        """
        self.module.train()
        for flat in (self.body, self.head):
            flat.requires_grad(flat is part or part is self.model)
        with torch.no_grad():
            yield

    def plain_gradient(self, part: Flat, batch: Batch) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        part.grad.zero_()
        with torch.enable_grad():
            with self.compute.autocast():
                outputs = self.outputs(batch)
                loss = self.objective(outputs, batch)
            with blame("the task's loss cannot be differentiated", lambda: described(outputs=outputs)):
                loss.backward()  # type: ignore[no-untyped-call]
        self.reattach()
        self.computed(batch.size)
        return loss.detach()

    def computed(self, samples: int) -> None:
        """Count a gradient of the loss for each of so many samples."""
        self._gradients += samples

    def outputs(self, batch: Batch) -> Any:
        """The model's outputs for a minibatch; to be called, as `objective` is, within `Compute.autocast`."""
        with blame("the task's model failed on a training batch", lambda: described(inputs=batch.inputs)):
            return predict(self.module, batch.inputs)

    def objective(self, outputs: Any, batch: Batch) -> Tensor:
        """The task's loss, a scalar."""
        outputs = self.compute.full(outputs)
        given = partial(described, outputs=outputs, targets=batch.targets)
        with blame("the task's loss failed on a training batch", given):
            if not self._paired:
                check_broadcast(self.loss_function, outputs, batch.targets)
                self._paired = True
            return scalar(self.loss_function(outputs, batch.targets))

    def reattach(self) -> None:
        """Undo what the task's code may have done to the parameters' storage; see `Flat.reattach`."""
        self.model.reattach()

    @contextmanager
    def holding(self, values: Tensor | Mapping[str, Tensor] | None) -> Iterator[None]:
        """Context in which the model has other values, of parameters or as of `snapshot`; None changes nothing."""
        if values is None:
            yield
            return
        own = {"values": values} if isinstance(values, Tensor) else values
        kept = self.model.data.clone()
        with torch.no_grad(), self.untrained.kept() if len(own) > 1 else nullcontext():
            self.model.data.copy_(own["values"])
            self.untrained.put(own)
            try:
                yield
            finally:
                self.reattach()
                self.model.data.copy_(kept)

    def snapshot(self) -> dict[str, Tensor]:
        """Copies of what the model predicts with, by name: "values", the trained parameters, and the buffers."""
        return {"values": self.model.data.clone(), **self.untrained.copies()}

    def state(self) -> dict[str, Tensor]:
        """All that changes of the model while it trains, by name; the tensors themselves."""
        return {"body": self.body.data, "head": self.head.data, **self.untrained.live()}

    def check(self, state: Mapping[str, Tensor]) -> None:
        """Refuse a state or a snapshot of another model.

        Raises:
            CheckpointError: It is such.
        """
        targets = {**self.state(), **self.untrained.all(), "values": self.model.data}
        there, here = sorted(state.keys() - targets.keys()), sorted(self.untrained.buffers() - state.keys())
        if there or here:
            raise CheckpointError(
                f"the checkpoint is of another model: {'it alone' if there else 'this one alone'} has the buffer "
                f"{(there or here)[0].removeprefix(_BUFFER)!r} (--standardize, --model, --task-option?); use what the "
                "run began with, or start over in another --out"
            )
        for name, value in state.items():
            if targets[name].shape != value.shape or targets[name].dtype != value.dtype:
                raise CheckpointError(
                    f"the checkpoint's {name} has shape {tuple(value.shape)}, this model's "
                    f"{tuple(targets[name].shape)}: it is of another task"
                )

    def put(self, state: Mapping[str, Tensor]) -> None:
        """Take up a state, as `state` gave it."""
        with torch.no_grad():
            self.body.data.copy_(state["body"])
            self.head.data.copy_(state["head"])
        self.untrained.put(state)


_BUFFER = "buffer/"


class ModuleBuffers:
    """A model's buffers, and those of its frozen parameters that its code has changed (a teacher's average, ...)."""

    def __init__(self, module: nn.Module, trained: Flat) -> None:
        names = {name for name, _, _ in trained.layout}
        self._module = module
        self._frozen = {name: parameter for name, parameter in module.named_parameters() if name not in names}
        self._still = {name: _mark(parameter) for name, parameter in self._frozen.items()}

    def live(self) -> dict[str, Tensor]:
        """The buffers and changed parameters, by ``buffer/NAME``; the tensors themselves."""
        return {**self.buffers(), **{_BUFFER + name: parameter for name, parameter in self._changed().items()}}

    def buffers(self) -> dict[str, Tensor]:
        """The buffers alone."""
        return {_BUFFER + name: buffer for name, buffer in self._module.named_buffers()}

    def all(self) -> dict[str, Tensor]:
        """The buffers, and all frozen parameters."""
        return {**{_BUFFER + name: parameter for name, parameter in self._frozen.items()}, **self.buffers()}

    def copies(self) -> dict[str, Tensor]:
        """Copies of `live`, on their device."""
        return {name: tensor.detach().clone() for name, tensor in self.live().items()}

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Give the buffers and parameters the values of such copies; other names are passed over."""
        named = self.all()
        for name, value in values.items():
            if name.startswith(_BUFFER):
                _write(named[name], value)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context in which buffers and parameters may change; afterwards they are as they were."""
        owned = [
            (module, name, buffer, buffer.detach().clone())
            for module in self._module.modules()
            for name, buffer in module._buffers.items()  # named_buffers takes eight times as long, for each SAM step
            if buffer is not None
        ]
        changed = [(parameter, parameter.detach().clone()) for parameter in self._changed().values()]
        try:
            yield
        finally:
            for module, name, buffer, value in owned:
                _write(buffer, value)
                if getattr(module, name) is not buffer:  # the model's code has put another tensor there
                    setattr(module, name, buffer)
            for parameter, value in changed:
                _write(parameter, value)

    def _changed(self) -> dict[str, Tensor]:
        return {name: parameter for name, parameter in self._frozen.items() if _mark(parameter) != self._still[name]}


def _write(tensor: Tensor, value: Tensor) -> None:
    """Write values only where they differ: constants may be in memory that cannot be written (expanded tensors)."""
    with torch.no_grad():
        if not torch.equal(tensor, value.to(tensor.device)):
            tensor.copy_(value)


def _mark(tensor: Tensor) -> tuple[int, int]:
    """Version and address of a tensor, of which one changes with its values."""
    return tensor._version, tensor.data_ptr()
