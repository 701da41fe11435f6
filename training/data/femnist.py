"""FEMNIST in the json files that LEAF makes (Caldas et al., 2018): handwriting of 3,550 people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.files import check, folder, reading, whole
from dpeer.training.data.pool import Data, Pool

TASK = "femnist"
SOURCE = "https://github.com/TalwalkarLab/leaf (data/femnist/preprocess.sh)"
_CLASSES, _SIDE = 62, 28

_Arrays = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.str_]]


def femnist(*, data: str | None = None) -> Data:
    """Images (1, 28, 28) of 62 characters (digits, capitals, small letters), each with its writer.

    LEAF divides each writer's samples into train and test, or the writers (``-t sample`` and ``-t user`` of its
    script): the first is kept for every partition, the second for all but ``writer``. Its pixels are 255ths of 1,
    ink 0 and paper 1; they are kept as bytes.

    Args:
        data: A folder with ``train/*.json`` and ``test/*.json``, or with ``all_data/*.json``, or with json files of
            which peers hold out samples themselves; or LEAF's folder around it.

    Raises:
        TaskError: A file is missing or damaged.
    """
    places = ("data/femnist/data", "femnist/data", "data")  # in LEAF's folder, in `data` of that, and in `femnist`
    where = folder(TASK, data, "train/*.json and test/*.json", SOURCE, *places)
    if (where / "train").is_dir():
        train, test = _pool(where / "train"), _pool(where / "test")
        assert train.groups is not None
        assert test.groups is not None
        same = bool(np.isin(test.groups, train.groups).any())
        return Data(
            train, test, _CLASSES, "writer", same_groups=same, pixels=True, mirrored=False, background=1.0
        )  # fmt: skip
    whole = _pool(where / "all_data" if (where / "all_data").is_dir() else where)
    return Data(whole, None, _CLASSES, "writer", pixels=True, mirrored=False, background=1.0)


def _pool(where: Path) -> Pool:
    paths = sorted(where.glob("*.json"))
    if not paths:
        raise TaskError(
            f"task {TASK!r}: expected json files in {where}, or train/*.json and test/*.json; from {SOURCE}"
        )
    parts = [part for path in paths for part in _file(path)]
    check(TASK, where, bool(parts), "at least one sample")
    x, y, writers = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Pool(torch.from_numpy(x).view(-1, 1, _SIDE, _SIDE), torch.from_numpy(y), writers)


def _file(path: Path) -> list[_Arrays]:
    with reading(TASK, path, SOURCE):
        content = json.loads(path.read_bytes())
        users, counts, samples = content["users"], content["num_samples"], content["user_data"]
        parts = []
        for user, count in zip(users, counts, strict=True):
            if "\0" in str(user):
                raise ValueError(f"writer {user!r} has a NUL character in the name")
            x = np.asarray(samples[user]["x"], np.float32).reshape(-1, _SIDE * _SIDE)
            y = whole(samples[user]["y"])
            if not len(x) == len(y) == count:
                raise ValueError(f"writer {user!r} has {len(x)} images and {len(y)} labels of {count} samples")
            if len(y) and not (y.min() >= 0 and y.max() < _CLASSES):
                raise ValueError(f"writer {user!r} has labels {y.min()} to {y.max()}, not 0 to {_CLASSES - 1}")
            levels = np.rint(x * 255)
            if not ((levels >= 0) & (levels <= 255) & (np.abs(x * 255 - levels) < 1e-3)).all():
                raise ValueError(f"writer {user!r} has pixels that are no 255ths of 1")
            if len(y):
                parts.append((levels.astype(np.uint8), y, np.full(len(y), str(user))))
    return parts
