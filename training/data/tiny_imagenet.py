"""Tiny ImageNet: 200 of ImageNet's classes at 64x64 pixels (Stanford's course CS231n)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from dpeer.exceptions import TaskError
from dpeer.training.data.files import check, folder, need, read_images, reading
from dpeer.training.data.pool import Data, Pool

TASK = "tiny-imagenet"
SOURCE = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
_SIDE = 64

_Labelled = list[tuple[Path, int]]


def tiny_imagenet(*, data: str | None = None) -> Data:
    """110,000 images (3, 64, 64) of 200 classes, numbered as in ``wnids.txt``.

    The 10,000 images of ``val`` are the test pool: those in ``test`` have no published labels. Some images are
    grey; they become RGB.

    Args:
        data: The folder ``tiny-imagenet-200``, or the one around it.

    Raises:
        TaskError: A file is missing or damaged, or Pillow is not installed.
    """
    where = folder(TASK, data, "tiny-imagenet-200", SOURCE, "tiny-imagenet-200")
    with reading(TASK, need(TASK, where / "wnids.txt", SOURCE), SOURCE):
        names = (where / "wnids.txt").read_text().split()
    check(TASK, where / "wnids.txt", len(names) > 1 and len(set(names)) == len(names), "a class a line, each once")
    numbers = {name: number for number, name in enumerate(names)}
    train, test = _train(where / "train", numbers), _val(where / "val", numbers)  # all paths before the first image
    return Data(_pool(train), _pool(test), len(names), pixels=True)


def _train(where: Path, numbers: dict[str, int]) -> _Labelled:
    found: _Labelled = []
    for name, number in numbers.items():
        paths = sorted((where / name / "images").glob("*.JPEG"))
        if not paths:
            raise TaskError(f"task {TASK!r}: expected *.JPEG in {where / name / 'images'}; from {SOURCE}")
        found += [(path, number) for path in paths]
    return found


def _val(where: Path, numbers: dict[str, int]) -> _Labelled:
    path = need(TASK, where / "val_annotations.txt", SOURCE)
    with reading(TASK, path, SOURCE):
        rows = [line.split("\t") for line in path.read_text().splitlines() if line]
    check(TASK, path, bool(rows), "an image a line")
    for number, row in enumerate(rows, start=1):
        fits = len(row) >= 2 and row[1] in numbers
        check(TASK, path, fits, f"a file's name and a class of wnids.txt, between tabs; line {number} is {row}")
        need(TASK, where / "images" / row[0], SOURCE)
    return [(where / "images" / row[0], numbers[row[1]]) for row in rows]


def _pool(labelled: _Labelled) -> Pool:
    inputs = read_images(TASK, [path for path, _ in labelled], 3, _SIDE, resize=False).pixels
    return Pool(inputs, torch.from_numpy(np.array([number for _, number in labelled], np.int64)))
