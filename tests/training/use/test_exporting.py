"""An exported model gives the numbers of the model, without dpeer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dpeer
from dpeer.exceptions import OutputError, TaskError
from dpeer.training.use.exporting import export
from tests.thinning import only
from tests.training.use.conftest import COLUMNS, Leave

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


def test_torchscript_gives_the_probabilities_of_the_model(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any], tmp_path: Path
) -> None:
    folder = leave(**table_settings).folder
    loaded = dpeer.load_model(folder)
    usage = export(loaded, tmp_path / "out" / "model.pt", "torchscript")
    extra = {"dpeer.json": ""}
    script = torch.jit.load(tmp_path / "out" / "model.pt", _extra_files=extra)
    assert json.loads(extra["dpeer.json"]) == usage
    assert usage["input_names"] == sorted(COLUMNS)
    assert usage["classes"] == ["no", "yes"]
    assert any("do not scale" in step for step in usage["before"])
    new = loaded.read(visits())
    assert script(new.inputs).detach().numpy() == pytest.approx(loaded.predict(visits()).probabilities, abs=1e-6)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.pt"]


@pytest.mark.slow
@pytest.mark.parametrize("model", only(["mlp"], ["digits", "cnn", "mlp", "small-body"]))
def test_onnx_gives_the_probabilities_of_the_model(model: str, leave: Leave, tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason="pip install 'dpeer[onnx]' brings it")
    runtime = pytest.importorskip("onnxruntime", reason="pip install 'dpeer[onnx]' brings it")
    left = leave(model=model, standardize=True)
    loaded = dpeer.load_model(left.folder)
    usage = export(loaded, tmp_path / "model.onnx", "onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["dpeer"]) == usage
    inputs = left.task.test.tensors[0]
    found = session.run(["outputs"], {"inputs": inputs.numpy()})[0]
    assert found == pytest.approx(loaded.predict(inputs).probabilities, abs=1e-5)


def test_values_of_a_regression_get_no_softmax(leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import TensorDataset\n"
        "from dpeer.training import Task\n"
        "def task(rank, size, seed):\n"
        "    data = TensorDataset(torch.randn(20, 3), torch.randn(20, 1))\n"
        "    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))\n"
        "    return Task(model=model, head=('1',), train=data, test=data, loss=nn.functional.mse_loss)\n"
    )
    loaded = dpeer.load_model(leave(task=f"{tmp_path / 'mine.py'}:task").folder)
    assert loaded.card["metrics"]["kind"] == "regression"
    usage = export(loaded, tmp_path / "m.pt", "torchscript")
    inputs = torch.randn(4, 3)
    assert np.allclose(torch.jit.load(tmp_path / "m.pt")(inputs).detach(), loaded.module(inputs).detach(), atol=1e-6)
    assert usage["output"]["is"] == "values"
    loaded.card = {**loaded.card, "input_shape": None}
    with pytest.raises(TaskError):
        export(loaded, tmp_path / "m.pt", "torchscript")


class Traced(nn.Module):
    """A model that tracing sees one side of, which the rows' number chooses: other numbers, or another shape."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.cut = cut

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found = inputs.flatten(1)[:, :10]
        if len(inputs) == 3:
            return found[:, :9] if self.cut else found * 1.001
        return found


@pytest.mark.parametrize("cut", [True, False])
def test_a_file_that_gives_other_outputs_is_not_kept(cut: bool, leave: Leave, tmp_path: Path) -> None:
    loaded = dpeer.load_model(leave(model="mlp").folder)
    loaded.module, loaded.classes = Traced(cut), ()
    (tmp_path / "m.pt").write_text("an earlier one")
    with pytest.raises(TaskError):
        export(loaded, tmp_path / "m.pt", "torchscript")
    assert (tmp_path / "m.pt").read_text() == "an earlier one"
    with pytest.raises(OutputError):
        export(loaded, tmp_path / "m.pt" / "inside.pt", "torchscript")
