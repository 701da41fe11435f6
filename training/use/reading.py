"""New data as a model gets it: rows of a table, images in folders, arrays in a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError, describe
from dpeer.training.data.images.image_folder import ENDINGS as IMAGES
from dpeer.training.data.images.image_folder import ImageFolder, all_images, labelled_images, left_out
from dpeer.training.data.images.pixels import read_images
from dpeer.training.data.pool import Pool
from dpeer.training.data.tables.inputs import TableInputs
from dpeer.training.use.new_data import NewData
from dpeer.training.use.texts import ENDINGS, read_new_texts, takes_texts

_ARRAYS = (".npy", ".npz")
INPUTS, TARGETS = "inputs", "targets"


def read_new(
    card: Mapping[str, Any], reading: TableInputs | None, path: Path, *, labels: bool, tokenizer: str | None = None
) -> NewData:
    """Read a file or a folder.

    Args:
        card: The model's.
        reading: How rows of a table become inputs; None for other data.
        path: A csv or parquet file for a table, else a folder of images, a .txt or .tsv of texts, or a .npy or .npz
            file.
        labels: Whether labels are needed.
        tokenizer: The tokenizer.json that the model was trained with; None for bytes, and for other data.

    Raises:
        TaskError: It is not there, not of that kind, empty, or damaged; or it has no labels.
    """
    path = path.expanduser()
    if not path.exists():
        raise TaskError(f"there is no {str(path)!r}")
    built = card.get("model") or {}
    if reading is not None:
        found = _rows(reading, path, labels)
    elif path.is_dir() and built.get("pixels") and len(built.get("shape", ())) == 3:
        found = _images(card, path, labels)
    elif path.suffix.lower() in ENDINGS and path.is_file() and takes_texts(card):
        found = read_new_texts(card, path, tokenizer, labels=labels)
    elif path.suffix.lower() in _ARRAYS and path.is_file():
        found = _arrays(card, path, labels)
    else:
        others = "a folder of images, or " if built.get("pixels") else ""
        others = "a .txt or .tsv with texts, or " if takes_texts(card) else others
        raise TaskError(f"{str(path)!r}: expected {others}a .npy or .npz file with the model's inputs")
    if not len(found):
        raise TaskError(f"{str(path)!r} has no rows")
    return found


def _rows(reading: TableInputs, path: Path, labels: bool) -> NewData:
    rows = reading.read(path, labels=labels)
    if labels and rows.labels is None:
        raise TaskError(f"{str(path)!r} has no column {reading.target!r}, with which predictions could be compared")
    keys = {
        "row": tuple(map(str, rows.places)),
        **{name if name != "row" else "row (input)": cells for name, cells in rows.others.items()},
    }
    return NewData(rows.inputs, rows.labels, keys, rows.remarks)


def _images(card: Mapping[str, Any], path: Path, labels: bool) -> NewData:
    channels, side, _ = card["input_shape"]
    if labels:
        classes = tuple(card.get("classes") or map(str, range(card["model"]["outputs"])))
        pool, remarks = labelled_images(path, classes, ImageFolder(str(path), side, channels, classes))
        inputs, targets = pool.rows(np.arange(len(pool)))
        return NewData(inputs, targets, remarks=remarks)
    paths = all_images(path)
    if not paths:
        raise TaskError("; ".join([f"{str(path)!r} has no images ({', '.join(IMAGES)})", *left_out(path, [])]))
    images = read_images("image-folder", paths, channels, side, resize=True)
    files = tuple(str(one.relative_to(path)) for one in paths)
    return NewData(_scaled(images), None, {"file": files}, tuple(left_out(path, paths)))


def _scaled(images: Tensor) -> Tensor:
    """Bytes of images as the model gets them."""
    return Pool(images, torch.zeros(len(images), dtype=torch.int64)).rows(np.arange(len(images)))[0]


def _arrays(card: Mapping[str, Any], path: Path, labels: bool) -> NewData:
    found = _loaded(path)
    if INPUTS not in found and len(found) == 1:
        found = {INPUTS: next(iter(found.values()))}
    for name, wanted in ((INPUTS, True), (TARGETS, labels)):
        if wanted and name not in found:
            raise TaskError(f"{str(path)!r} has no array {name!r}; it has {', '.join(found) or 'none'}")
    inputs = as_inputs(card, found[INPUTS], str(path))
    targets = as_targets(found[TARGETS], len(inputs), str(path)) if labels else None
    return NewData(inputs, targets, {"row": tuple(str(number) for number in range(len(inputs)))})


def _loaded(path: Path) -> dict[str, Any]:
    try:
        found = np.load(path, allow_pickle=False)  # never objects: they could run code
        if isinstance(found, np.ndarray):
            return {INPUTS: found}
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TaskError(f"{str(path)!r} cannot be read: {describe(error)}") from error


def as_inputs(card: Mapping[str, Any], given: Any, where: str) -> Tensor:
    """An array or a tensor as the model gets it; bytes of images become -1..1, as in training.

    Args:
        card: The model's.
        given: Shape (rows, ...).
        where: Where it is from, for messages.

    Raises:
        TaskError: It has another shape or is not of numbers.
    """
    try:
        found = given.detach().cpu() if isinstance(given, Tensor) else torch.from_numpy(np.ascontiguousarray(given))
    except (TypeError, ValueError) as error:
        raise TaskError(f"{where}: expected an array of numbers") from error
    shape = card.get("input_shape")
    if found.ndim == 0 or (shape is not None and list(found.shape[1:]) != shape):
        wanted = "rows, ..." if shape is None else ", ".join(map(str, ["rows", *shape]))
        raise TaskError(f"{where}: the shape is {tuple(found.shape)}; expected ({wanted})")
    if found.dtype == torch.uint8 and (card.get("model") or {}).get("pixels"):
        return _scaled(found)
    if not card.get("model"):  # a model of one's own may want whole numbers
        return found.float() if found.dtype == torch.float64 else found
    if found.is_complex() or found.dtype == torch.bool:
        raise TaskError(f"{where}: expected an array of numbers")
    if (count := token_count(card)) is None:
        return found.float()
    if found.is_floating_point() or (found.numel() and (int(found.min()) < 0 or int(found.max()) >= count)):
        raise TaskError(f"{where}: expected token numbers, whole numbers from 0 to {count - 1}")
    return found.long()


def token_count(card: Mapping[str, Any]) -> int | None:
    """How many tokens the vocabulary of a built-in model for text has; None where inputs are no token numbers."""
    built = card.get("model") or {}
    if not built.get("tokens"):
        return None
    # Of a model that predicts next tokens, its outputs are the vocabulary.
    return int((built.get("options") or {}).get("vocabulary", built["outputs"]))


def as_targets(given: Any, rows: int, where: str) -> Tensor:
    """Targets of an array file.

    Raises:
        TaskError: There are more or fewer than rows, or they are no numbers.
    """
    found = np.asarray(given)
    if found.ndim == 0 or len(found) != rows:
        raise TaskError(f"{where}: {rows} inputs have {found.size if found.ndim == 0 else len(found)} targets")
    if np.issubdtype(found.dtype, np.integer):
        return torch.from_numpy(found.astype(np.int64))
    if np.issubdtype(found.dtype, np.floating):
        values = torch.from_numpy(found.astype(np.float32))
        return values.unsqueeze(1) if values.ndim == 1 else values
    raise TaskError(f"{where}: the targets are no numbers")
