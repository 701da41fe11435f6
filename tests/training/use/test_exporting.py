"""An exported model gives the numbers of the model, without dpeer."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dpeer
from dpeer.exceptions import TaskError
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.data.tables.schema import PlainSchema
from dpeer.training.models import build_model
from dpeer.training.models.scaling import standardize
from dpeer.training.use.blend import Blend
from dpeer.training.use.exporting import export
from dpeer.training.use.model import TrainedModel
from tests.training.use.conftest import Leave

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runtime() -> Any:
    """ONNX Runtime, where all that an export needs is there."""
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason="pip install 'dpeer[onnx]' brings it")
    return pytest.importorskip("onnxruntime", reason="pip install 'dpeer[onnx]' brings it")


SCHEMA = """
format = 1
missing = ["NA"]
target = { column = "outcome", classes = ["no", "yes"] }
[columns]
age = { kind = "number", range = [0, 100] }
dose = { kind = "number", missing = ["-9"], limits = true }
ward = { kind = "category", values = ["A", "B", "other ward"] }
smoker = { kind = "yes-no", yes = ["yes", "1"], no = ["no", "0"] }
seen = { kind = "date", format = ["%d.%m.%Y"], range = [2000-01-01, 2030-12-31] }
"""


def table(path: Path, rows: int, *, beyond: bool = False) -> Path:
    rng = np.random.default_rng(rows)
    lines = ["seen,ward,age,smoker,dose,note,outcome"]
    for number in range(rows):
        cells = [
            f"{rng.integers(1, 29):02}.{rng.integers(1, 13):02}.{rng.integers(1995 if beyond else 2000, 2026)}",
            rng.choice(["A", "b", "B", "C", "NA"]), rng.choice(["0", "17.5", "", *(["120", "-3"] if beyond else [])]),
            rng.choice(["Yes", "no", "1", "NA"]), rng.choice(["1e3", "-9", "0.25", "12345678.5", "<0.5", "≥ 9"]),
        ]  # fmt: skip
        lines.append(",".join([*map(str, cells), "x", "yes" if number % 3 else "no"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_s_model_takes_the_tables_own_columns_and_the_documented_reader_reads_them(
    leave: Leave, tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA + 'note = { kind = "ignore" }\n')
    options = {"path": str(table(tmp_path / "visits.csv", 120))}
    left = leave(task="csv", task_options=options, schema=tmp_path / "schema.toml", partition="own")
    loaded = dpeer.load_model(left.folder)
    monkeypatch.chdir(tmp_path)
    usage = export(loaded, Path("model.onnx"))
    assert usage["input"] == {"name": "inputs", "dtype": "float64", "shape": ["rows", 6]}
    assert usage["input_names"] == ["age", "dose", "seen", "smoker", "ward", "dose is a bound"]
    expected = loaded.predict(table(tmp_path / "new.csv", 80, beyond=True)).probabilities
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    (reader,) = re.findall(r"```python\n(import csv.*?)```", page, flags=re.DOTALL)
    content: dict[str, Any] = {}
    exec(compile(reader, "docs/models.md", "exec"), content)
    with pytest.raises(ValueError, match="could not convert"):
        content["number"]("<5", **usage["columns"][0])
    assert content["found"] == pytest.approx(expected, abs=1e-5)


def made(name: str, shape: tuple[int, ...], built: dict[str, Any], **card: Any) -> TrainedModel:
    """A model of two outputs, and a card that says so."""
    built = {"model": name, "shape": [*shape], "outputs": 2, "options": {}, "tokens": False} | built
    model = build_model(name, shape, 2, built["options"], tokens=built["tokens"])
    if built.get("standardize"):
        standardize(model, torch.rand(9, *shape))
    return TrainedModel(model.eval(), {"input_shape": [*shape], "model": built, "classes": ["no", "yes"]} | card)


def numbers() -> TrainedModel:
    schema = PlainSchema.of({"column": "y", "classes": ["no", "yes"]}, {"age": "number", "dose": "number"})
    return made("mlp", (2,), {"standardize": True}, preparation=Preparation(schema, {}).to_json())


def texts() -> TrainedModel:
    options = {"layers": 1, "width": 8, "heads": 2, "vocabulary": 259}
    return made("roberta", (16,), {"options": options, "tokens": True, "tokenizer": "bytes"})


def blend() -> TrainedModel:
    members = [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))]
    return TrainedModel(Blend(members, (0.0, 1.0)).eval(), {"input_shape": [4], "classes": ["a", "b", "c"]})


TEXTS = "make token numbers of texts, 16 of each, cut or padded, with the tokenizer of the run: bytes"


@pytest.mark.parametrize(
    ("make", "inputs", "before"),
    [
        (numbers, torch.randn(7, 2), "do not scale: the model subtracts the training mean and"),
        (blend, torch.randn(7, 4), ""),
        pytest.param(texts, torch.randint(259, (7, 16)), TEXTS, marks=pytest.mark.long),
        (partial(made, "cnn", (1, 8, 8), {}), torch.randn(7, 1, 8, 8), ""),
    ],
)
def test_onnx_gives_the_probabilities_of_the_model_and_says_how_it_is_used(
    make: Callable[[], TrainedModel], inputs: torch.Tensor, before: str, tmp_path: Path, runtime: Any
) -> None:
    model, path = make(), tmp_path / "out" / "model.onnx"
    usage = export(model, path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["outputs"], {"inputs": inputs.numpy()})
    assert found == pytest.approx(model.predict(inputs).probabilities, abs=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["dpeer"]) == usage
    dtype = str(inputs.dtype).removeprefix("torch.")
    assert usage["input"] == {"name": "inputs", "dtype": dtype, "shape": ["rows", *inputs.shape[1:]]}
    assert usage["input_names"] == (["age", "dose"] if make is numbers else None)
    assert usage["classes"] == list(model.classes)
    assert before in " ".join(usage["before"])
    assert [*path.parent.iterdir()] == [path]


class Branching(nn.Module):
    """What it does follows from its numbers, of which an export sees none."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs if inputs.sum() > 0 else -inputs


class Stateful(nn.Module):
    """An LSTM with a first state of its own, whose file is of one number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.first = nn.LSTM(64, 8, batch_first=True), nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first = self.first.expand(-1, len(inputs), -1).contiguous()
        found: torch.Tensor = self.cell(inputs.reshape(-1, 1, 64), (first, torch.zeros_like(first)))[0][:, -1]
        return found


class Other(nn.Module):
    """Another model while it is exported."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * (2 if torch.compiler.is_compiling() else 1)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Branching(), "GuardOnDataDependentSymNode: Could not guard on data-dependent expression"),
        (Stateful(), "a file of it fails for 1 row: InvalidArgument: "),
        (Other(), "a file of it gives other numbers for a batch of 1; nothing was kept"),
    ],
)
def test_a_model_that_onnx_cannot_take_is_refused_in_one_line_and_an_earlier_file_stays(
    module: nn.Module, why: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], runtime: Any
) -> None:
    model = TrainedModel(module, {"input_shape": [1, 8, 8]})
    (tmp_path / "m.onnx").write_text("an earlier one")
    with pytest.raises(TaskError) as caught:
        export(model, tmp_path / "m.onnx")
    assert str(caught.value).startswith(f"ONNX cannot take this model: {why}")
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "m.onnx").read_text() == "an earlier one"
