"""Reader of new data for a trained model: rows of a table, images in folders, texts, arrays in a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError, describe
from dpeer.training.data.files import read_images
from dpeer.training.data.image_folder import ENDINGS, all_images, labelled_images, left_out
from dpeer.training.data.pool import Pool
from dpeer.training.data.tables.check import check
from dpeer.training.data.tables.inputs import TableInputs
from dpeer.training.data.tables.prepare import Preparation, raw_rows
from dpeer.training.data.tables.sheet import read_sheet
from dpeer.training.data.text import BYTES, TextColumns, TextRows, Tokens, read_lines, read_texts, read_tokens


@dataclass(frozen=True, eq=False)
class NewData:
    """New data as they were read for a trained model.

    Attributes:
        inputs: As the model gets them, shape (rows, ...).
        labels: As a task's targets; None where the file has none, or none were asked for.
        keys: By name, identifiers of the rows as text: row numbers, files, and the columns that are no inputs.
        remarks: Sentences on what did not fit and was read all the same.
        flags: For each row of a table what was cut, unknown or a gap; () for other data.
        left_out: How many rows could not be read, and are not here.
    """

    inputs: Tensor
    labels: Tensor | None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.inputs)


def read_new_texts(card: Mapping[str, Any], path: Path, labels: bool, tokenizer: str | None) -> NewData:
    """Read texts: a .txt with one in each line, or a .tsv with the columns that the model was trained on."""
    stated = card["model"]["texts"]
    columns = TextColumns(tuple(stated["texts"]), stated["label"], tuple(stated["labels"]))
    tokens = _tokens(card, tokenizer)
    try:
        rows = _text_rows(path, columns)
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{str(path)!r} cannot be read: {describe(error)}") from error
    if labels and rows.labels is None:
        raise TaskError(
            f"{str(path)!r} has no column {columns.label!r}, with which predictions could be compared: give a .tsv "
            "that has it"
        )
    (length,) = card["model"]["shape"]
    found = tokens.examples(rows.texts[0], rows.texts[1] if len(rows.texts) > 1 else None, length)
    keys = {"line": tuple(map(str, rows.lines)), **rows.others}
    targets = torch.tensor(rows.labels) if labels else None
    return NewData(torch.from_numpy(found).long(), targets, keys)


def _text_rows(path: Path, columns: TextColumns) -> TextRows:
    if path.suffix.lower() == ".tsv":
        return read_texts(repr(str(path)), path.read_bytes(), columns)
    if len(columns.texts) > 1:
        raise TaskError(
            f"{str(path)!r}: the model takes {len(columns.texts)} texts: give a .tsv with the columns "
            f"{', '.join(columns.texts)}"
        )
    lines = read_lines(path)
    return TextRows([lines], None, [*range(1, len(lines) + 1)], {}, [])


def _tokens(card: Mapping[str, Any], tokenizer: str | None) -> Tokens:
    """The tokenizer, if it is the one that the model was trained with."""
    trained = card["model"].get("tokenizer")
    if tokenizer is None and trained != BYTES.label:
        raise TaskError(f"the model was trained with {trained}: name that file with --tokenizer")
    found = BYTES if tokenizer is None else read_tokens(str(card.get("task")), tokenizer)
    if found.label != trained:
        raise TaskError(f"--tokenizer {tokenizer}: this is {found.label}, and the model was trained with {trained}")
    return found


def read_rows(preparation: Preparation, path: Path, *, labels: bool, leave_out: bool = False) -> NewData:
    """Read rows of a csv or parquet file by their columns' names, whatever their order in the file.

    With `leave_out` rows that cannot be read are left out, unless none is left; else they refuse the file.
    """
    sheet, schema = read_sheet(str(path)), preparation.schema
    target = schema.target.column
    if labels and target not in sheet.cells:
        raise TaskError(f"{str(path)!r} has no column {target!r}, with which predictions could be compared")
    found = check(schema, sheet, labels=labels, learn=False)
    places = {place for problem in found.problems for place, _ in problem.cells}
    remarks: tuple[str, ...] = ()
    if leave_out and 0 < len(places) < len(sheet):
        remarks = tuple(f"rows left out: {problem.line()}" for problem in found.problems if problem.cells)
        sheet = sheet.without(places)
        found = check(schema, sheet, labels=labels, learn=False)
    found = found.accepted()
    inputs = TableInputs(preparation)(torch.from_numpy(raw_rows(found)))
    keys = {"row": tuple(map(str, sheet.places))}
    for name in sheet.header:
        if name not in {*schema.inputs, target}:
            keys[name if name != "row" else "row (input)"] = tuple(sheet.cells[name])
    targets = torch.from_numpy(found.labels) if labels else None
    return NewData(inputs, targets, keys, remarks + found.remarks, found.flags, len(places))


def read_new_images(card: Mapping[str, Any], path: Path, labels: bool) -> NewData:
    """Read a folder of images; with labels, a folder for each class or a table of them."""
    channels, side, _ = card["input_shape"]
    if labels:
        classes = tuple(card.get("classes") or map(str, range(card["model"]["outputs"])))
        pool, remarks = labelled_images(path, classes, channels, side)
        inputs, targets = pool.rows(np.arange(len(pool)))
        return NewData(inputs, targets, remarks=remarks)
    paths = all_images(path)
    if not paths:
        raise TaskError("; ".join([f"{str(path)!r} has no images ({', '.join(ENDINGS)})", *left_out(path, [])]))
    images = read_images("image-folder", paths, channels, side, resize=True)
    files = tuple(str(one.relative_to(path)) for one in paths)
    return NewData(_scaled(images.pixels), None, {"file": files}, (*images.remarks, *left_out(path, paths)))


def _scaled(images: Tensor) -> Tensor:
    return Pool(images, torch.zeros(len(images), dtype=torch.int64)).rows(np.arange(len(images)))[0]


def read_new_arrays(card: Mapping[str, Any], path: Path, labels: bool) -> NewData:
    """Read a .npy of inputs, or a .npz with the arrays "inputs" and "targets"."""
    found = _loaded(path)
    if "inputs" not in found and len(found) == 1:
        found = {"inputs": next(iter(found.values()))}
    for name in ("inputs", "targets") if labels else ("inputs",):
        if name not in found:
            raise TaskError(f"{str(path)!r} has no array {name!r}; it has {', '.join(found) or 'none'}")
    inputs = as_inputs(card, found["inputs"], str(path))
    targets = _as_targets(found["targets"], len(inputs), str(path)) if labels else None
    return NewData(inputs, targets, {"row": tuple(str(number) for number in range(len(inputs)))})


def _loaded(path: Path) -> dict[str, Any]:
    try:
        found = np.load(path, allow_pickle=False)  # never objects: they could run code
        if isinstance(found, np.ndarray):
            return {"inputs": found}
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TaskError(f"{str(path)!r} cannot be read: {describe(error)}") from error


def as_inputs(card: Mapping[str, Any], given: Any, where: str) -> Tensor:
    """An array or a tensor, shape (rows, ...), as the model gets it; bytes of images become -1..1, as in training.

    Raises:
        TaskError: It has another shape or is not of numbers; the message says `where` it is from.
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
    return int(built["options"]["vocabulary"]) if built.get("tokens") else None


def _as_targets(given: Any, rows: int, where: str) -> Tensor:
    """Targets of an array file."""
    found = np.asarray(given)
    if found.ndim == 0 or len(found) != rows:
        raise TaskError(f"{where}: {rows} inputs have {found.size if found.ndim == 0 else len(found)} targets")
    if np.issubdtype(found.dtype, np.integer):
        return torch.from_numpy(found.astype(np.int64))
    if np.issubdtype(found.dtype, np.floating):
        values = torch.from_numpy(found.astype(np.float32))
        return values.unsqueeze(1) if values.ndim == 1 else values
    raise TaskError(f"{where}: the targets are no numbers")
