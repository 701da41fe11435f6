"""Models of text, in the hands of those who have a run's folder alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpeer
from dpeer.exceptions import TaskError
from dpeer.training.data.text import BYTES, read_tokens
from tests.training.use.conftest import Leave

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
pytest.importorskip("transformers")

LENGTH = 16
SMALL = {"layers": 1, "width": 8, "heads": 2}
LINES = [f"{'a good' if number % 3 else 'no'} film {number}" for number in range(80)]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Of GLUE's sentences, few and short."""
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = [f"{line}\t{int('good' in line)}\n" for line in LINES]
    (folder / "train.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (folder / "dev.tsv").write_text("sentence\tlabel\n" + "".join(rows[:30]))
    options = {"data": str(tmp_path), "name": "sst2", "length": LENGTH}
    return {
        "task": "glue", "partition": "iid", "task_options": options, "model_options": SMALL, "optimizer": "adamw",
        "body_lr": 0.001,
    }  # fmt: skip


def test_texts_are_predicted_from_arrays_and_files(leave: Leave, settings: dict[str, Any], tmp_path: Path) -> None:
    left = leave(**settings)
    loaded = dpeer.load_model(left.folder)
    assert loaded.classes == ("negative", "positive")
    assert loaded.evaluate(left.labelled()) == left.learner.card()["metrics"]
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


def test_the_tokenizer_of_the_run_is_needed_and_no_other(
    leave: Leave, settings: dict[str, Any], tmp_path: Path, tokenizer: Path
) -> None:
    (tmp_path / "new.txt").write_text("a film\n")
    folder = leave(**settings).folder
    with pytest.raises(TaskError):
        dpeer.load_model(folder, tokenizer=tokenizer).predict(tmp_path / "new.txt")
    folder = leave(**{**settings, "task_options": {**settings["task_options"], "tokenizer": str(tokenizer)}}).folder
    loaded = dpeer.load_model(folder, tokenizer=tokenizer)
    numbers = read_tokens("glue", str(tokenizer)).examples(["a film"], None, LENGTH)
    assert loaded.predict(tmp_path / "new.txt").outputs == pytest.approx(loaded.predict(numbers).outputs, abs=1e-6)
    with pytest.raises(TaskError):
        dpeer.load_model(folder).predict(tmp_path / "new.txt")
