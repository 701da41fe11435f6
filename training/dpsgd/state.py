"""What a model, its loss, the functions of a task and its data remember in Python attributes.

Buffers and parameters are not all that code can keep: a layer that sets its scale from the first batch it sees, or
keeps a moving average in an attribute, in its class or in a variable of its file, carries what it has seen of some
examples into the gradients of others.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpeer.training.layouts import type_of

_DEEP = 6
"""How far attributes of attributes are followed."""

_LONG = 2000
"""How many of a container's items are looked at."""

_LARGE = 2**24
"""Of arrays of more bytes only so many, evenly spread, are looked at."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_APART = {"_parameters", "_buffers", "_modules", "training"}
"""What others look at, and what changes whenever a model is switched to evaluation and back."""

_OTHERS = {*sys.stdlib_module_names, "torch", "numpy", "dpeer"}
"""Packages whose own variables are not looked at: they have caches, and keep nothing of a task's examples."""

_OPEN = {"io", "_io", "gzip", "logging", "mmap", "socket", "sqlite3", "tarfile", "threading", "_thread", "zipfile"}
"""Modules of files, locks and the like: what they keep is where they are, and changes whenever they are used."""


def remembered(module: nn.Module | None, others: Iterable[Any]) -> dict[str, Any]:
    """By path, what stands in the attributes of a model's modules and of other objects, in a form to compare.

    Args:
        module: The model; None to look at the others alone.
        others: Functions and objects with a state, such as a loss; those that are None have none.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set() if module is None else {id(layer) for layer in module.modules()}
    for name, layer in () if module is None else module.named_modules():
        for attribute, value in {**_state(layer), **_hooks(layer)}.items():
            _note(f"{attribute!r} of {type(layer).__name__} {name!r}", value, found, seen, 0)
    for one in others:
        _note(f"{type(one).__name__} {getattr(one, '__name__', '')}".strip(), one, found, seen, 0)
    return found


def _foreign(module: str | None) -> bool:
    """Whether code of this module is a user's, or of a library that may do anything."""
    return (module or "").partition(".")[0] not in _OTHERS


def _hooks(layer: nn.Module) -> dict[str, Any]:
    """Functions that are called with the layer."""
    return {
        f"{kind} {number}": hook
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
        for number, hook in enumerate(getattr(layer, kind, {}).values())
    }


def _state(value: Any) -> dict[str, Any]:
    """What stands in an object's attributes and in those of its classes: their variables, and what their code uses."""
    own = {name: one for name, one in vars(value).items() if name not in _APART and not name.endswith("_hooks")}
    for kind in type(value).__mro__:
        if _foreign(kind.__module__):
            own |= {
                f"{kind.__name__}.{name}": getattr(one, "__func__", one)  # of a static or a class method
                for name, one in vars(kind).items()
                if name == "__call__" or name == "__getitem__" or not name.startswith(("__", "_abc_"))
            }
    return own


def _note(path: str, value: Any, found: dict[str, Any], seen: set[int], depth: int) -> None:
    if isinstance(value, _PLAIN):
        found[path] = value if value == value else "nan"
    elif isinstance(value, Tensor):
        found[path] = (tuple(value.shape), str(value.dtype), _digest(value.detach()))
    elif isinstance(value, np.ndarray):
        found[path] = (value.shape, str(value.dtype), _hash(value))
    elif isinstance(value, torch.Generator):
        found[path] = _digest(value.get_state())
    elif isinstance(value, np.random.Generator):
        found[path] = str(value.bit_generator.state)
    elif isinstance(value, np.random.RandomState | random.Random):
        state = value.getstate() if isinstance(value, random.Random) else value.get_state(legacy=False)
        found[path] = hashlib.sha256(str(state).encode()).hexdigest()
    elif depth > _DEEP or id(value) in seen or isinstance(value, type | ModuleType) or type(value).__module__ in _OPEN:
        return
    else:
        seen.add(id(value))
        for name, one in _inside(value):
            _note(f"{path}.{name}", one, found, seen, depth + 1)


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    """What a value consists of, by name."""
    if isinstance(value, Mapping):
        return [("length", len(value)), *((str(key), one) for key, one in islice(value.items(), _LONG))]
    if isinstance(value, nn.Module):  # of a loss, for example; the model's own are looked at one by one
        own = [*value.named_parameters(recurse=False), *value.named_buffers(recurse=False)]
        return [*_state(value).items(), *own, *value.named_children()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [("length", len(value)), *((str(number), one) for number, one in enumerate(islice(value, _LONG)))]
    if isinstance(value, partial):
        return [("func", value.func), ("args", value.args), ("keywords", value.keywords), *vars(value).items()]
    if isinstance(value, MethodType):
        return [("self", value.__self__)]
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        given = enumerate([*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()])
        return [
            *vars(value).items(),
            *((str(number), _content(cell)) for number, cell in enumerate(cells)),
            *((f"default {number}", one) for number, one in given),
            *(_variables(value) if _foreign(value.__module__) else ()),
        ]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    own = [(name, getattr(value, name)) for name in slots if hasattr(value, name) and not name.startswith("__")]
    return [*own, *_state(value).items()] if hasattr(value, "__dict__") else own


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of its file that a function uses; of classes and objects, those of a user's own."""
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        kind = value if isinstance(value, type) else type(value)
        if isinstance(value, type) and _foreign(value.__module__):
            yield from (
                (f"{name}.{own}", one) for own, one in vars(value).items() if not own.startswith(("__", "_abc_"))
            )
        elif isinstance(value, ModuleType):
            used = set(_names(function.__code__)) if _foreign(value.__name__) else ()
            yield from ((f"{name}.{own}", one) for own, one in vars(value).items() if own in used)
        elif isinstance(value, FunctionType):
            if _foreign(value.__module__):
                yield name, value
        elif isinstance(value, _KEPT) or _foreign(kind.__module__):
            yield name, value


_KEPT = (*_PLAIN, Mapping, list, set, deque, Tensor, np.ndarray, torch.Generator, np.random.Generator, random.Random)


def _names(code: CodeType) -> Iterator[str]:
    """The names of a function's code, and of functions within it."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _digest(tensor: Tensor) -> str:
    if (kind := type_of(tensor)) is not None:
        return kind
    flat = tensor.reshape(-1)
    step = max(1, flat.numel() * flat.element_size() // _LARGE)
    return hashlib.sha256(flat[::step].cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def _hash(array: np.ndarray[Any, Any]) -> str:
    step = max(1, array.nbytes // _LARGE)
    return hashlib.sha256(array.reshape(-1)[::step].tobytes()).hexdigest()
