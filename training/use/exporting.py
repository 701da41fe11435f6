"""A trained model as ONNX, for programs that do not have dpeer."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.atomic import replacing
from dpeer.exceptions import TaskError, describe, not_written
from dpeer.training.data.tables.decode import slots
from dpeer.training.data.tables.inputs import TableInputs
from dpeer.training.data.tables.prepare import of_kind, single_numbers
from dpeer.training.data.tables.schema import Category, Date, Number, Schema, Text, YesNo
from dpeer.training.errors import blame
from dpeer.training.use.model import TrainedModel
from dpeer.training.use.new_data import token_count

INPUT, OUTPUT = "inputs", "outputs"
_ROWS = 3
_CLOSE = {"rtol": 1e-4, "atol": 1e-5}
_LONGEST = 300
"""Characters of a reason that are shown."""
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
"""Terminal colors in torch's messages."""


class Exported(nn.Module):
    """What is written: the model, and behind a classifier's scores their softmax."""

    def __init__(self, model: nn.Module, probabilities: bool) -> None:
        super().__init__()
        self.model, self.probabilities = model, probabilities

    def forward(self, inputs: Tensor) -> Tensor:
        """Probabilities, shape (rows, classes), or values, shape (rows, 1)."""
        outputs: Tensor = self.model(inputs)
        return torch.softmax(outputs, dim=1) if self.probabilities else outputs


def export(model: TrainedModel, path: Path) -> dict[str, Any]:
    """Write a model as ONNX, and hold what was written against the model; needs the libraries of ``dpeer[onnx]``.

    Returns:
        What a program that runs it must know, as JSON values; it is also in the file.

    Raises:
        TaskError: ONNX cannot take the model, or gives other numbers when it is read again.
        OutputError: The file cannot be written.
    """
    shape = model.card.get("input_shape")
    if shape is None:
        raise TaskError(
            "the model's input is not one tensor: export the `module` of dpeer.load_model yourself, with torch"
        )
    whole: nn.Module = Exported(model.module, bool(model.classes)).eval()
    sample = partial(_sample, shape=shape, count=token_count(model.card))
    if model.preparation is not None and _single_columns(model.preparation.schema):
        whole = nn.Sequential(TableInputs(model.preparation), whole).eval()
        sample = partial(_sample_table, schema=model.preparation.schema)
    usage = describe_use(model)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft, _quietly():
            _write(whole, sample(_ROWS), draft, usage)
            _check(whole, sample, draft)
    except OSError as error:
        raise not_written(f"--output {str(path)!r}", error) from error
    return usage


def describe_use(model: TrainedModel) -> dict[str, Any]:
    """What goes into the exported model, what comes out, and what the caller has to do before."""
    built, preparation = model.card.get("model") or {}, model.preparation
    steps, names, shape = [], None if preparation is None else list(preparation.names), model.card["input_shape"]
    kind = "int64" if built.get("tokens") else "float32"
    columns = [] if preparation is None else _describe_columns(preparation.schema)
    if preparation is not None:
        steps.append("one row for each sample; the columns are the inputs' names, in this order")
    if preparation is not None and columns:
        names = [f"{one['name']} is a bound" if one["kind"] == "bound" else one["name"] for one in columns]
        shape, kind = [len(columns)], "float64"
        steps.append("make a number of each cell as columns says, NaN of a gap; docs/models.md has a reader")
    elif preparation is not None and not preparation.schema.plain:
        steps.append("prepare the table's cells as preparation says (dpeer.load_model(...).read(path).inputs does it)")
    if built.get("pixels"):
        channels, height, width = built["shape"]
        color = "RGB" if channels == 3 else "grey"
        steps.append(f"resize images to {height} x {width} {color} pixels, divide bytes by 127.5, subtract 1")
    if built.get("tokens"):
        steps.append(
            f"make token numbers of texts, {built['shape'][0]} of each, cut or padded, with the tokenizer of the run: "
            f"{built.get('tokenizer')}"
        )
    if built.get("standardize"):
        steps.append("do not scale: the model subtracts the training mean and divides by the deviation itself")
    return {
        "task": model.card.get("task"),
        "input": {"name": INPUT, "dtype": kind, "shape": ["rows", *shape]},
        "input_names": names,
        "columns": columns or None,
        "output": {"name": OUTPUT, "is": "probabilities of the classes" if model.classes else "values"},
        "classes": list(model.classes) or None,
        "before": steps,
        "preparation": model.card.get("preparation"),
        "dpeer": model.card.get("versions", {}).get("dpeer"),
    }


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings, logs and program texts that torch's exporter prints."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _write(whole: nn.Module, sample: Tensor, path: Path, usage: Mapping[str, Any]) -> None:
    rows = torch.export.Dim("rows")
    try:
        program = torch.onnx.export(
            whole, (sample,), dynamo=True, input_names=[INPUT], output_names=[OUTPUT],
            dynamic_shapes=({0: rows},), verbose=False,
        )  # fmt: skip
    except Exception as error:  # torch's own, and what the model's code raises where it is traced
        raise TaskError(f"ONNX cannot take this model: {_reason(error)}") from error
    assert program is not None, "exported by dynamo"
    program.model.metadata_props["dpeer"] = json.dumps(usage)
    program.save(str(path), include_initializers=True, external_data=False)


def _reason(error: BaseException) -> str:
    """The first line of the first cause, where torch names the operation; advice on torch follows it."""
    while error.__cause__ is not None:
        error = error.__cause__
    first = _COLORS.sub("", str(error)).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:_LONGEST]}"


def _sample(rows: int, shape: list[int], count: int | None) -> Tensor:
    """Inputs to try a model with: normal numbers, or token numbers below `count`."""
    generator = torch.Generator().manual_seed(rows)
    if count is None:
        return torch.randn(rows, *shape, generator=generator)
    return torch.randint(count, (rows, *shape), generator=generator)


def _check(whole: nn.Module, sample: Callable[[int], Tensor], path: Path) -> None:
    """Hold the file's outputs against the model's, for one row and for several."""
    import onnxruntime

    content = path.read_bytes()
    for rows in (1, _ROWS + 2):
        inputs = sample(rows)
        batch = f"{rows} {'row' if rows == 1 else 'rows'}"
        with torch.no_grad(), blame(f"ONNX cannot take this model: it fails for {batch}"):
            expected = whole(inputs)
        try:
            session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
            found = torch.from_numpy(session.run([OUTPUT], {INPUT: inputs.numpy()})[0])
        except Exception as error:  # the runtime's own, which have no class of their own in common
            why = f"a file of it fails for {batch}: {describe(error)}"
            raise TaskError(f"ONNX cannot take this model: {why}") from error
        if found.shape != expected.shape or not torch.allclose(found, expected, equal_nan=True, **_CLOSE):
            raise TaskError(
                f"ONNX cannot take this model: a file of it gives other numbers for a batch of {rows}; nothing was kept"
            )


# Tables: the columns whose model takes a number for each.


def _single_columns(schema: Schema) -> dict[str, Any]:
    """The columns, each of one number, in the order in which rows have them; empty where one is text."""
    return {} if schema.plain or of_kind(schema, Text) else single_numbers(schema)


def _describe_columns(schema: Schema) -> list[dict[str, Any]]:
    """How the cells of each column become numbers, as JSON values; docs/models.md has a reader. Empty with text."""
    found = [_describe(name, column, schema.missing) for name, column in _single_columns(schema).items()]
    return found and found + [{"name": name, "missing": [], "kind": "bound"} for name in schema.limited]


def _describe(name: str, column: Any, missing: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "missing": ["", *missing, *column.missing], "kind": column.kind}
    if isinstance(column, Number) and column.limits:
        told["kind"] = "number or bound"
    elif isinstance(column, Date):
        told |= {"format": list(column.format), "since": column.since.isoformat()}
    elif isinstance(column, YesNo):
        words = dict.fromkeys(column.yes, 1.0) | dict.fromkeys(column.no, -1.0)
        told |= {"words": {word.casefold(): value for word, value in words.items()} | words}
    elif isinstance(column, Category):
        words = {word: float(place) for place, word in enumerate(slots(column))}
        folded = Counter(word.casefold() for word in words)
        alike = {word.casefold(): value for word, value in words.items() if folded[word.casefold()] == 1}
        told |= {"words": alike | words, "other": float(len(words) - 1)}
    return told


def _sample_table(rows: int, schema: Schema) -> Tensor:
    """A table's numbers to try a model with, and some gaps."""
    generator = torch.Generator().manual_seed(rows)
    made = []
    for column in _single_columns(schema).values():
        count = len(slots(column)) if isinstance(column, Category) else 2
        drawn = torch.randint(count, (rows,), generator=generator).double()
        made.append(2 * drawn - 1 if isinstance(column, YesNo) else drawn)
    found = torch.stack(made, dim=1)
    bounds = torch.randint(-1, 2, (rows, len(schema.limited)), generator=generator)
    return torch.cat(
        [found.where(torch.rand(found.shape, generator=generator) < 0.8, math.nan), bounds.double()], dim=1
    )
