"""Models of text, in the hands of those who have a run's folder alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dpeer
from dpeer.exceptions import TaskError
from dpeer.training.text import BYTES
from dpeer.training.use.exporting import export
from tests.training.use.conftest import Leave

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
pytest.importorskip("transformers")

LENGTH = 16
SMALL = {"layers": 1, "width": 8, "heads": 2}
LINES = [f"{'a good' if number % 3 else 'no'} film {number}" for number in range(80)]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """By task."""
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = [f"{line}\t{int('good' in line)}\n" for line in LINES]
    (folder / "train.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (folder / "dev.tsv").write_text("sentence\tlabel\n" + "".join(rows[:30]))
    content = "\n".join(LINES).encode()
    np.savez(
        tmp_path / "roles.npz", speakers=np.array(["A", "B"]), text=np.frombuffer(2 * content, np.uint8),
        offsets=np.array([0, len(content), 2 * len(content)]),
    )  # fmt: skip
    common = {"model_options": SMALL, "optimizer": "adamw", "body_lr": 0.001}
    options = {"data": str(tmp_path), "name": "sst2", "length": LENGTH}
    return {
        "glue": {"task": "glue", "partition": "iid", "task_options": options, **common},
        "roles": {"task": "roles", "task_options": {"data": str(tmp_path / "roles.npz"), "length": LENGTH}, **common},
    }


def test_sentences_are_predicted_as_in_the_run(leave: Leave, settings: dict[str, dict[str, Any]]) -> None:
    learner, folder = leave(**settings["glue"])
    loaded = dpeer.load_model(folder)
    numbers, labels = learner._trainer.task.test.tensors
    with torch.no_grad():
        expected = torch.softmax(learner._trainer.task.model.eval()(numbers), dim=1)
    assert loaded.predict(numbers.numpy()).probabilities == pytest.approx(expected.numpy(), abs=1e-6)
    assert loaded.classes == ("negative", "positive")
    new = BYTES.examples(["a film"], None, LENGTH)
    assert len(loaded.predict(new)) == 1
    np.savez(folder / "new.npz", inputs=numbers.numpy(), targets=labels.numpy())
    assert loaded.evaluate(folder / "new.npz")["values"]["accuracy"] == loaded.card["metrics"]["values"]["accuracy"]


@pytest.mark.parametrize("task", ["glue", "roles"])
def test_what_is_no_token_is_refused(task: str, leave: Leave, settings: dict[str, dict[str, Any]]) -> None:
    loaded = dpeer.load_model(leave(**settings[task])[1])
    for wrong in (np.full((2, LENGTH), 259), np.full((2, LENGTH), -1), np.zeros((2, LENGTH))):
        with pytest.raises(TaskError, match="expected token numbers, whole numbers from 0 to 258"):
            loaded.predict(wrong)


@pytest.mark.parametrize("form", ["torchscript", pytest.param("onnx", marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", ["glue", "roles"])
def test_exported_ones_take_token_numbers(
    task: str, form: Any, leave: Leave, settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    if form == "onnx":
        for name in ("onnxruntime", "onnxscript"):
            pytest.importorskip(name, reason="pip install 'dpeer[onnx]' brings it")
    loaded = dpeer.load_model(leave(**settings[task])[1])
    usage = export(loaded, tmp_path / "model.out", form)  # which holds it against the model
    assert usage["input"] == {"name": "inputs", "dtype": "int64", "shape": ["rows", LENGTH]}
    assert usage["before"] == [
        f"make token numbers of texts, {LENGTH} of each, cut or padded, with the tokenizer of the run: bytes"
    ]
    if form == "torchscript":
        script = torch.jit.load(tmp_path / "model.out")
        one, other = (script(torch.full((1, LENGTH), number)) for number in (7, 70))
        assert not torch.allclose(one, other)
