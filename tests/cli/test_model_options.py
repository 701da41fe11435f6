"""A table through the commands: trained by four peers, then used by one of them."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpeer as package
from dpeer.training.use import exporting

Command = Callable[..., Any]
HEADER = ("weight", "age", "patient", "pulse", "outcome")


def table(path: Path, rows: slice = slice(None), columns: tuple[str, ...] = HEADER) -> Path:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 3)).round(4)
    found = [
        dict(zip(HEADER, (*v[:2], f"p{n}", v[2], "yes" if sum(v) > 0 else "no"), strict=True))
        for n, v in enumerate(numbers.tolist())
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(found[rows])
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder."""
    folder = tmp_path_factory.mktemp("trained")
    options = {"path": str(table(folder / "visits.csv", slice(150))), "target": "outcome", "ignore": "patient"}
    settings = package.Settings(
        size=4, rounds=2, task="csv", task_options=options, partition="iid", class_weights="balanced",
        out=folder / "run",
    )  # fmt: skip
    package.run(settings)
    return folder / "run"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_new_rows_are_predicted_whatever_the_columns_order(trained: Path, dpeer: Command) -> None:
    shuffled = table(Path("new.csv"), slice(150, 200), ("pulse", "patient", "age", "weight"))
    ended = dpeer("predict", "--run", trained / "rank-1", "--input", shuffled, "--output", "out.csv")
    assert (ended.code, ended.err, ended.out) == (0, "", "out.csv: 50 rows\n")
    rows = read(Path("out.csv"))
    assert list(rows[0]) == ["row", "patient", "predicted", "probability_no", "probability_yes"]
    assert [row["patient"] for row in rows] == [f"p{n}" for n in range(150, 200)]
    assert (rows[0]["row"], rows[-1]["row"]) == ("2", "51")
    found = package.load_model(trained / "rank-1").predict(table(Path("labelled.csv"), slice(150, 200)))
    assert [row["predicted"] for row in rows] == found.labels
    written = np.array([[row["probability_no"], row["probability_yes"]] for row in rows], np.float32)
    assert written.tobytes() == found.probabilities.tobytes()
    again = dpeer("predict", "--run", trained / "rank-1", "--input", "labelled.csv", "--output", "other.csv")
    assert again.code == 0
    assert Path("other.csv").read_text() == Path("out.csv").read_text()
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


def test_rows_that_cannot_be_read_are_left_out_and_flagged(trained: Path, dpeer: Command) -> None:
    lines = table(Path("new.csv"), slice(150, 160)).read_text().splitlines()
    place = lines[0].split(",").index("age")
    cells = lines[3].split(",")
    lines[3] = ",".join([*cells[:place], "old", *cells[place + 1 :]])
    Path("new.csv").write_text("\n".join(lines) + "\n")
    given = ("predict", "--run", trained / "rank-1", "--input", "new.csv", "--output", "out.csv")
    ended = dpeer(*given, "--flags")
    assert (ended.code, ended.out) == (0, "out.csv: 9 rows\n")
    said = "WARNING: rows left out: column 'age', 1 of 10 cells: expected kind = \"number\": row 4: 'old'\n"
    assert ended.err == said
    rows = read(Path("out.csv"))
    assert [row["row"] for row in rows] == ["2", "3", *map(str, range(5, 12))]
    assert [*rows[0]][-1] == "flags"
    assert {row["flags"] for row in rows} == {""}
    strict = dpeer(*given, "--strict")
    assert strict.code == 2
    assert strict.err == f"{said}dpeer: 'new.csv': 1 of its rows cannot be read: 'out.csv' has the others\n"
    assert "flags" not in read(Path("out.csv"))[0]


def test_images_that_are_left_out_are_said(dpeer: Command, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads images")
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(20):
            shade = number + 100 * (name == "dog")
            image.new("RGB", (8, 8), (shade, shade, shade)).save(tmp_path / "data" / name / f"{number}.png")
    options = {"path": str(tmp_path / "data"), "image_size": 8}
    package.run(
        package.Settings(size=2, rounds=1, task="image-folder", task_options=options, partition="iid", out=Path("run"))
    )
    (tmp_path / "data" / "dog" / "x.tiff").touch()
    given = ("--run", "run/rank-0", "--input", str(tmp_path / "data"))
    for ended in (dpeer("predict", *given, "--output", "out.csv"), dpeer("evaluate", *given)):
        assert ended.code == 0
        assert ended.err == "WARNING: left out of data: 1 file, such as dog/x.tiff\n"


def test_labelled_rows_are_measured(trained: Path, dpeer: Command) -> None:
    table(Path("labelled.csv"), slice(150, 200))
    ended = dpeer("evaluate", "--run", trained / "rank-1", "--input", "labelled.csv", "--json")
    assert (ended.code, ended.err) == (0, "")
    figures = json.loads(ended.out)
    truth = [row["outcome"] for row in read(Path("labelled.csv"))]
    labels = package.load_model(trained / "rank-1").predict("labelled.csv").labels
    right = np.mean([one == other for one, other in zip(truth, labels, strict=True)])
    assert figures["values"]["accuracy"]["value"] == pytest.approx(right)
    assert sum(map(sum, figures["confusion"])) == figures["rows"] == 50
    text = dpeer("evaluate", "--run", trained / "rank-1", "--input", "labelled.csv").out
    assert "50 rows; positive: yes" in text
    assert f"{figures['values']['auroc']['value']:.4f}" in text
    assert "95 % interval" in text
    table(Path("one.csv"), slice(150, 151))
    one = dpeer("evaluate", "--run", trained / "rank-1", "--input", "one.csv")
    assert (one.code, one.err) == (0, "")
    assert re.search(r"AUROC +│ +undefined", one.out)


def test_a_model_is_exported(trained: Path, dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is tested in tests/training/use, and the command with ONNX by the documented ones."""
    monkeypatch.setattr("dpeer.cli.export.check_libraries", lambda *_, **__: None)
    monkeypatch.setattr(exporting, "_write", lambda whole, sample, draft, usage: draft.write_bytes(b"model"))
    monkeypatch.setattr(exporting, "_check", lambda *_: None)
    ended = dpeer("export", "--run", trained / "rank-1", "--output", "model.onnx")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:3] == [
        "model.onnx: the same as the model for 1 and for 5 rows",
        "inputs: float32, shape (rows, 3)",
        "names of the inputs, in order: age, pulse, weight",
    ]
    assert ended.out.splitlines()[-1] == "outputs: probabilities of the classes no, yes"
    assert Path("model.onnx").read_bytes() == b"model"


def test_the_program_of_the_page_about_models_runs(
    trained: Path, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(import dpeer\n.*?)```", page, flags=re.DOTALL)
    Path("dpeer-run").symlink_to(trained)
    table(Path("new.csv"), slice(150, 200), ("pulse", "patient", "age", "weight"))
    table(Path("labelled.csv"), slice(150, 200))
    exec(program, {})
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_a_folder_without_a_card_is_refused(trained: Path, dpeer: Command) -> None:
    shutil.copytree(trained / "rank-0", "copy")
    Path("copy/model.json").unlink()
    ended = dpeer("evaluate", "--run", "copy", "--input", "x.csv")
    assert ended.code == 2
    assert "beside the model" in ended.err
