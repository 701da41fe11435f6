"""What a trained model is refused for: its folder, its card, and the data that it is given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file

import dpeer
from dpeer.exceptions import ConfigurationError, DpeerError, OutputError, TaskError
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.data.tables.schema import PlainSchema
from dpeer.training.models import build_model
from dpeer.training.use.exporting import export
from dpeer.training.use.model import TrainedModel
from tests.error_texts import refused
from tests.training.dataset_files import save

MLP = build_model("mlp", (3,), 2)
MADE: Any = {"model": "mlp", "options": {}, "tokens": False, "shape": [3], "outputs": 2, "standardize": False}
CARD: dict[str, Any] = {
    "format": 1, "task": "mine.py:task", "input_shape": [3], "classes": ["no", "yes"], "preparation": None,
    "metrics": None, "model": MADE,
}  # fmt: skip
COLUMNS = PlainSchema.of({"column": "y", "classes": ["no", "yes"]}, {"a": "number", "b": "number"})
TABLE = CARD | {"preparation": Preparation(COLUMNS, {}).to_json()}
IMAGES = CARD | {"input_shape": [3, 8, 8], "model": MADE | {"shape": [3, 8, 8], "pixels": True}}
COLUMN = {"texts": ["sentence"], "label": "label", "labels": ["0", "1"]}
TEXTS = CARD | {
    "input_shape": [16],
    "model": MADE | {"model": "roberta", "tokens": True, "tokenizer": "bytes", "shape": [16], "texts": COLUMN,
                     "options": {"vocabulary": 259}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("card", "more", "fragment"),
    [
        ("{", {}, "model.json' holds no JSON object"),
        (CARD | {"format": 2}, {}, "model.json' has format 2"),
        (CARD | {"classes": 3}, {}, "model.json' is damaged: TypeError"),
        (CARD | {"preparation": {"format": 9}}, {}, "the preparation has format 9"),
        (CARD | {"model": {"model": "mlp"}}, {}, "model.safetensors' is damaged: KeyError('shape')"),
        (CARD | {"model": MADE | {"options": {"wide": 9}}}, {}, "unknown option of mlp 'wide' in --model-option"),
        (CARD | {"model": None}, {}, "model.safetensors' does not say how the model is made"),
        (CARD, {"module": "m"}, "module = str"),
    ],
)
def test_a_card_that_makes_no_model(card: Any, more: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    save_file(MLP.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "model.json").write_text(card if isinstance(card, str) else json.dumps(card))
    with refused(DpeerError, fragment):
        dpeer.load_model(tmp_path, **more)


def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    with refused(ConfigurationError, "folder = 3"):
        dpeer.load_model(3)
    with refused(ConfigurationError, f"'{tmp_path}/no'"):
        dpeer.load_model(tmp_path / "no")
    with refused(ConfigurationError, f"'{tmp_path}' holds no run"):
        dpeer.load_model(tmp_path)
    (tmp_path / "metrics.jsonl").touch()
    with refused(ConfigurationError, "has no model.safetensors: it is written when a peer ends or is stopped"):
        dpeer.load_model(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(CARD))
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with refused(DpeerError, "model.safetensors' cannot be read"):
        dpeer.load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "card", "fragment"),
    [
        ("new.csv", b"a,b\n", IMAGES, "new.csv': expected a folder of images"),
        ("new.csv", b"sentence\na\n", TEXTS, "new.csv': expected a .txt or .tsv with texts"),
        ("new.csv", b"a,b\n", TABLE, "new.csv' has no rows; expected a header"),
        ("new.npy", np.zeros((2, 4)), CARD, "new.npy: the shape is (2, 4)"),
        ("new.npy", np.zeros((0, 3)), CARD, "new.npy' has no rows"),
        ("new.npy", np.array([{}], dtype=object), CARD, "new.npy' cannot be read: ValueError: Object arrays"),
        ("new.npy", np.zeros((1, 3), complex), CARD, "new.npy: expected an array of numbers"),
        ("new.npy", np.full((2, 16), 259), TEXTS, "expected token numbers, whole numbers from 0 to 258"),
        ("new.npy", np.full((2, 16), -1), TEXTS, "expected token numbers"),
        ("new.txt", b"\xff\n", TEXTS, "new.txt' cannot be read: UnicodeDecodeError"),
        ("new.tsv", b"text\tlabel\na\t0\n", TEXTS, "new.tsv', line 1: the column 'sentence' is missing"),
        ("new.tsv", b"sentence\tlabel\na\t2\n", TEXTS, "new.tsv', line 2: label = '2'"),
    ],
)
def test_data_that_the_model_cannot_take(name: str, content: Any, card: Any, fragment: str, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.save(tmp_path / name, content)
    with refused(TaskError, fragment):
        TrainedModel(MLP, card).predict(tmp_path / name)


@pytest.mark.parametrize(
    ("arrays", "fragment"),
    [
        ({"inputs": np.zeros((9, 3))}, "new.npz' has no array 'targets'"),
        ({"inputs": np.zeros((9, 3)), "targets": np.zeros(3)}, "new.npz: 9 inputs have 3 targets"),
        ({"inputs": np.zeros((1, 3)), "targets": np.array(["a"])}, "new.npz: the targets are no numbers"),
    ],
)
def test_data_that_the_model_cannot_be_measured_on(arrays: Any, fragment: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", **arrays)
    with refused(TaskError, fragment):
        TrainedModel(MLP, CARD).evaluate(tmp_path / "new.npz")


def scans(folder: Path) -> Any:
    save(folder / "data" / "scan.tiff", (1, 2, 3))
    return TrainedModel(MLP, IMAGES).predict(folder / "data")


def texts(folder: Path) -> Path:
    (folder / "new.txt").write_text("a film\n")
    return folder / "new.txt"


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (scans, "left out of data: 1 file, such as scan.tiff"),
        (lambda _: TrainedModel(MLP, CARD).predict({"inputs": 3}), "the inputs: expected an array of numbers"),
        (lambda folder: TrainedModel(MLP, TEXTS).evaluate(texts(folder)), "new.txt' has no column 'label'"),
        (lambda folder: TrainedModel(MLP, TEXTS, tokenizer="no.json").predict(texts(folder)), "tokenizer = 'no.json'"),
        (lambda _: export(TrainedModel(MLP, CARD | {"input_shape": None}), Path("m.onnx")), "the `module` of"),
    ],
)
def test_what_a_model_cannot_do(call: Callable[[Path], object], fragment: str, tmp_path: Path) -> None:
    with refused(TaskError, fragment):
        call(tmp_path)


def test_an_export_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    with refused(OutputError, f"--output '{tmp_path}/m/a' cannot be written"):
        export(TrainedModel(MLP, CARD), tmp_path / "m" / "a")
