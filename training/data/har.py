"""UCI HAR: six activities of 30 persons, from the sensors of a phone at the waist (Anguita et al., 2013)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.training.data.files import Source
from dpeer.training.data.holdout import Indices
from dpeer.training.data.pool import Data, Pool

_SOURCE = Source("har", "https://archive.ics.uci.edu/dataset/240")
CHANNELS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
_CLASSES, _LENGTH = 6, 128
_ARRAYS = ("x", "y", "subject", "is_test")

_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.bool_]]


def har(*, data: str | None = None) -> Data:
    """10,299 windows (9, 128) of raw signals: body acceleration (g), rotation (rad/s), total acceleration (g).

    A window is 2.56 s at 50 Hz and shares its second half with the next one, so whole stretches of windows that
    follow each other are held out together. The test pool are the nine persons of the published split.

    Args:
        data: The folder "UCI HAR Dataset", the one around it, or an .npz file of arrays ``x`` (windows, 128, 9),
            ``y``, ``subject`` and ``is_test``.
    """
    if data is not None and data.endswith(".npz"):
        x, y, subject, is_test = _npz(_SOURCE.need(Path(data).expanduser()))
    else:
        x, y, subject, is_test = _folder(_SOURCE.folder(data, "UCI HAR Dataset", "UCI HAR Dataset"))
    chains = stretches(x, y, subject)
    inputs = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 2, 1), dtype=np.float32))
    targets = torch.from_numpy(y.astype(np.int64))
    pools = [
        Pool(inputs[torch.from_numpy(rows)], targets[torch.from_numpy(rows)], subject[rows], chains[rows])
        for rows in (np.flatnonzero(~is_test), np.flatnonzero(is_test))
        if len(rows)
    ]
    return Data(pools[0], pools[1] if len(pools) > 1 else None, _CLASSES, "subject")


def stretches(x: NDArray[Any], y: NDArray[Any], subject: NDArray[Any]) -> Indices:
    """The number of each window's stretch, shape (windows,): windows that share a half, found by their contents.

    Contents, because files do not all keep the order of recording. Where no two windows share a half (each was
    filtered or scaled by itself), rows that follow each other with one person and activity count as one stretch.
    """
    number = list(range(len(x)))

    def root(row: int) -> int:
        while number[row] != row:
            number[row] = number[number[row]]
            row = number[row]
        return row

    seen: dict[tuple[int, bytes], int] = {}
    for row, (person, window) in enumerate(zip(subject.tolist(), x, strict=True)):
        for half in (window[: _LENGTH // 2], window[_LENGTH // 2 :]):
            number[root(row)] = root(seen.setdefault((person, half.tobytes()), row))
    found = np.array([root(row) for row in range(len(x))], dtype=np.int64)
    if len(np.unique(found)) < len(x):
        return found
    starts = (np.diff(y, prepend=y[:1]) != 0) | (np.diff(subject, prepend=subject[:1]) != 0)
    return np.cumsum(starts).astype(np.int64)


def _npz(path: Path) -> _Arrays:
    found = _SOURCE.arrays(path, _ARRAYS)
    x, y, subject, is_test = (found[name] for name in _ARRAYS)
    count = x.shape[:1]
    fits = x.shape == (*count, _LENGTH, len(CHANNELS)) and y.shape == subject.shape == is_test.shape == count
    kinds = x.dtype.kind == "f" and y.dtype.kind in "iu" and subject.dtype.kind in "iu"
    _SOURCE.check(path, fits and kinds and len(x) > 0, f"x (windows, {_LENGTH}, {len(CHANNELS)}), y, subject, is_test")
    _SOURCE.check(path, int(y.min()) >= 0 and int(y.max()) < _CLASSES, f"activities y from 0 to {_CLASSES - 1}")
    _SOURCE.check(path, bool(np.isfinite(x).all()), "finite numbers")
    return x, y.astype(np.int64), subject.astype(np.int64), is_test.astype(bool)


def _folder(where: Path) -> _Arrays:
    parts = [_part(where / part, part) for part in ("train", "test")]
    x, y, subject = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return x, y, subject, np.repeat([False, True], [len(parts[0][1]), len(parts[1][1])])


def _part(where: Path, part: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    y, subject = (_table(where / f"{name}_{part}.txt", 1) for name in ("y", "subject"))
    _SOURCE.check(where / f"subject_{part}.txt", len(subject) == len(y), f"{len(y)} rows, as y_{part}.txt has")
    _SOURCE.check(where / f"y_{part}.txt", y.min() >= 1 and y.max() <= _CLASSES, f"activities 1 to {_CLASSES}")
    signals = []
    for path in (where / "Inertial Signals" / f"{name}_{part}.txt" for name in CHANNELS):
        signals.append(_table(path, _LENGTH))
        _SOURCE.check(path, len(signals[-1]) == len(y), f"{len(y)} rows, as y_{part}.txt has")
    return np.stack(signals, axis=2), y[:, 0].astype(np.int64) - 1, subject[:, 0].astype(np.int64)


def _table(path: Path, width: int) -> NDArray[np.float32]:
    with _SOURCE.reading(_SOURCE.need(path)):
        _SOURCE.check(path, path.stat().st_size > 0, f"rows of {width} numbers")  # np.loadtxt warns of an empty file
        found = np.loadtxt(path, dtype=np.float32, ndmin=2)
    _SOURCE.check(path, len(found) > 0 and found.shape[1] == width, f"rows of {width} numbers")
    _SOURCE.check(path, bool(np.isfinite(found).all()), "finite numbers")
    return found
