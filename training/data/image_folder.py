"""Images in a folder for each class, or in one folder with a table of their labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.duplicate_rows import numbered
from dpeer.training.data.files import read_images
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.tables.check import check
from dpeer.training.data.tables.schema import PlainSchema
from dpeer.training.data.tables.sheet import Sheet, read_sheet

TASK = "image-folder"
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
LABELS = "labels.csv"
"""Beside the images of a folder: their files, labels and maybe groups."""


class ImageFolder(NamedTuple):
    """A folder of images, and how they are read.

    Attributes:
        path: A folder with one folder for each class, or with a table ``labels.csv`` of its images, or with ``train``
            and ``test`` that have either.
        side: Height and width of every image after reading.
        channels: 3 for RGB, 1 for grey.
        classes: The classes' names in the order of their numbers; those of the folders, sorted, if None.
    """

    path: str
    side: int = 32
    channels: int = 3
    classes: tuple[str, ...] | None = None


def image_folder(asked: ImageFolder) -> Data:
    """The images; those in a folder ``test`` beside ``train`` are the test pool.

    Raises:
        TaskError: A folder is missing or has no images, or an image is damaged, or Pillow is not installed.
    """
    path = Path(asked.path).expanduser()
    if not path.is_dir():
        raise TaskError(
            f"task {TASK!r}: path = {asked.path!r} is not a folder; expected one with a folder a class in it"
        )
    train, test = (path / name if (path / name).is_dir() else None for name in ("train", "test"))
    if test is not None and train is None:
        raise TaskError(f"task {TASK!r}: the folder {test} has no folder train beside it")
    classes = asked.classes or _classes(train or path)
    if len(classes) < 2:
        raise TaskError(
            f"task {TASK!r}: expected a folder for each of two classes or more in {train or path}; "
            f"it has {classes[0] if classes else 'none'}"
        )
    known: dict[str, int] = {}  # a group has one number in both pools
    pool = _pool(train or path, classes, asked, known)
    other = None if test is None else _pool(test, classes, asked, known)
    return Data(
        pool,
        other,
        len(classes),
        None if pool.groups is None else "group",
        whole_groups=pool.groups is not None,
        pixels=True,
        names={"classes": classes},
        found={} if asked.classes else {"classes": classes},
        remarks=tuple(
            line
            for where, part in ((train or path, pool), (test, other))
            if where is not None and part is not None
            for line in _about(where, classes, part)
        ),
    )


def labelled_images(where: Path, classes: tuple[str, ...], asked: ImageFolder) -> tuple[Pool, tuple[str, ...]]:
    """The images of one pool with their classes, as training images are read, and a line on files that are left out.

    Raises:
        TaskError: A folder or a label is of no class, or no image is found, or one is damaged.
    """
    return _pool(where, classes, asked, {}), tuple(_left_out_of_classes(where, classes))


def all_images(where: Path) -> list[Path]:
    """Every image in a folder and the folders in it, sorted by its path."""
    found = (path for path in where.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    return sorted(path for path in found if not any(map(_of_system, path.relative_to(where).parts)))


def _of_system(name: str) -> bool:
    """Whether a name is of what systems leave beside the images: hidden files, and the folder of macOS's archives."""
    return name.startswith(".") or name == "__MACOSX"


def _inside(where: Path) -> list[str]:
    return [path.name for path in where.iterdir() if path.is_dir() and not _of_system(path.name)]


def _about(where: Path, classes: tuple[str, ...], pool: Pool) -> list[str]:
    """Lines on the images of a folder by class, and on its files that are left out."""
    counts = np.bincount(np.asarray(pool.labels()), minlength=len(classes))
    shown = ", ".join(f"{name} {count}" for name, count in zip(classes, counts, strict=True))
    lines = [f"{len(pool)} images in {where.name}; classes: {shown}"]
    return [*lines, *_left_out_of_classes(where, classes)]


def _left_out_of_classes(where: Path, classes: tuple[str, ...]) -> list[str]:
    """A line on the files of a labelled folder that are not read."""
    if (where / LABELS).is_file():
        used = {(where / name).resolve() for name in _table(where).cells["file"]}
        used.add((where / LABELS).resolve())
        return left_out(where, [path for path in where.rglob("*") if path.resolve() in used])
    return left_out(where, [path for name in classes for path in _images(where / name)])


def left_out(where: Path, read: Iterable[Path]) -> list[str]:
    """A line on the files in a folder, and in the folders in it, that are not among those that are read."""
    known = {*read}
    left = [path for path in where.rglob("*") if path.is_file() and path not in known]
    return [f"left out of {where.name}: {_kinds(where, left)}"] if left else []


def _kinds(where: Path, left: Iterable[Path]) -> str:
    """Files that are left out, counted by the reason, each reason with its first file."""
    kinds: dict[str, list[str]] = {}
    for path in sorted(left):
        inside = path.relative_to(where)
        if any(map(_of_system, inside.parts)):
            kind = "hidden or of __MACOSX"
        elif path.suffix.lower() in ENDINGS:
            kind = "images in other places"
        else:
            kind = path.suffix.lower() or "without an ending"
        kinds.setdefault(kind, []).append(str(inside))
    return ", ".join(f"{len(names)} {kind} (such as {names[0]})" for kind, names in kinds.items())


def _classes(where: Path) -> tuple[str, ...]:
    """The classes that a folder's table or its folders name, sorted."""
    if not (where / LABELS).is_file():
        return tuple(sorted(_inside(where)))
    return tuple(sorted({*_table(where).cells["label"]} - {""}))


def _table(where: Path) -> Sheet:
    """The table of a folder's images, which must have the columns ``file`` and ``label``."""
    sheet = read_sheet(str(where / LABELS))
    for name in ("file", "label"):
        if name not in sheet.header:
            raise UnknownName("column", name, sheet.header, f"{sheet.path!r}, which needs file and label")
    return sheet


def _labelled(where: Path, classes: tuple[str, ...], asked: ImageFolder, known: dict[str, int]) -> Pool:
    """The images that a table names, with their labels, and with their groups where it has the column ``group``."""
    sheet = _table(where)
    group = {"group": "group"} if "group" in sheet.header else {}
    schema = PlainSchema.of({"column": "label", "classes": classes}, {"file": "text", **group})
    labels = check(schema, sheet).accepted().labels
    paths = [where / name for name in sheet.cells["file"]]
    for path, place in zip(paths, sheet.places, strict=True):
        if not path.is_file():
            raise TaskError(f"task {TASK!r}: {sheet.path!r}, row {place}: no image {str(path)!r}")
    inputs = read_images(TASK, paths, asked.channels, asked.side, resize=True)
    if not group:
        return Pool(inputs, torch.from_numpy(labels))
    groups = sheet.cells["group"]
    return Pool(inputs, torch.from_numpy(labels), np.array(groups), numbered(groups, known))


def _pool(where: Path, classes: tuple[str, ...], asked: ImageFolder, known: dict[str, int]) -> Pool:
    if (where / LABELS).is_file():
        return _labelled(where, classes, asked, known)
    if strange := sorted(set(_inside(where)) - set(classes)):
        raise TaskError(f"task {TASK!r}: the folder {where / strange[0]} is none of the classes {', '.join(classes)}")
    labelled = [(path, number) for number, name in enumerate(classes) for path in _images(where / name)]
    filled = {number for _, number in labelled}
    for number, name in enumerate(classes):
        if number in filled:
            continue
        held = [path for path in (where / name).rglob("*") if path.is_file()]
        if not held and (asked.classes or not labelled or not (where / name).is_dir()):
            continue  # a peer need not have every class that is named
        raise TaskError(
            f"task {TASK!r}: class {name!r} has no image ({', '.join(ENDINGS)}) directly in {where / name}; "
            + (f"left out: {_kinds(where, held)}" if held else "remove the folder, and name all classes with classes=")
        )
    if not labelled:
        raise TaskError(f"task {TASK!r}: expected images ({', '.join(ENDINGS)}) in {where / classes[0]}; it has none")
    inputs = read_images(TASK, [path for path, _ in labelled], asked.channels, asked.side, resize=True)
    return Pool(inputs, torch.from_numpy(np.array([number for _, number in labelled], np.int64)))


def _images(where: Path) -> list[Path]:
    """A class's images by name; none where it has no folder: a peer need not have every class."""
    if not where.is_dir():
        return []
    # Names with a dot in front are what systems leave beside the images.
    return sorted(path for path in where.iterdir() if path.suffix.lower() in ENDINGS and path.name[0] != ".")
