"""First weights from a file (``--init-from``): pretrained ones, in the format safetensors, which can hold no code.

Peers must begin alike, so the hash of the file is among what they compare; where it lies is each one's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dpeer.exceptions import TaskError
from dpeer.training.initial.file import Weights, opened
from dpeer.training.initial.names import matched, nearest
from dpeer.training.models.scaling import BUFFERS
from dpeer.training.split import is_under
from dpeer.training.store import Origin

_MOST = 3
"""How many names a line lists."""


@dataclass(frozen=True)
class Initial:
    """What a model has taken from a file.

    Attributes:
        sha256: Of the file's content, hex.
        taken: How many tensors the model has from it.
        fresh: Names in the model of those that stay as they were initialised, with the reason.
        unused: Names in the file of those that the model has not.
        origin: What the file says of the records that its values were trained on; None where it says nothing.
    """

    sha256: str
    taken: int
    fresh: Mapping[str, str]
    unused: tuple[str, ...]
    origin: Origin | None = None

    def to_json(self) -> dict[str, Any]:
        """For the model card."""
        return {"sha256": self.sha256, "taken": self.taken, "fresh": dict(self.fresh), "unused": len(self.unused)}

    def line(self, path: Path) -> str:
        """What the user is told."""
        said = [f"weights of {path.name} (SHA-256 {self.sha256[:12]}): {self.taken} tensors taken"]
        for reason in dict.fromkeys(self.fresh.values()):
            names = [name for name, why in self.fresh.items() if why == reason]
            said += [f"{listed(names)} as initialised ({reason})"]
        if self.unused:
            said.append(f"not used: {listed(self.unused)}")
        return "; ".join(said)


def begin_from(model: nn.Module, head: tuple[str, ...], path: Path) -> Initial:
    """Give a model the weights in a file; what the file lacks stays as it was initialised.

    Names that differ in a common prefix (``model.``, ``module.``) are matched, and of models of the library
    transformers the names that files published earlier have. Tensors are read one by one, from memory that the system
    maps, so that the file is in memory once at most.

    Args:
        model: The model; changed in place, unless something is refused.
        head: The name prefixes of its head, where a tensor of another shape (of other classes) is left aside.
        path: The file.

    Raises:
        ConfigurationError: There is no such file, or it is no safetensors file.
        TaskError: The file is of another model.
    """
    own = _own(model)
    with opened(path) as weights:
        found = matched(weights.shapes, own, model)
        unused = tuple(name for name in weights.shapes if name not in found.values())
        fresh = _differing(path, weights, found, own, head)
        taken = {name: there for name, there in found.items() if name not in fresh}
        body = [name for name in own if not is_under(name, head)]
        if not any(name in taken for name in body or own):
            raise _strange(path, weights, body or [*own])
        for name, there in taken.items():
            _check(path, there, weights.tensor(there), own[name])
        for name, there in taken.items():
            own[name].data.copy_(weights.tensor(there))
    reached = {own[name].data_ptr() for name in taken}  # a tied tensor may have one of its names in the file
    fresh |= {name: "not in the file" for name in own if name not in found and own[name].data_ptr() not in reached}
    return Initial(weights.sha256, len(taken), fresh, unused, weights.origin)


def _own(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and saved buffers by name, without those that come from the peer's own data."""
    return {
        name: value for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor) and name not in BUFFERS and not is_lazy(value)
    }  # fmt: skip


def _differing(
    path: Path, weights: Weights, found: Mapping[str, str], own: Mapping[str, Tensor], head: tuple[str, ...]
) -> dict[str, str]:
    """The tensors of the head that have another shape in the file, with the reason for which they are not taken.

    Raises:
        TaskError: One of the body has another shape.
    """
    differing: dict[str, str] = {}
    for name, there in found.items():
        shapes = weights.shapes[there], tuple(own[name].shape)
        if shapes[0] == shapes[1]:
            continue
        if not is_under(name, head):
            raise TaskError(
                f"--init-from {path}: {there!r} has shape {shapes[0]}, the model's {name!r} {shapes[1]}: the file is "
                "of a model with other options (--model-option), or of another one"
            )
        differing[name] = f"shape {shapes[0]} in the file, {shapes[1]} here"
    return differing


def _check(path: Path, there: str, value: Tensor, own: Tensor) -> None:
    """Refuse values that cannot be the model's."""
    if value.is_floating_point() != own.is_floating_point():
        kinds = [str(one.dtype).removeprefix("torch.") for one in (value, own)]
        raise TaskError(f"--init-from {path}: {there!r} is of type {kinds[0]}, the model's of {kinds[1]}")
    if value.is_floating_point() and not value.float().isfinite().all():
        raise TaskError(f"--init-from {path}: {there!r} has values that are not finite")


def _strange(path: Path, weights: Weights, own: Sequence[str]) -> TaskError:
    first, near = nearest(own, weights.shapes)
    advice = f"; nearest to {first!r} is {near!r}" if near else ""
    return TaskError(
        f"--init-from {path}: nothing in it fits the model's body: the file has {listed(tuple(weights.shapes))}; the "
        f"model has {listed(own)}{advice}"
    )


def listed(names: Sequence[str]) -> str:
    """The first few of some names, and how many others there are."""
    more = len(names) - _MOST
    return (", ".join(names[:_MOST]) or "nothing") + (f" and {more} more" if more > 0 else "")
