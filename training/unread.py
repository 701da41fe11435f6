"""A data set as it was before a sample was read, to see whether samples depend on which of them is read first.

Code often settles something at the first sample that it meets: a scale, a length to which all are cut. Each time it is
read the first sample gives the same, so that nothing differs; but all others follow from it. Of a copy whose attributes
are those from before, the last sample can be read first.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import TensorDataset

_DEEP = 4
"""How far attributes of attributes are copied: a subset of a data set with a transform that is made of others."""

_LONG = 100, 10_000
"""Lists of more entries are copied as they are, and longer ones, as dictionaries, not at all: what code fills while it
reads is short before, and what is long is the data, of which a hundred peers need not have a list each."""

_OTHERS = {*sys.stdlib_module_names, "numpy"}
"""Packages whose objects (files, locks, ...) are not copied."""


def unread(dataset: Any) -> Any:
    """A copy of a data set that shares all but attributes, lists and dictionaries; None where there can be none.

    Args:
        dataset: A map-style data set of which nothing has been read yet.
    """
    if type(dataset) is TensorDataset:  # no code of anybody's runs
        return None
    found = _copied(dataset, _DEEP, {})
    return None if found is dataset else found


def _copied(value: Any, deep: int, made: dict[int, Any]) -> Any:
    """A copy of a value; what stands in two places is one in the copy, too (`made`, by id)."""
    if isinstance(value, Tensor | np.ndarray | nn.Module | type) or not deep or id(value) in made:
        return made.get(id(value), value)
    if isinstance(value, list | tuple | dict) and len(value) > _LONG[1]:
        return value
    if type(value) is list or type(value) is tuple:
        near = len(value) <= _LONG[0]
        return type(value)(_copied(one, deep - 1, made) for one in value) if near else copy.copy(value)
    if type(value) is dict:
        return dict(value)
    package = type(value).__module__.partition(".")[0]
    # What a class closes when an object of it goes is the other's, too.
    if package in _OTHERS or not hasattr(value, "__dict__") or hasattr(type(value), "__del__"):
        return value
    try:
        found = made[id(value)] = copy.copy(value)
        for name, one in vars(value).items():
            vars(found)[name] = _copied(one, deep - 1, made)
    except Exception:  # an open file, a connection
        made.pop(id(value), None)
        return value
    return found
