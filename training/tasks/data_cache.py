"""Cache of data sets: each is read once for all peers of a process, and dropped once peers have their parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from dpeer.exceptions import TaskError
from dpeer.training.data.pool import Data, Pool
from dpeer.training.randomness import Purpose, stream
from dpeer.training.tasks.pooled import divide


def read(
    reader: Callable[[Any], Data], data: Any, seed: int, train_samples: Any = None, test_samples: Any = None
) -> Data:
    """Read a data set, or a number of its samples that are drawn at random.

    Args:
        reader: Gets `data`.
        data: What the user gave, or what was made of it.
        seed: Decides which samples are drawn.
        train_samples: How many training samples; None for all.
        test_samples: How many test samples; None for all.

    Raises:
        TaskError: The data cannot be read, or have fewer samples.
    """
    for option, value in (("data", data), ("train_samples", train_samples), ("test_samples", test_samples)):
        if not isinstance(value, Hashable):  # a list or a table, which no option here is
            raise TaskError(
                f"task option {option} = {value!r}: expected {'a path' if option == 'data' else 'a number'}"
            )
    return _read(reader, data, seed, train_samples, test_samples)


def forget() -> None:
    """Drop the data sets that were read: a process that has all its peers needs only their parts."""
    _read.cache_clear()
    divide.cache_clear()  # it keeps what it divided, too


@lru_cache(maxsize=1)
def _read(reader: Callable[[Any], Data], data: Any, seed: int, train_samples: Any, test_samples: Any) -> Data:
    found = reader(data)
    train = _some("train_samples", found.train, train_samples, seed, 0)
    test = found.test if found.test is None else _some("test_samples", found.test, test_samples, seed, 1)
    return replace(found, train=train, test=test)


def _some(option: str, pool: Pool, count: Any, seed: int, which: int) -> Pool:
    if count is None:
        return pool
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= len(pool):
        raise TaskError(f"task option {option} = {count!r}: expected a number of samples, 1 to {len(pool)}")
    rows = np.sort(stream(seed, Purpose.SUBSET, which).permutation(len(pool))[:count])
    index = torch.from_numpy(rows)
    return Pool(
        pool.inputs[index],
        pool.targets[index],
        None if pool.groups is None else pool.groups[rows],
        None if pool.stretches is None else pool.stretches[rows],
        rows,
        len(pool),
    )
