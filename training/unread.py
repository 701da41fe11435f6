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

_OTHERS = {*sys.stdlib_module_names, "numpy"}
"""Packages whose objects (files, locks, ...) are not copied."""


def unread(dataset: Any) -> Any:
    """A copy of a data set that shares all but attributes, lists and dictionaries; None where there can be none.

    Args:
        dataset: A map-style data set of which nothing has been read yet.
    """
    if type(dataset) is TensorDataset:  # no code of anybody's runs
        return None
    found = _copied(dataset, _DEEP)
    return None if found is dataset else found


def _copied(value: Any, deep: int) -> Any:
    if isinstance(value, Tensor | np.ndarray | nn.Module | type) or not deep:
        return value
    if type(value) is list or type(value) is tuple:
        return type(value)(_copied(one, deep - 1) for one in value) if len(value) <= 100 else copy.copy(value)
    if type(value) is dict:
        return dict(value)
    package = type(value).__module__.partition(".")[0]
    # What a class closes when an object of it goes is the other's, too.
    if package in _OTHERS or not hasattr(value, "__dict__") or hasattr(type(value), "__del__"):
        return value
    try:
        found = copy.copy(value)
        for name, one in vars(value).items():
            vars(found)[name] = _copied(one, deep - 1)
    except Exception:  # an open file, a connection
        return value
    return found
