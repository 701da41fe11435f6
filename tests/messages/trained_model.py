"""Error messages of a trained model: its folder, new data, predictions and exports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, TaskError, UnknownName
from dpeer.training.models import build_model
from dpeer.training.use.exporting import export
from dpeer.training.use.model import Predictions, TrainedModel
from dpeer.training.use.new_data import NewData
from tests.messages.message import Message, file
from tests.training.dataset_files import save

MLP = build_model("mlp", (3,), 2)
CARD: dict[str, Any] = {
    "format": 1, "task": "mine.py:task", "input_shape": [3], "classes": ["no", "yes"], "preparation": None,
    "metrics": None,
    "model": {"model": "mlp", "options": {}, "tokens": False, "shape": [3], "outputs": 2, "standardize": False},
}  # fmt: skip
TABLE = CARD | {
    "preparation": {
        "format": 1, "kind": "plain", "target": "y", "classes": ["no", "yes"], "columns": ["a", "b", "c"],
        "group": None,
    }
}  # fmt: skip
IMAGES = CARD | {"input_shape": [3, 8, 8], "model": {**CARD["model"], "shape": [3, 8, 8], "pixels": True}}
TEXTS = CARD | {
    "input_shape": [16],
    "model": {
        "model": "roberta", "options": {"vocabulary": 259}, "tokens": True, "tokenizer": "bytes", "shape": [16],
        "outputs": 2, "standardize": False, "texts": {"texts": ["sentence"], "label": "label", "labels": ["0", "1"]},
    },
}  # fmt: skip


def left(
    text: str, error: type[Exception] = CheckpointError, *, card: Any = CARD, values: Any = MLP, **more: Any
) -> Message:
    """A model is loaded from the folder that a run has left."""

    def cause(folder: Path) -> Any:
        if isinstance(values, nn.Module):
            save_file(values.state_dict(), folder / "model.safetensors")
        elif values is not None:
            (folder / "model.safetensors").write_bytes(values)
        if card is not None:
            (folder / "model.json").write_text(card if isinstance(card, str) else json.dumps(card))
        return dpeer.load_model(folder, **more)

    return Message(cause, error, text)


def peers(folder: Path) -> Any:
    for rank in (0, 10):
        (folder / f"rank-{rank}").mkdir()
        save_file(MLP.state_dict(), folder / f"rank-{rank}" / "model.safetensors")
    return dpeer.load_model(folder)


def new(
    name: str,
    content: Any,
    text: str,
    card: Any = CARD,
    *,
    evaluated: bool = False,
    error: type[Exception] = TaskError,
    **more: Any,
) -> Message:
    """A model is given a file: text, an array for .npy, or arrays by name for .npz."""

    def cause(folder: Path) -> Any:
        if isinstance(content, dict):
            np.savez(folder / name, **content)
        elif isinstance(content, np.ndarray):
            np.save(folder / name, content)
        elif content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        model = TrainedModel(MLP, card, **more)
        return model.evaluate(folder / name) if evaluated else model.predict(folder / name)

    return Message(cause, error, text)


def given(data: Any, text: str, card: Any = CARD) -> Message:
    return Message(lambda folder: TrainedModel(MLP, card).predict(data), TaskError, text)


def a_folder_of_scans(folder: Path) -> Any:
    save(folder / "data" / "scan.tiff", (1, 2, 3))
    return TrainedModel(MLP, IMAGES).predict(folder / "data")


NEW = "'{folder}/new"
TOKENS = "the inputs: expected token numbers, whole numbers from 0 to 258"
BUILT = "the card of '{folder}/model.safetensors' is damaged: "
OTHER = "it is of another model"
BRIEF = CARD | {"model": None}

MESSAGES = {
    "no folder of a model": Message(lambda folder: dpeer.load_model(folder / "no"), ConfigurationError,
        "…'{folder}/no'…name a rank's folder, such as …"),
    "no model": left("'{folder}' has no model.safetensors; it is written when …", ConfigurationError, values=None),
    "a number for a folder": Message(lambda folder: dpeer.load_model(3), ConfigurationError,
        "folder = 3: expected a path"),
    "two models": Message(peers, ConfigurationError,
        "'{folder}' has the models of 2 peers: name one of rank-0, rank-10"),
    "no card": left("…'{folder}/model.json'…", card=None),
    "no JSON": left("'{folder}/model.json' holds no JSON object", card="{"),
    "a later card": left("'{folder}/model.json' has format 2, this dpeer reads 1", card=CARD | {"format": 2}),
    "a card without a shape": left(BUILT + "KeyError('shape')", card=CARD | {"model": {"model": "mlp"}}),
    "a card of an unknown option": left("unknown option of mlp 'wide' in --model-option: …", UnknownName, card=CARD |
        {"model": {**CARD["model"], "options": {"wide": 9}}}),
    "a later preparation": left("the preparation has format 9, this dpeer reads 1: use the version that wrote it",
        card=CARD | {"preparation": {"format": 9}}),
    "a number of classes": left("'{folder}/model.json' is damaged: TypeError(…)", card=CARD | {"classes": 3}),
    "no tensors": left("'{folder}/model.safetensors' cannot be read: …", values=b"no tensors"),
    "no recipe":
        left("the card of '{folder}/model.safetensors' does not say how the model is made; hand a model of the same "
        "make over: dpeer.load_model(folder, module=...)",
        ConfigurationError, card=BRIEF),
    "a task that is gone":
        left("the model is made by its task's factory, and …mine.py…; hand a model of the same make over: …", TaskError,
        card=BRIEF | {"factory": {"seed": 0}, "federation": {"rank": 0}}),
    "a model of another width":
        left(f"'{{folder}}/model.safetensors': 'features.1.weight' has shape (64, 3), the model's (9, 3): {OTHER}",
        module=build_model("mlp", (3,), 2, {"width": 9})),
    "a model without a head": left(
        f"'{{folder}}/model.safetensors' has 'head.bias', which the model has not: {OTHER}",
        module=nn.ModuleDict({"features": MLP.features}),
    ),
    "a model of more layers": left(f"'{{folder}}/model.safetensors' lacks '0.bias': {OTHER}",
        module=nn.Sequential(nn.Linear(3, 3))),
    "a word for a model": left("module = str: expected a torch.nn.Module of the model's make", ConfigurationError,
        module="m"),
    "no file of rows": new("new.npy", None, NEW + ".npy' does not exist"),
    "another kind of file": new("new.csv", "a,b\n", NEW +
        ".csv': expected a .npy or .npz file with the model's inputs"),
    "another kind of file of images": new("new.csv", "a,b\n", NEW +
        ".csv': expected a folder of images, or a .npy or .npz file with the model's inputs", IMAGES),
    "too few targets": new("new.npz", {"inputs": np.zeros((9, 3)), "targets": np.zeros(3)},
        "{folder}/new.npz: 9 inputs have 3 targets", evaluated=True),
    "no targets": new("new.npy", np.zeros((9, 3)), NEW + ".npy' has no array 'targets'; it has inputs", evaluated=True),
    "targets in words": new("new.npz", {"inputs": np.zeros((1, 3)), "targets": np.array(["a"])},
        "{folder}/new.npz: the targets are no numbers", evaluated=True),
    "another shape": new("new.npy", np.zeros((2, 4)), "{folder}/new.npy: the shape is (2, 4); expected (rows, 3)"),
    "no rows": new("new.npy", np.zeros((0, 3)), NEW + ".npy' has no rows"),
    "objects": new("new.npy", np.array([{}], dtype=object), NEW + ".npy' cannot be read: ValueError: Object arrays …"),
    "an empty file": new("new.npy", "", NEW + ".npy' cannot be read: EOFError: …"),
    "words": new("new.npy", np.full((1, 3), "a"), "{folder}/new.npy: expected an array of numbers"),
    "complex numbers": new("new.npy", np.zeros((1, 3), complex), "{folder}/new.npy: expected an array of numbers"),
    "a table for an array": given({"inputs": 3}, "the inputs: expected an array of numbers"),
    **{
        f"token numbers {name}": given(array, TOKENS, TEXTS)
        for name, array in (
            ("beyond", np.full((2, 16), 259)), ("below", np.full((2, 16), -1)), ("of floats", np.zeros((2, 16))),
        )
    },
    "no columns": new("new.csv", "a\n1\n",
        "unknown column 'b, c' in what the model needs; '{folder}/new.csv': valid: a", TABLE, error=UnknownName),
    "a header alone": new("new.csv", "a,b,c\n", NEW + ".csv' has no rows; expected a header and rows under it", TABLE),
    "no truth": new("new.csv", "a,b,c\n1,2,3\n", NEW +
        ".csv' has no column 'y', with which predictions could be compared", TABLE, evaluated=True),
    "no images": Message(a_folder_of_scans, TaskError,
        "'{folder}/data' has no images (.png, .jpg, .jpeg, .webp, .bmp); left out of data: 1 .tiff (such as "
        "scan.tiff)"),
    "no texts": new("new.txt", "", NEW + ".txt' has no rows", TEXTS),
    "bytes for texts": new("new.txt", b"\xff\n", NEW + ".txt' cannot be read: UnicodeDecodeError: …", TEXTS),
    "no column of texts": new("new.tsv", "text\tlabel\na\t0\n", NEW +
        ".tsv', line 1: the column 'sentence' is missing; it has text, label", TEXTS),
    "an unknown label": new("new.tsv", "sentence\tlabel\na\t2\n", NEW +
        ".tsv', line 2: label = '2'; expected one of 0, 1", TEXTS),
    "another kind of file of texts": new("new.csv", "sentence\na\n", NEW +
        ".csv': expected a .txt or .tsv with texts, or a .npy or .npz file with the model's inputs", TEXTS),
    "texts without labels": new("new.txt", "a film\n", NEW +
        ".txt' has no column 'label', with which predictions could be compared: give a .tsv …", TEXTS, evaluated=True),
    "no tokenizer": new("new.txt", "a film\n",
        "task 'mine.py:task': tokenizer = 'no.json' does not exist; expected a tokenizer.json", TEXTS,
        tokenizer="no.json"),
    "the tokenizer of the run": new("new.txt", "a film\n",
        "the model was trained with tokenizer.json of a run: name that file with --tokenizer", TEXTS |
        {"model": {**TEXTS["model"], "tokenizer": "tokenizer.json of a run"}}),
    "rows that were read without labels": Message(lambda folder:
        TrainedModel(MLP, CARD).evaluate(NewData(torch.zeros(1, 3), None)), TaskError,
        "the data were read without labels: read(path, labels=True)"),
    "labels of values": Message(lambda folder: Predictions(torch.zeros(1, 1), (), {}).labels, TaskError,
        "the model predicts values, not classes: they are in `values`"),
    "an input that is no tensor":
        Message(lambda folder: export(TrainedModel(MLP, CARD | {"input_shape": None}), folder / "m.onnx"), TaskError,
        "the model's input is not one tensor: export the `module` of dpeer.load_model yourself, with torch"),
    "an export nowhere":
        Message(file("m.pt", "", lambda path: export(TrainedModel(MLP, CARD), path / "a")), OutputError,
        "--output '{folder}/m.pt/a' cannot be written: …"),
}  # fmt: skip
