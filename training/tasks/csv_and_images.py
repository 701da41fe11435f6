"""The tasks csv and image-folder, on a user's own files."""

from __future__ import annotations

from typing import Any

from dpeer.exceptions import TaskError
from dpeer.training.data.image_folder import ImageFolder
from dpeer.training.data.image_folder import image_folder as read_image_folder
from dpeer.training.data.tables.table_data import Table
from dpeer.training.data.tables.table_data import table as read_table
from dpeer.training.task import Task
from dpeer.training.tasks import Choices
from dpeer.training.tasks.data_cache import read
from dpeer.training.tasks.options import names, one_of, place, text, whole
from dpeer.training.tasks.pooled import pooled_task

_KINDS = ("classification", "regression")
_LARGEST = 1024


def csv(
    rank: int, size: int, seed: int, *, choices: Choices, path: Any = None, target: Any = None, group: Any = None,
    kind: Any = None, classes: Any = None, ignore: Any = (), columns: Any = None,
) -> Task:  # fmt: skip
    """A rank's rows of a table; see `Table` for the options, and `options.place` for its path."""
    where = place("csv", path, rank, size, "FILE.csv (site-{rank}.csv: a file a peer)", choices.partition)
    if choices.schema is not None:
        others = {
            "target": target, "group": group, "kind": kind, "classes": classes, "columns": columns,
            "ignore": ignore or None,
        }  # fmt: skip
        if twice := next((name for name, value in others.items() if value is not None), None):
            raise TaskError(f"task 'csv': the schema {str(choices.schema)!r} says it: leave out --task-option {twice}")
        asked = Table(where, str(choices.schema))
        return pooled_task(read(read_table, asked, seed), rank, size, seed, choices, model="mlp")
    asked = Table(
        path=where,
        target=text("csv", "target", target, "COLUMN, the column to predict (or --schema schema.toml)"),
        group=None if group is None else text("csv", "group", group, "COLUMN"),
        regression=one_of("csv", "kind", _KINDS[0] if kind is None else kind, _KINDS) == "regression",
        classes=None if classes is None else names("csv", "classes", classes, 2),
        ignore=names("csv", "ignore", ignore),
        columns=None if columns is None else names("csv", "columns", columns, 1),
    )
    if asked.regression and asked.classes is not None:
        raise TaskError("task 'csv': classes= is for kind=classification; leave it out")
    return pooled_task(read(read_table, asked, seed), rank, size, seed, choices, model="mlp")


def image_folder(
    rank: int, size: int, seed: int, *, choices: Choices, path: Any = None, image_size: Any = 32, channels: Any = 3,
    classes: Any = None,
) -> Task:  # fmt: skip
    """A rank's images; see `ImageFolder` for the options."""
    asked = ImageFolder(
        path=place(
            "image-folder",
            path,
            rank,
            size,
            "DIR (site-{rank}: a folder a peer), with a folder for each class",
            choices.partition,
        ),
        side=whole("image-folder", "image_size", image_size, range(1, _LARGEST + 1), f"1 to {_LARGEST} pixels"),
        channels=whole("image-folder", "channels", channels, (1, 3), "3 (RGB) or 1 (grey)"),
        classes=None if classes is None else names("image-folder", "classes", classes, 2),
    )
    return pooled_task(read(read_image_folder, asked, seed), rank, size, seed, choices, model="cnn")
