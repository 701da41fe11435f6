"""Images in a folder for each class, or in one folder with a table of their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.files import read_images
from dpeer.training.data.holdout import Indices, numbered
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.tables.check import check
from dpeer.training.data.tables.schema import PlainSchema
from dpeer.training.data.tables.sheet import Sheet, read_sheet
from dpeer.training.keyword_options import Names, Text

TASK = "image-folder"
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
LABELS = "labels.csv"
"""Beside the images of a folder: their files, labels and maybe groups."""


def image_folder(
    *,
    path: Text,
    image_size: Annotated[int, Field(ge=1, le=1024)] = 32,
    channels: Literal[3, 1] = 3,
    classes: Annotated[Names, Field(min_length=2)] | None = None,
) -> Data:
    """The images; those in a folder ``test`` beside ``train`` are the test pool.

    Args:
        path: A folder with one folder for each class, or with a table ``labels.csv`` of its images, or with ``train``
            and ``test`` that have either.
        image_size: Height and width of every image after reading.
        channels: 3 for RGB, 1 for grey.
        classes: The classes' names in the order of their numbers; those of the folders, sorted, if None.

    Raises:
        TaskError: A folder is missing or has no images, or an image is damaged, or Pillow is not installed.
    """
    where = Path(path).expanduser()
    if not where.is_dir():
        raise TaskError(f"task {TASK!r}: path = {path!r} is not a folder; expected one with a folder a class in it")
    if (where / "test").is_dir() and not (where / "train").is_dir():
        raise TaskError(f"task {TASK!r}: the folder {where / 'test'} has no folder train beside it")
    folders = [where / part for part in ("train", "test") if (where / part).is_dir()] or [where]
    names = classes or _classes(folders[0])
    if len(names) < 2:
        raise TaskError(
            f"task {TASK!r}: expected a folder for each of two classes or more in {folders[0]}; "
            f"it has {names[0] if names else 'none'}"
        )
    known: dict[str, int] = {}  # a group has one number in both pools
    pools, remarks = [], []
    for folder in folders:
        pool, said = labelled_images(folder, names, channels, image_size, known, stated=classes is not None)
        pools.append(pool)
        counts = np.bincount(pool.labels(), minlength=len(names)).tolist()
        shown = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
        remarks += [f"{len(pool)} images in {folder.name}; classes: {shown}", *said]
    return Data(
        pools[0],
        pools[1] if len(pools) > 1 else None,
        len(names),
        None if pools[0].groups is None else "group",
        whole_groups=pools[0].groups is not None,
        pixels=True,
        names={"classes": names},
        found={} if classes else {"classes": names},
        remarks=tuple(remarks),
    )


def labelled_images(
    where: Path,
    classes: tuple[str, ...],
    channels: int,
    side: int,
    known: dict[str, int] | None = None,
    *,
    stated: bool = True,
) -> tuple[Pool, tuple[str, ...]]:
    """The images of one pool with their classes, and lines on what is left out of them.

    `known` are the numbers of groups of another pool. Where settings do not state the classes, a peer has all of them.
    """
    listed = _by_table(where, classes) if (where / LABELS).is_file() else _by_folders(where, classes, stated=stated)
    inputs, remarks = read_images(TASK, listed.paths, channels, side, resize=True)
    groups = () if listed.groups is None else (np.array(listed.groups), numbered(listed.groups, known))
    pool = Pool(inputs, torch.from_numpy(listed.labels), *groups)
    return pool, (*remarks, *left_out(where, [*listed.paths, where / LABELS]))


def all_images(where: Path) -> list[Path]:
    """Every image in a folder and the folders in it, sorted by its path."""
    found = (path for path in where.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    return sorted(path for path in found if not any(map(_of_system, path.relative_to(where).parts)))


def _of_system(name: str) -> bool:
    """Whether a name is of what systems leave beside the images: hidden files, and the folder of macOS's archives."""
    return name.startswith(".") or name == "__MACOSX"


def left_out(where: Path, read: Iterable[Path]) -> list[str]:
    """A line on the files in a folder, and in the folders in it, that are not among those that are read."""
    known = {path.resolve() for path in read}
    left = [path for path in where.rglob("*") if path.is_file() and path.resolve() not in known]
    count = f"{len(left)} file{'s' * (len(left) > 1)}"
    return [f"left out of {where.name}: {count}, such as {min(left).relative_to(where)}"] if left else []


def _inside(where: Path) -> list[str]:
    return sorted(path.name for path in where.iterdir() if path.is_dir() and not _of_system(path.name))


def _classes(where: Path) -> tuple[str, ...]:
    """The classes that a folder's table or its folders name, sorted."""
    if not (where / LABELS).is_file():
        return tuple(_inside(where))
    return tuple(sorted({*_table(where).cells["label"]} - {""}))


def _table(where: Path) -> Sheet:
    """The table of a folder's images, which must have the columns ``file`` and ``label``."""
    sheet = read_sheet(str(where / LABELS))
    for name in ("file", "label"):
        if name not in sheet.header:
            raise UnknownName("column", name, sheet.header, f"{sheet.path!r}, which needs file and label")
    return sheet


class _Listed(NamedTuple):
    """The images of a pool, before they are read: their files, class numbers, and maybe their groups."""

    paths: list[Path]
    labels: Indices
    groups: Sequence[str] | None = None


def _by_folders(where: Path, classes: tuple[str, ...], *, stated: bool) -> _Listed:
    """The images in a folder for each class."""
    if strange := [name for name in _inside(where) if name not in classes]:
        raise TaskError(f"task {TASK!r}: the folder {where / strange[0]} is none of the classes {', '.join(classes)}")
    images = [_images(where / name) for name in classes]
    paths = [path for found in images for path in found]
    empty = [name for name, of_it in zip(classes, images, strict=True) if not of_it and (where / name).is_dir()]
    if not paths or (empty and not stated):
        name = (empty or classes)[0]
        raise TaskError(
            f"task {TASK!r}: class {name!r} has no image ({', '.join(ENDINGS)}) directly in {where / name}; "
            "classes= names classes that other sites alone have"
        )
    return _Listed(paths, np.repeat(np.arange(len(classes)), [*map(len, images)]))


def _by_table(where: Path, classes: tuple[str, ...]) -> _Listed:
    """The images that a table names, with their labels, and with their groups where it has the column ``group``."""
    sheet = _table(where)
    group = {"group": "group"} if "group" in sheet.header else {}
    schema = PlainSchema.of({"column": "label", "classes": classes}, {"file": "text", **group})
    labels = check(schema, sheet).accepted().labels
    paths = [where / name for name in sheet.cells["file"]]
    for path, place in zip(paths, sheet.places, strict=True):
        if not path.is_file():
            raise TaskError(f"task {TASK!r}: {sheet.path!r}, row {place}: no image {str(path)!r}")
    return _Listed(paths, labels, sheet.cells["group"] if group else None)


def _images(where: Path) -> list[Path]:
    """A class's images by name; none where it has no folder."""
    found = where.iterdir() if where.is_dir() else ()
    return sorted(path for path in found if path.suffix.lower() in ENDINGS and not _of_system(path.name))
