"""An exported model gives the numbers of the model, without dpeer."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dpeer
from dpeer.exceptions import TaskError
from dpeer.training.use.exporting import export
from tests.thinning import only
from tests.training.use.conftest import COLUMNS, Leave

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runtime() -> Any:
    """ONNX Runtime, where all that an export needs is there."""
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason="pip install 'dpeer[onnx]' brings it")
    return pytest.importorskip("onnxruntime", reason="pip install 'dpeer[onnx]' brings it")


def run(runtime: Any, path: Path, inputs: torch.Tensor) -> tuple[Any, Any]:
    """The outputs of a file, and what it says of its use."""
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    usage = json.loads(session.get_modelmeta().custom_metadata_map["dpeer"])
    return session.run(["outputs"], {"inputs": inputs.numpy()})[0], usage


def test_a_table_s_model_is_written_with_its_columns_and_steps(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any], tmp_path: Path, runtime: Any
) -> None:
    loaded = dpeer.load_model(leave(**table_settings).folder)
    usage = export(loaded, tmp_path / "out" / "model.onnx")
    assert usage["input_names"] == sorted(COLUMNS)
    assert usage["classes"] == ["no", "yes"]
    assert any("do not scale" in step for step in usage["before"])
    found, inside = run(runtime, tmp_path / "out" / "model.onnx", loaded.read(visits()).inputs)
    assert inside == usage
    assert found == pytest.approx(loaded.predict(visits()).probabilities, abs=1e-5)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.onnx"]


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


@pytest.mark.parametrize("own", [True, False])
def test_a_table_s_model_takes_the_tables_own_columns_and_the_documented_reader_reads_them(
    own: bool, leave: Leave, tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = SCHEMA if own else SCHEMA.replace('missing = ["-9"]', 'missing = ["-9"], range = [0, 2e7]')
    (tmp_path / "schema.toml").write_text(schema + 'note = { kind = "ignore" }\n')
    options = {"path": str(table(tmp_path / "visits.csv", 120))}
    left = leave(
        task="csv", task_options=options, schema=tmp_path / "schema.toml", standardize=own, partition="own",
    )  # fmt: skip
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


@pytest.mark.parametrize("model", only(["mlp"], ["digits", "cnn", "mlp", "small-body"]))
def test_onnx_gives_the_probabilities_of_the_model(model: str, leave: Leave, tmp_path: Path, runtime: Any) -> None:
    left = leave(model=model, standardize=True)
    loaded = dpeer.load_model(left.folder)
    usage = export(loaded, tmp_path / "model.onnx")
    inputs = left.task.test.tensors[0]
    found, inside = run(runtime, tmp_path / "model.onnx", inputs)
    assert inside == usage
    assert found == pytest.approx(loaded.predict(inputs).probabilities, abs=1e-5)


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
    module: nn.Module, why: str, leave: Leave, tmp_path: Path, capfd: pytest.CaptureFixture[str], runtime: Any
) -> None:
    loaded = dpeer.load_model(leave(model="mlp").folder)
    loaded.module, loaded.classes = module, ()
    (tmp_path / "m.onnx").write_text("an earlier one")
    capfd.readouterr()
    with pytest.raises(TaskError) as caught:
        export(loaded, tmp_path / "m.onnx")
    assert str(caught.value).startswith(f"ONNX cannot take this model: {why}")
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "m.onnx").read_text() == "an earlier one"
