"""Device, precision and memory layout of a peer's computations, and copies from the device to the host.

A peer's model, vectors and data are on one device; what travels and what is saved is always on the host. Devices are
named in every call: the current CUDA device belongs to a thread, and peers share threads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from dpeer.exceptions import ConfigurationError, TaskError, describe

Amp = Literal["bf16"]

CPU = torch.device("cpu")

T = TypeVar("T")

_FULL: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True)
class Compute:
    """The device, precision and memory layout of one peer; those of other peers may differ.

    Attributes:
        device: The device on which its model and data are.
        amp: "bf16" computes the model's outputs in bfloat16 where torch's autocast deems that safe; parameters, their
            gradients and all that is done with them stay float32. None for float32 throughout.
        channels_last: Whether images reach the model with their channels last in memory; parameters lie as ever.
    """

    device: torch.device = CPU
    amp: Amp | None = None
    channels_last: bool = False

    @property
    def on_host(self) -> bool:
        """Whether nothing has to be moved."""
        return self.device.type == "cpu"

    @property
    def device_name(self) -> str:
        """The make of the device."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type

    def autocast(self) -> AbstractContextManager[object]:
        """Context in which models and losses are to be called; backward passes are not."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.amp else _FULL

    def place(self, values: Any) -> Any:
        """Move tensors to the device, alone or in tuples, lists and dictionaries; other objects are asked to move."""
        if self.on_host:
            return values
        return mapped(values, lambda tensor: tensor.to(self.device), self._moved)

    def _moved(self, value: Any) -> Any:
        return value.to(self.device) if callable(getattr(value, "to", None)) else value

    def lay_out(self, inputs: Any) -> Any:
        """A model's inputs as they should lie in memory: only images are changed."""
        if not self.channels_last:
            return inputs
        return mapped(inputs, lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t)

    def full(self, outputs: Any) -> Any:
        """A model's outputs in float32, for losses and metrics."""
        if not self.amp:
            return outputs
        return mapped(outputs, lambda tensor: tensor.float() if tensor.dtype == torch.bfloat16 else tensor)

    def own(self, function: T, model: nn.Module) -> T:
        """A loss of this peer: a module is copied onto the device, but for what of it is the model's."""
        if self.on_host or not isinstance(function, nn.Module):
            return function
        shared = {id(part): part for part in (*model.modules(), *model.parameters(), *model.buffers())}
        return copy.deepcopy(function, shared).to(self.device)

    def drain(self) -> None:
        """Wait until the device has done what it was given so far."""
        if self.device.type == "cuda" and torch.cuda.is_available():
            torch.cuda.synchronize(self.device)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report errors that a GPU tells long after the call at fault, when that call is not known any more.

        Raises:
            TaskError: The device gave up.
        """
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise TaskError(
                f"{self.device} has too little memory: {describe(error)} (fewer peers on it or a smaller "
                "--batch-size take less)"
            ) from error
        except torch.AcceleratorError as error:
            raise TaskError(
                f"{self.device} gave up: {describe(error)} (a target that is no class of the model does that, for "
                "example; --device cpu says where it is)"
            ) from error


HOST = Compute()
"""The CPU in float32: the bits that runs are compared in."""


def host(tensor: Tensor) -> Tensor:
    """A copy on the host, contiguous."""
    return tensor.detach().to(CPU, copy=True, memory_format=torch.contiguous_format)


def find_device(text: str, rank: int) -> torch.device:
    """The device that ``--device`` means for a rank.

    ``cuda`` and ``auto`` deal the ranks round-robin over this host's GPUs, whether peers are processes or threads.

    Raises:
        ConfigurationError: This machine has no such device.
    """
    kind, _, index = text.partition(":")
    if kind == "cpu":
        return CPU
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto" and not count:
        return CPU
    if not count:
        raise ConfigurationError(
            f"--device {text}: this torch ({torch.__version__}) sees no CUDA device; use --device cpu or auto"
        )
    number = int(index) if index else rank % count
    if number >= count:
        known = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ConfigurationError(f"--device {text}: this machine has {known}; choose one, or --device auto")
    _settle()
    return torch.device("cuda", number)


def _settle() -> None:
    """Have cuDNN give the same bits each time, in float32; a task's factory runs later and may say otherwise."""
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False


def mapped(value: Any, change: Callable[[Tensor], Tensor], rest: Callable[[Any], Any] = lambda value: value) -> Any:
    """A structure of tuples, lists and dictionaries with its tensors changed; `rest` changes what is no tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, PackedSequence):  # its batch sizes have to stay on the host
        order = (None if index is None else change(index) for index in (value.sorted_indices, value.unsorted_indices))
        return PackedSequence(change(value.data), value.batch_sizes, *order)
    if isinstance(value, tuple | list):
        items = [mapped(item, change, rest) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, MutableMapping):
        copied = copy.copy(value)  # of the same class: a loss may ask it for attributes
        for key, item in value.items():
            copied[key] = mapped(item, change, rest)
        return copied
    if isinstance(value, Mapping):
        return {key: mapped(item, change, rest) for key, item in value.items()}
    return rest(value)
