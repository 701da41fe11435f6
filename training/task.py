"""The task of one peer: a model, the head that stays on the peer, and data."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.errors import blame
from dpeer.training.initial import Initial
from dpeer.training.split import check_prefixes

_claimed: weakref.WeakSet[nn.Module] = weakref.WeakSet()

Loss = Callable[[Any, Any], Tensor]
Metrics = Callable[[Any, Any], Mapping[str, float]]
Collate = Callable[[list[Any]], Any]
Augment = Callable[[Any, np.random.Generator], Any]


class Recipe(dict[str, Any]):
    """How a model was made, as JSON values by name from which `dpeer.training.use` makes it again without data.

    Args:
        model: The very model: of another one these values say nothing.
        values: The values.
    """

    def __init__(self, model: nn.Module, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.model = model


@dataclass(eq=False)
class Task:
    """The model and data that one rank trains with, as a task factory returns them.

    The model is called as ``model(input)``; an input that is a tuple or list is spread over its positional
    arguments, a dictionary over its keyword arguments.

    Attributes:
        model: The model, freshly initialised and equal on all ranks. Parameters with ``requires_grad=False`` are
            neither trained nor sent.
        head: Name prefixes of the parameters that stay on the peer, in whole dotted components (``fc`` does not
            match ``fc1``); a single string counts as one prefix. The rest is the body, which neighbors get.
            ``()`` shares everything.
        train: Training data: a map-style dataset of ``(input, target)``. Tensors in memory are fastest as a
            `torch.utils.data.TensorDataset`.
        test: Test data of the same kind.
        validation: Validation data of the same kind, which ``--keep best`` needs.
        groups: Whose each training example is (a patient's, a writer's): a whole number or a string for each example of
            `train`, in its order, so that privacy can protect all examples of a group together. An array of shape
            (examples,) once the task is made; None where the task names none.
        loss: ``loss(outputs, targets)``, a scalar tensor, the mean over the batch. Cross-entropy if left out.
        metrics: ``metrics(outputs, targets)`` over the whole test set, a number by name. `accuracy` and
            `balanced_accuracy` if left out; the entry named ``accuracy`` is the one that tables show.
        collate: Makes ``(inputs, targets)`` of a list of samples. PyTorch's `default_collate` if left out.
        augment: ``augment(inputs, generator)``, training inputs of a minibatch changed at random with a NumPy generator
            whose state follows from seed, rank and round; shape and type stay.
        vmap: Whether the code of model and loss may run for several examples at once, by `torch.func.vmap`, where
            privacy at sample level needs the gradient of each. It is two to three times as quick as one by one, and
            the author answers for it that no example is computed from another's values (docs/tasks.md). Models made of
            torch's own modules alone, and built-in ones, need no such word.
        names: What inputs and classes are called, where peers read files of their own and must mean the same by them.
        found: What of `names`, or of the shape of the model, was found in the data because no setting says it, by the
            task option that would. It goes to the neighbors, in hashes and shapes, so a private peer refuses it.
        division: SHA-256 (hex) of how common pools are divided among all ranks; peers compare it. None where the data
            are the peer's own: with privacy at sample level `--records` must then be given.
        indices: Which samples of common pools these are ("train", "validation", "test"), or of the task's own training
            data where some are held out; to be saved with the results.
        draws: Whether the model, the data or any of the functions draw from the global generators of torch, numpy or
            random (dropout does). None: found out in the first round, in which the peers of a simulation therefore
            train one after the other; False, which is believed, spares them that.
        built: How the model was made; None where only the factory can make it.
        preparation: How inputs were made of a table's rows, to be saved with the model; None for other data.
        lora: The value of `--lora` that has put low-rank adapters into the model; None without adapters.
        remarks: Notes on how common pools are divided, and on first weights from a file, a line each; logged when the
            peer starts.
        initial: What the model has from the file of `--init-from`, by which peers compare it; None without one.
        held_out: Where in the training data the validation samples were, if dpeer has held them out; shape (samples,).

    Raises:
        TaskError: One of them cannot be used.
    """

    model: nn.Module
    head: Sequence[str]
    train: Any
    test: Any
    validation: Any = None
    groups: Any = None
    loss: Loss | None = None
    metrics: Metrics | None = None
    collate: Collate | None = None
    augment: Augment | None = None
    vmap: bool = False
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    division: str | None = None
    indices: Mapping[str, NDArray[np.int64]] | None = None
    draws: bool | None = None
    preparation: Preparation | None = None
    built: Recipe | None = None
    lora: str | None = None
    remarks: Sequence[str] = ()
    initial: Initial | None = None
    held_out: NDArray[np.int64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise TaskError(f"the task's model is {_kind(self.model)}; it must be a torch.nn.Module instance")
        check_layouts(self.model)
        self.head = check_prefixes(self.model, self.head)
        if self.built is not None and self.built.model is not self.model:  # replace(task, model=...)
            self.built = self.draws = None
        for name in ("train", "test", "validation"):
            dataset = getattr(self, name)
            if dataset is not None or name != "validation":
                self._check_dataset(name, dataset)
        if self.groups is not None:
            self.groups = _one_each(self.groups, len(self.train))
        for name in ("loss", "metrics", "collate", "augment"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TaskError(f"the task's {name} is {_kind(function)}; it must be a function")

    def _check_dataset(self, name: str, dataset: Any) -> None:
        """Look at the length and the first sample, so that a mistake shows before the federation has formed."""
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            advice = " (pass the DataLoader's dataset)" if isinstance(dataset, torch.utils.data.DataLoader) else ""
            raise TaskError(
                f"the task's {name} data is {_kind(dataset)}; it must be a map-style dataset, with a length and "
                f"an item for each index{advice}"
            )
        with blame(f"the task's {name} data cannot be read"):
            if len(dataset) == 0:
                raise TaskError(f"the task's {name} data is empty; every peer needs at least one sample of it")
            sample = dataset[0]
        if self.collate is None and not (isinstance(sample, tuple | list) and len(sample) == 2):
            size = f" of {len(sample)}" if isinstance(sample, tuple | list) else ""
            raise TaskError(
                f"the first item of the task's {name} data is {_kind(sample)}{size}; it must be a pair "
                "(input, target), or the task must give a `collate` that makes such pairs"
            )


def _one_each(groups: Any, examples: int) -> NDArray[Any]:
    """The group of each training example, as an array of whole numbers or strings, shape (examples,).

    Names of several types are refused: an array has one, to which numbers would be rounded, and a missing name turned.
    """
    with blame("the task's groups cannot be read"):
        entries = groups.tolist() if hasattr(groups, "tolist") else [*groups]
        array = np.asarray(entries)
    alike = any(all(isinstance(entry, kind) for entry in entries) for kind in (str, bytes, int | np.integer))
    if isinstance(groups, str) or not alike or len(entries) != examples or array.dtype.kind not in "biuUS":
        kinds = ", ".join({type(entry).__name__: None for entry in entries})
        raise TaskError(
            f"the task's groups are {len(entries)} ({kinds}), its training examples {examples}; they must be a whole "
            "number of at most 64 bits for each, or a string for each, in a list or an array"
        )
    return array


def _kind(value: Any) -> str:
    """The name of a value's type, for messages."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def claim(model: nn.Module) -> None:
    """Refuse a model that another learner of this process trains already, in whole or in part."""
    for name, module in model.named_modules():
        if module in _claimed:
            part = f"a part ({name!r}) that" if name else "one that"
            raise TaskError(
                f"the task's model is or has {part} another peer of this process trains already: "
                "build a new model in every call of the factory"
            )
    _claimed.update(model.modules())


def check_layouts(model: nn.Module) -> None:
    """Refuse a model whose parameters or buffers cannot be copied, compared, sent and saved as plain tensors are.

    Raises:
        TaskError: It has one; the error names it and the remedy.
    """
    compiled = getattr(model, "_orig_mod", None)
    if isinstance(compiled, nn.Module):
        name = type(compiled).__name__
        raise TaskError(
            f"the task's model is torch.compile({name}), whose parameters have other names: give the {name} itself, "
            "and compile it in place with model.compile()"
        )
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if nn.parameter.is_lazy(tensor):
                continue
            if (found := type_of(tensor)) is not None:
                raise TaskError(f"{kind} {name!r} is a {found} tensor, and a model's tensors must be dense")
            if tensor.is_inference():
                raise TaskError(f"{kind} {name!r} was made in inference mode: build the model outside of it")


def type_of(tensor: Tensor) -> str | None:
    """The kind of a tensor that is not dense: sparse, quantized or nested; None for a dense one."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    # By name: other layouts (mkldnn) have no constant.
    layout = str(tensor.layout).removeprefix("torch.")
    return None if layout == "strided" else layout.replace("_", " ")
