"""A model that protects single records may be handed on with its card, which must tell no more than the model does."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpeer.privacy.mechanism import ClippedSum

pytestmark = pytest.mark.slow

RUN = (
    "--size", 2, "--task", "csv", "--task-option", "path=site-{rank}.csv", "--task-option", "target=outcome",
    "--task-option", "columns=age,bmi", "--task-option", "classes=no,yes,dead", "--rounds", 2, "--body-epochs", 1,
)  # fmt: skip
SAMPLE = ("--privacy", "sample", "--noise-multiplier", 2, "--batch-size", 25)
EXACT = {"records_drawn", "clipped_share", "not_finite_gradients"}


def table(path: Path, rows: int, seed: int, more: str = "") -> None:
    """Patients of two classes; only `more` has the third."""
    rng = np.random.default_rng(seed)
    lines = [f"{rng.normal():.3f},{rng.normal():.3f},{rng.choice(['no', 'yes'])}" for _ in range(rows)]
    path.write_text("\n".join(["age,bmi,outcome", *lines, *([more] if more else []), ""]))


def card(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "model.json").read_text())
    return found


def test_one_training_record_changes_nothing_in_the_card(simulate, tmp_path, monkeypatch):
    """With the same noised sums, and the same records held out: all else that the card says is compared."""

    def nothing(self: ClippedSum, total: NDArray[np.float64], threads: int = 1) -> NDArray[np.float32]:
        return np.full(total.size, 0.01, np.float32)

    monkeypatch.setattr(ClippedSum, "released", nothing)
    table(tmp_path / "site-1.csv", 60, 1)
    found, trained = [], []
    for name, more in (("first", ""), ("second", "0.5,0.25,dead")):
        table(tmp_path / "site-0.csv", 60, 0, more)
        simulate(*RUN, *SAMPLE, "--records", 50, "--out", name)
        found.append(card(tmp_path / name / "rank-0"))
        trained.append(json.loads((tmp_path / name / "rank-0" / "summary.json").read_text())["class_counts"])
    assert np.subtract(trained[1], trained[0]).tolist() == [0, 0, 1], "the record is trained on, not held out"
    for one in found:
        one.pop("written")
    assert found[0] == found[1]
    (one, _) = found
    assert one["samples"]["train"] is one["class_counts"]["train"] is None
    assert one["samples"]["stated"] == {"number": 50, "of": "record"}
    assert not EXACT & set(one["privacy"])
    assert sum(one["class_counts"]["test"]) == one["samples"]["test"] == one["metrics"]["rows"] > 0
    assert one["privacy"]["steps"] == 4


@pytest.mark.parametrize(
    "options",
    [
        ("--algorithm", "dfedmdc", "--dp-head", "post"),
        pytest.param(("--algorithm", "dfedavgm", "--partition", "iid"), marks=pytest.mark.long),
        pytest.param(("--algorithm", "dfedmdc", "--alone", "always"), marks=pytest.mark.long),
    ],
)
def test_no_card_of_such_a_run_counts_training_records_and_the_model_is_used_as_any_other(
    simulate, dpeer, tmp_path, options
):
    pooled = "iid" in options
    for rank in range(2):
        table(tmp_path / f"site-{rank}.csv", 61, rank)
    where = ("--task-option", "path=site-0.csv") if pooled else ()
    simulate(*RUN, *where, *SAMPLE, *(() if pooled else ("--records", 50)), *options, "--out", "run")
    folders = sorted(path.parent for path in (tmp_path / "run").rglob("model.json"))
    assert len(folders) == 2
    for folder in folders:
        one, own = card(folder), json.loads((folder / "summary.json").read_text())
        assert one["samples"]["train"] is one["class_counts"]["train"] is None
        # A rounded number stays where a common table is divided: 24 of 61 rows are trained on.
        assert one["samples"]["stated"]["number"] == (32 if pooled else 50)
        assert not EXACT & set(one["privacy"])
        assert own["training_samples"] == sum(own["class_counts"]), "the peer's own files count as ever"

    rank = tmp_path / "run" / "rank-0"
    written = {path.relative_to(rank) for path in rank.rglob("*.*")}
    for words in (
        ("predict", "--run", rank, "--input", "site-1.csv", "--output", "out.csv"),
        ("evaluate", "--run", rank, "--input", "site-1.csv"),
        ("export", "--run", rank, "--output", "model.onnx"),
        ("report", "run", "--out", "page"),
    ):
        assert dpeer(*words).code == 0, words
    with (tmp_path / "out.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 61

    # The guide names every file.
    page, named = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8"), set()
    for heading in ("What may be given away", "Files"):
        (section,) = re.findall(rf"^#+ {heading}$(.*?)(?:^#|\Z)", page, flags=re.DOTALL | re.MULTILINE)
        named |= set(re.findall(r"`([a-z/.-]+)`", section))
    assert {"metrics.jsonl", "model.json"} <= {path.name for path in written}
    for path in written - {Path(".lock")}:
        assert str(path) in named or f"{path.parts[0]}/" in named - {"privacy/"}, path

    simulate(*RUN, *where, *(("--partition", "iid") if pooled else ()), "--out", "plain")
    one = card(tmp_path / "plain" / "rank-0")
    counted = sum(one["class_counts"]["train"]), one["samples"]["train"]
    assert counted[0] == counted[1] > 0, "without privacy a card counts"
