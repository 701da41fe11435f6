"""What a model, its loss and the functions of a task remember in Python attributes.

Buffers and parameters are not all that code can keep: a layer that sets its scale from the first batch it sees, or
keeps a moving average in an attribute, carries what it has seen of some examples into the gradients of others.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_DEEP = 6
"""How far attributes of attributes are followed."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_APART = {"_parameters", "_buffers", "_modules", "training"}
"""What others look at, and what changes whenever a model is switched to evaluation and back."""


def remembered(module: nn.Module, others: Iterable[Any]) -> dict[str, Any]:
    """By path, what stands in the attributes of a model's modules and of other objects, in a form to compare.

    Args:
        module: The model.
        others: Functions and objects with a state, such as a loss; those that are None have none.
    """
    found: dict[str, Any] = {}
    seen: set[int] = {id(layer) for layer in module.modules()}
    for name, layer in module.named_modules():
        # What its class and its code keep outside of it, too.
        code = {"forward": type(layer).forward, **_hooks(layer)} if _foreign(layer) else _hooks(layer)
        for attribute, value in {**_state(layer), **code}.items():
            _note(f"{attribute!r} of {type(layer).__name__} {name!r}", value, found, seen, 0)
    for one in others:
        _note(f"{type(one).__name__} {getattr(one, '__name__', '')}".strip(), one, found, seen, 0)
    return found


def _foreign(layer: nn.Module) -> bool:
    """Whether its code is a user's own, and not torch's."""
    return not type(layer).__module__.startswith("torch.")


def _hooks(layer: nn.Module) -> dict[str, Any]:
    """Functions that are called with the layer."""
    return {
        f"{kind} {number}": hook
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
        for number, hook in enumerate(getattr(layer, kind, {}).values())
    }


def _state(value: Any) -> dict[str, Any]:
    return {name: one for name, one in vars(value).items() if name not in _APART and not name.endswith("_hooks")}


def _note(path: str, value: Any, found: dict[str, Any], seen: set[int], depth: int) -> None:
    if isinstance(value, _PLAIN):
        found[path] = value if value == value else "nan"
    elif isinstance(value, Tensor):
        found[path] = (tuple(value.shape), str(value.dtype), _digest(value.detach().cpu()))
    elif isinstance(value, np.ndarray):
        found[path] = (value.shape, str(value.dtype), hashlib.sha256(value.tobytes()).hexdigest())
    elif depth > _DEEP or id(value) in seen or isinstance(value, type | ModuleType):
        return
    else:
        seen.add(id(value))
        for name, one in _inside(value):
            _note(f"{path}.{name}", one, found, seen, depth + 1)


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    """What a value consists of, by name."""
    if isinstance(value, Mapping):
        return [("length", len(value)), *((str(key), one) for key, one in value.items())]
    if isinstance(value, nn.Module):  # of a loss, for example; the model's own are looked at one by one
        own = [*value.named_parameters(recurse=False), *value.named_buffers(recurse=False)]
        return [*_state(value).items(), *own, *value.named_children()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [("length", len(value)), *((str(number), one) for number, one in enumerate(value))]
    if isinstance(value, MethodType):
        return [("self", value.__self__)]
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        named = {name: value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__}
        kept = [one for one in named.items() if isinstance(one[1], Mapping | list | set | deque | Tensor)]
        given = enumerate([*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()])
        return [
            *vars(value).items(),
            *((str(number), _content(cell)) for number, cell in enumerate(cells)),
            *((f"default {number}", one) for number, one in given),
            *kept,
        ]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    own = [(name, getattr(value, name)) for name in slots if hasattr(value, name) and not name.startswith("__")]
    return [*own, *_state(value).items()] if hasattr(value, "__dict__") else own


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _digest(tensor: Tensor) -> str:
    if tensor.layout is not torch.strided:
        return "sparse"
    return hashlib.sha256(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
