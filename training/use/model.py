"""A trained model as an object: rebuilt from its card, predicts, evaluates; and its predictions as a csv file."""

from __future__ import annotations

import copy
import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.atomic import replacing
from dpeer.exceptions import CheckpointError, ConfigurationError, DpeerError, TaskError, not_written
from dpeer.training.batch_loader import Batches
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.evaluation import predictions
from dpeer.training.loading import load_task
from dpeer.training.measures import Measured, measure
from dpeer.training.models import build_model
from dpeer.training.models.scaling import scale_outputs, standardize
from dpeer.training.randomness import undisturbed
from dpeer.training.tasks import Choices
from dpeer.training.use.blend import Blend
from dpeer.training.use.new_data import NewData, as_inputs, read_new_arrays, read_new_images, read_new_texts, read_rows


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model for rows.

    Attributes:
        outputs: As the model gave them: class scores, shape (rows, classes), or values, shape (rows, 1).
        classes: The classes' names by number; () where values are predicted.
        keys: Identifiers of the rows, by name: row numbers, files, columns that are no inputs; empty for arrays that
            were handed over.
        remarks: Sentences on what of the data did not fit and was read all the same.
        flags: For each row of a table what was cut, unknown or a gap; () for other data.
    """

    outputs: Tensor
    classes: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.outputs)

    def _check_classes(self) -> None:
        if not self.classes:
            raise TaskError("the model predicts values, not classes: they are in `values`")

    @property
    def labels(self) -> list[str]:
        """The predicted class of each row, by name.

        Raises:
            TaskError: Values are predicted.
        """
        self._check_classes()
        return [self.classes[number] for number in self.outputs.argmax(dim=1).tolist()]

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """A probability for each class, shape (rows, classes).

        Raises:
            TaskError: Values are predicted.
        """
        self._check_classes()
        return torch.softmax(self.outputs, dim=1).numpy()

    @property
    def values(self) -> NDArray[np.float32]:
        """The outputs as the model gave them, without a dimension of one: of a regression, shape (rows,)."""
        outputs = self.outputs.squeeze(1) if self.outputs.ndim == 2 and self.outputs.shape[1] == 1 else self.outputs
        return outputs.numpy()


class TrainedModel:
    """The model that a peer has ended with.

    Args:
        module: The model, in evaluation mode.
        card: The content of its model.json.
        tokenizer: The tokenizer.json that it was trained with; None for bytes, and for models of other data.

    Attributes:
        module: The model.
        card: Everything that is known about it.
        classes: The classes' names by number; their numbers without names, () for a regression.
        columns: The columns that it is given, of a table; () for other data.
    """

    def __init__(self, module: nn.Module, card: Mapping[str, Any], tokenizer: str | None = None) -> None:
        self.module, self.card, self._tokenizer = module, card, tokenizer
        content = card.get("preparation")
        self.preparation = None if content is None else Preparation.from_json(content)
        self.columns = tuple(self.preparation.schema.inputs if self.preparation else card.get("columns") or ())
        self.classes = self._classes()

    def __repr__(self) -> str:
        what = f"classes {', '.join(self.classes)}" if self.classes else "values"
        return f"<dpeer model of task {self.card.get('task')}: {what}>"

    def _classes(self) -> tuple[str, ...]:
        named, built = tuple(self.card.get("classes") or ()), self.card.get("model") or {}
        figures = self.card.get("metrics") or {}
        if named or figures.get("kind") == "regression":
            return named
        # Of a user's own task only the figures have the number of classes.
        count = built.get("outputs") or len(figures.get("classes") or ())
        return tuple(map(str, range(count))) if count > 1 else ()

    def read(self, path: str | Path, *, labels: bool = False, leave_out: bool = False) -> NewData:
        """New data as the model gets them.

        Args:
            path: A csv or parquet file, a folder of images, a .txt or .tsv of texts, or a .npy or .npz file: what the
                task is about.
            labels: Whether labels are needed, too.
            leave_out: Whether rows of a table that cannot be read are left out, and remarked.

        Raises:
            TaskError: It cannot be read; the message says where.
        """
        place, built = Path(path).expanduser(), self.card.get("model") or {}
        ending = place.suffix.lower() if place.is_file() else ""
        if not place.exists():
            raise TaskError(f"{str(place)!r} does not exist")
        if self.preparation is not None:
            found = read_rows(self.preparation, place, labels=labels, leave_out=leave_out)
        elif place.is_dir() and built.get("pixels") and len(built.get("shape", ())) == 3:
            found = read_new_images(self.card, place, labels)
        elif ending in (".txt", ".tsv") and built.get("texts"):
            found = read_new_texts(self.card, place, labels, self._tokenizer)
        elif ending in (".npy", ".npz"):
            found = read_new_arrays(self.card, place, labels)
        else:
            others = "a folder of images, or " if built.get("pixels") else ""
            others = "a .txt or .tsv with texts, or " if built.get("texts") else others
            raise TaskError(f"{str(place)!r}: expected {others}a .npy or .npz file with the model's inputs")
        if not len(found):
            raise TaskError(f"{str(place)!r} has no rows")
        return found

    def predict(self, data: Any) -> Predictions:
        """Predict new rows.

        Args:
            data: A path, as for `read`; what `read` has made of it; or inputs as the model gets them: an array or a
                tensor, shape (rows, ...).

        Raises:
            TaskError: The data cannot be read, or the model fails on them.
        """
        if isinstance(data, str | Path):
            data = self.read(data)
        new = data if isinstance(data, NewData) else NewData(as_inputs(self.card, data, "the inputs"), None)
        outputs, _ = self._outputs(new, torch.zeros(len(new), dtype=torch.int64))
        return Predictions(outputs, self.classes, new.keys, new.remarks, new.flags)

    def evaluate(self, data: str | Path | NewData) -> Measured:
        """Figures on labelled data, as in the card's "metrics".

        Args:
            data: A path, as for `read`, with the column that is predicted, a folder for each class, or an array
                "targets"; or what `read` has made of it, with labels.

        Raises:
            TaskError: The data cannot be read or have no labels, or the model fails on them.
        """
        new = data if isinstance(data, NewData) else self.read(data, labels=True)
        if new.labels is None:
            raise TaskError("the data were read without labels: read(path, labels=True)")
        found = measure(*self._outputs(new, new.labels), self.classes, values=not self.classes)
        if found is None:
            raise TaskError(f"these {len(new.labels)} labels and the outputs of this model have no figures")
        return found

    def _outputs(self, new: NewData, targets: Tensor) -> tuple[Tensor, Tensor]:
        if not len(new):
            return torch.zeros(0, (self.card.get("model") or {}).get("outputs") or max(1, len(self.classes))), targets
        # In the batches of an evaluation, or a matrix product's last bits might differ from those of the run.
        found = predictions(self.module, Batches("new", TensorDataset(new.inputs, targets), None))
        if found is None:
            raise TaskError("the model gives no tensor of shape (rows, outputs): call `module` yourself")
        return found


PREDICTED, PROBABILITY, FLAGS = "predicted", "probability_", "flags"


def write_predictions(found: Predictions, path: Path, *, flags: bool = False) -> None:
    """Write a line for each row, maybe with `Predictions.flags` at its end; readers see the whole file or none.

    Raises:
        OutputError: The file cannot be written.
    """
    try:
        # A file's name, by which its row is known, need not be UTF-8.
        text: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
        with replacing(path, mode=0o600) as draft, draft.open("w", **text) as file:
            writer, headings = csv.writer(file, lineterminator="\n"), _headings(found)
            keys = [f"{name} (input)" if name in {*headings, FLAGS} else name for name in found.keys]
            writer.writerow([*keys, *headings, *([FLAGS] if flags else [])])
            columns = [*found.keys.values(), *_columns(found), *([found.flags] if flags else [])]
            writer.writerows(zip(*columns, strict=True))
    except OSError as error:
        raise not_written(f"--output {str(path)!r}", error) from error


def _headings(found: Predictions) -> list[str]:
    if found.classes:
        return [PREDICTED, *(f"{PROBABILITY}{name}" for name in found.classes)]
    width = 1 if found.outputs.ndim < 2 else found.outputs.shape[1]
    return [PREDICTED] if width == 1 else [f"{PREDICTED}_{number}" for number in range(width)]


def _columns(found: Predictions) -> list[list[str]]:
    """The cells by column; a number has as many digits as tell its bits."""
    if not found.classes:
        return [[str(value) for value in column] for column in found.outputs.reshape(len(found), -1).numpy().T]
    return [found.labels, *([str(value) for value in column] for column in found.probabilities.T)]


def restored(card: Mapping[str, Any], saved: Path, module: nn.Module | None = None) -> nn.Module:
    """The model, in evaluation mode.

    Args:
        card: The content of model.json.
        saved: Its model.safetensors.
        module: A model of the same make, which gets the saved values; it is made by the card if None.

    Raises:
        CheckpointError: The saved values cannot be read, or are of another model.
        ConfigurationError: The card has no recipe of the model, and no module was given.
    """
    if module is not None and not isinstance(module, nn.Module):
        raise ConfigurationError(f"module = {type(module).__name__}: expected a torch.nn.Module of the model's make")
    try:
        values = load_file(saved)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{str(saved)!r} cannot be read: {error}") from error
    if module is None:
        with undisturbed():  # the caller draws on as if nothing had been drawn here
            module = _by_card(card, saved)
    if card.get("blend") is not None:
        module = Blend((module, copy.deepcopy(module)), _weights(card, saved))
    try:
        found = module.load_state_dict(values, strict=False)
    except RuntimeError as error:  # of tensors of other shapes
        raise CheckpointError(f"{str(saved)!r} is of another model: {' '.join(str(error).split())}") from error
    missing = [name for name in found.missing_keys if not name.endswith("_extra_state")]
    if strange := [*missing, *found.unexpected_keys]:
        raise CheckpointError(f"{str(saved)!r} is of another model: one of both lacks {strange[0]!r}")
    return module.eval()


def _weights(card: Mapping[str, Any], saved: Path) -> list[float]:
    """The weights of the two models of a blend."""
    try:
        first, second = map(float, card["blend"]["weights"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the card of {str(saved)!r} is damaged: {error!r}") from error
    if not (0 <= first <= 1 and 0 <= second <= 1 and math.isclose(first + second, 1)):
        raise CheckpointError(f"the card of {str(saved)!r} is damaged: weights {first:g} and {second:g}")
    return [first, second]


def _by_card(card: Mapping[str, Any], saved: Path) -> nn.Module:
    built = card.get("model")
    if built is None:
        return _by_factory(card, saved)
    try:
        shape = tuple(int(size) for size in built["shape"])
        options, tokens = built.get("options") or {}, bool(built.get("tokens"))
        module = build_model(str(built["model"]), shape, int(built["outputs"]), options, tokens=tokens)
        if built["standardize"]:
            standardize(module, torch.zeros(1, *shape))
        if built.get("scales_outputs"):
            scale_outputs(module, 0.0, 1.0)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the card of {str(saved)!r} is damaged: {error!r}") from error
    return module


def _by_factory(card: Mapping[str, Any], saved: Path) -> nn.Module:
    """The model of a user's own task, made as in the run."""
    spec, factory = str(card.get("task")), card.get("factory")
    rank = (card.get("federation") or {}).get("rank")
    advice = "; hand a model of the same make over: dpeer.load_model(folder, module=...)"
    if not isinstance(factory, Mapping) or not isinstance(rank, int) or ":" not in spec:
        raise ConfigurationError(f"the card of {str(saved)!r} does not say how the model is made{advice}")
    try:
        task = load_task(
            spec, rank, int(factory.get("size") or 1), int(factory.get("seed") or 0), factory.get("task_options"),
            Choices(head=factory.get("head")),
        )  # fmt: skip
    except DpeerError as error:
        raise TaskError(f"the model is made by its task's factory, and {error}{advice}") from error
    return task.model
