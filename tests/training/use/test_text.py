"""Models of text, in the hands of those who have a run's folder alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dpeer
from dpeer.exceptions import TaskError
from dpeer.training.data.text import BYTES, read_tokens
from dpeer.training.use.exporting import export
from dpeer.training.use.model import TrainedModel
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
    numbers, labels = learner.trainer.task.test.tensors
    with torch.no_grad():
        expected = torch.softmax(learner.trainer.task.model.eval()(numbers), dim=1)
    assert loaded.predict(numbers.numpy()).probabilities == pytest.approx(expected.numpy(), abs=1e-6)
    assert loaded.classes == ("negative", "positive")
    new = BYTES.examples(["a film"], None, LENGTH)
    assert len(loaded.predict(new)) == 1
    np.savez(folder / "new.npz", inputs=numbers.numpy(), targets=labels.numpy())
    assert loaded.evaluate(folder / "new.npz")["values"]["accuracy"] == loaded.card["metrics"]["values"]["accuracy"]


def test_texts_are_predicted_from_files(leave: Leave, settings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    folder = leave(**settings["glue"])[1]
    loaded = dpeer.load_model(folder)
    lines = ['a "good" film', "", "no film\u2028 at all"]
    expected = loaded.predict(BYTES.examples(lines, None, LENGTH)).probabilities
    (tmp_path / "new.txt").write_bytes("\r\n".join([*lines, ""]).encode())
    rows = ["id\tsentence\tlabel", *(f"n{number}\t{line}\t{number % 2}" for number, line in enumerate(lines))]
    (tmp_path / "new.tsv").write_bytes("\n".join(rows).encode())
    (tmp_path / "unlabelled.tsv").write_bytes("\n".join(row.rpartition("\t")[0] for row in rows).encode())
    for name in ("new.txt", "new.tsv", "unlabelled.tsv"):
        found = loaded.predict(tmp_path / name)
        assert found.probabilities == pytest.approx(expected, abs=1e-6)
    assert dict(found.keys) == {"line": ("2", "3", "4"), "id": ("n0", "n1", "n2")}
    right = np.mean(expected.argmax(axis=1) == [0, 1, 0])
    assert loaded.evaluate(tmp_path / "new.tsv")["values"]["accuracy"]["value"] == pytest.approx(right)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("new.txt", b"", "'.*new.txt' has no rows"),
        ("new.txt", b"\xff\n", "'.*new.txt' cannot be read: .*utf-8"),
        ("new.tsv", b"text\tlabel\na\t0\n", "'.*new.tsv', line 1: there is no column 'sentence'; it has text, label"),
        ("new.tsv", b"sentence\tlabel\na\t2\n", "'.*new.tsv', line 2: label = '2'; expected one of 0, 1"),
        ("new.csv", b"sentence\na\n", r"'.*new.csv': expected a .txt or .tsv with texts, or a .npy or .npz file"),
    ],
)  # fmt: skip
def test_files_of_texts_that_cannot_be_read(
    name: str, content: bytes, message: str, leave: Leave, settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    loaded = dpeer.load_model(leave(**settings["glue"])[1])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=message):
        loaded.predict(tmp_path / name)


def test_labels_and_the_tokenizer_of_the_run_are_asked_for(
    leave: Leave, settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    folder = leave(**settings["glue"])[1]
    (tmp_path / "new.txt").write_text("a film\n")
    with pytest.raises(TaskError, match="has no column 'label', with which predictions could be compared"):
        dpeer.load_model(folder).evaluate(tmp_path / "new.txt")
    with pytest.raises(TaskError, match=r"there is no file tokenizer = 'none.json'"):
        dpeer.load_model(folder, tokenizer="none.json").predict(tmp_path / "new.txt")
    card = dict(dpeer.load_model(folder).card)
    card["model"] = {**card["model"], "tokenizer": "tokenizer.json with SHA-256 0123"}
    loaded = TrainedModel(dpeer.load_model(folder).module, card)
    with pytest.raises(TaskError, match=r"trained with tokenizer.json with SHA-256 0123: name that file with --token"):
        loaded.predict(tmp_path / "new.txt")


def test_another_tokenizer_is_refused(
    leave: Leave, settings: dict[str, dict[str, Any]], tmp_path: Path, tokenizer: Path
) -> None:
    folder = leave(**settings["glue"])[1]
    (tmp_path / "new.txt").write_text("a film\n")
    with pytest.raises(
        TaskError, match=r"this is tokenizer.json with SHA-256 \w+, and the model was trained with bytes"
    ):
        dpeer.load_model(folder, tokenizer=tokenizer).predict(tmp_path / "new.txt")
    own = settings["glue"]
    options = {**own["task_options"], "tokenizer": str(tokenizer)}
    loaded = dpeer.load_model(leave(**{**own, "task_options": options})[1], tokenizer=tokenizer)
    numbers = read_tokens("glue", str(tokenizer)).examples(["a film"], None, LENGTH)
    assert loaded.predict(tmp_path / "new.txt").outputs == pytest.approx(loaded.predict(numbers).outputs, abs=1e-6)


@pytest.mark.parametrize("task", ["glue", "roles"])
def test_what_is_no_token_is_refused(task: str, leave: Leave, settings: dict[str, dict[str, Any]]) -> None:
    loaded = dpeer.load_model(leave(**settings[task])[1])
    for wrong in (np.full((2, LENGTH), 259), np.full((2, LENGTH), -1), np.zeros((2, LENGTH))):
        with pytest.raises(TaskError, match="expected token numbers, whole numbers from 0 to 258"):
            loaded.predict(wrong)


@pytest.mark.parametrize("form", ["torchscript", pytest.param("onnx", marks=[pytest.mark.slow, pytest.mark.long])])
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
