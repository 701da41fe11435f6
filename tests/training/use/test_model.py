"""A model that was left in a folder predicts as the one in memory did: its figures are equal to the last bit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import dpeer
from dpeer.exceptions import CheckpointError, DpeerError, TaskError
from dpeer.training.measures import measure
from dpeer.training.use.model import write_predictions
from tests.training.use.conftest import COLUMNS, Leave, Left, write_csv

MINE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed, width=5, **others):
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
    data = TensorDataset(torch.randn(30, 4), torch.arange(30) % 3)
    return Task(model=model, head=("2",), train=data, test=data, **others)
"""


def check_same(left: Left, loaded: Any) -> None:
    """Figures follow from all outputs on the test data."""
    assert loaded.evaluate(left.labelled()) == left.learner.card()["metrics"] == loaded.card["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dfedsmdc", "fedrod", "ditto", "dis-pfl", "fedbabu"])
def test_it_predicts_with_the_model_that_the_algorithm_predicts_with(algorithm: str, leave: Leave) -> None:
    left = leave(algorithm=algorithm, model="mlp")
    loaded = dpeer.load_model(left.folder)
    check_same(left, loaded)
    assert loaded.classes == tuple("0123456789")


@pytest.mark.parametrize(("model", "options"), [("mlp", {"width": 9}), ("small-body", {}), ("digits", {}), ("cnn", {})])
def test_every_kind_of_built_in_model_is_built_again(model: str, options: dict[str, Any], leave: Leave) -> None:
    left = leave(model=model, standardize=True, model_options=options)
    loaded = dpeer.load_model(left.folder)
    assert not loaded.module.training
    assert loaded.card["model"]["options"] == options
    check_same(left, loaded)


def test_a_model_of_ones_own_on_built_in_data_is_made_again(leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\ndef net(shape, outputs):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Linear(9, outputs))\n"
    )
    left = leave(model=f"{tmp_path}/net.py:net", head="1")
    check_same(left, dpeer.load_model(left.folder))


@pytest.mark.parametrize("task", ["digits", "mine.py:task"])
def test_first_weights_come_from_a_file_and_the_card_names_it(task: str, leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    still = {
        "task": task.replace("mine.py", str(tmp_path / "mine.py")),
        "body_lr": 1e-9,
        "head_lr": 1e-9,
        "finish": "none",
    }
    began = {name: value + 1 for name, value in load_file(leave(**still).folder / "model.safetensors").items()}
    save_file(began, tmp_path / "w.safetensors")
    left = leave(**still, init_from=tmp_path / "w.safetensors")
    found = load_file(left.folder / "model.safetensors")
    assert all(torch.allclose(value, began[name], atol=1e-5) for name, value in found.items())
    (tmp_path / "w.safetensors").unlink()  # it is not needed any more
    loaded = dpeer.load_model(left.folder)
    check_same(left, loaded)
    from_file = loaded.card["init_from"]
    assert (len(from_file["sha256"]), from_file["taken"], from_file["fresh"]) == (64, len(began), {})


def test_rows_of_a_table_are_predicted_by_their_columns_names(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any], tmp_path: Path
) -> None:
    left = leave(**table_settings)
    loaded = dpeer.load_model(left.folder)
    assert (loaded.columns, loaded.classes) == (tuple(sorted(COLUMNS)), ("no", "yes"))
    found = loaded.predict(visits("new.csv", order=(4, 2, 0, 3, 1)))
    assert found.keys == {"row": tuple(map(str, range(2, 62))), "patient": tuple(f"p{n}" for n in range(60))}
    assert torch.equal(found.outputs, loaded.predict(visits()).outputs)
    assert found.labels == [("no", "yes")[number] for number in found.outputs.argmax(1).tolist()]
    assert found.probabilities.sum(axis=1) == pytest.approx(np.ones(60))
    lines, test = visits().read_text().splitlines(), left.task.indices["test"]
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *(lines[1 + row] for row in test)]) + "\n")
    assert loaded.evaluate(tmp_path / "test.csv") == loaded.card["metrics"]
    assert loaded.card["metrics"]["positive"] == "yes"
    assert loaded.card["samples"] == {"train": len(left.task.train), "validation": 0, "test": len(test)}
    assert sum(loaded.card["class_counts"]["train"]) == len(left.task.train)
    write_csv(tmp_path / "few.csv", ("weight", "pulse"), [[1, 2]])
    for call in (lambda: loaded.predict(tmp_path / "few.csv"), lambda: loaded.evaluate(tmp_path / "new.csv")):
        with pytest.raises(DpeerError):  # a column of inputs, and that of the truth
            call()


def test_a_regression_predicts_values(leave: Leave, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[*v, v.sum()] for v in rng.normal(size=(50, 4)).round(3)]
    path = write_csv(tmp_path / "dose.csv", (*COLUMNS, "dose"), rows)
    options = {"path": str(path), "target": "dose", "kind": "regression"}
    left = leave(task="csv", task_options=options, partition="iid", body_lr=0.01)
    assert set(left.learner.evaluate().metrics) == {"mae", "rmse", "r2"}
    loaded = dpeer.load_model(left.folder)
    found = loaded.predict(path)
    assert found.values.shape == (50,)
    assert loaded.classes == ()
    with pytest.raises(TaskError):
        found.labels  # noqa: B018
    figures = loaded.evaluate(path)
    expected = np.abs(found.values.astype(float) - np.array([row[-1] for row in rows])).mean()
    assert figures["values"]["mae"]["value"] == pytest.approx(expected, rel=1e-5)


def test_images_in_folders(leave: Leave, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads images")
    rng, data = np.random.default_rng(0), tmp_path / "data"
    for name in ("cat", "dog"):
        (data / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 128, (8, 8), dtype=np.uint8) + np.uint8(100 * (name == "dog"))
            image.fromarray(pixels).save(data / name / f"{number:02}.png")
    options = {"path": str(data), "image_size": 8, "channels": 1}
    loaded = dpeer.load_model(leave(task="image-folder", task_options=options, partition="iid").folder)
    found, every = loaded.predict(data / "dog"), loaded.predict(data)
    assert found.keys["file"] == tuple(sorted(f"{number:02}.png" for number in range(20)))
    assert every.keys["file"][0] == "cat/00.png"
    assert torch.allclose(every.outputs[20:], found.outputs)
    strange = replace(found, keys={"file": ("bef\udcfcnd.png", *found.keys["file"][1:])})  # of an old Latin-1 share
    write_predictions(strange, tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()[1].startswith("bef\\udcfcnd.png,")
    figures = loaded.evaluate(data)
    assert figures == measure(every.outputs, torch.tensor([0] * 20 + [1] * 20), ("cat", "dog"))
    assert (found.remarks, every.remarks) == ((), ())
    given = np.stack([np.asarray(image.open(path)) for path in sorted((data / "dog").iterdir())])[:, None]
    for array in (given, given.astype(np.float32) / 127.5 - 1):
        assert torch.allclose(loaded.predict(array).outputs, found.outputs, atol=1e-6), (
            "bytes are scaled as in training"
        )
    for name in ("scan.tiff", "notes.txt", "dog/deep/.1.png"):
        (data / name).parent.mkdir(exist_ok=True)
        image.fromarray(pixels).save(data / name, "png")
    again, labelled = loaded.predict(data), loaded.read(data, labels=True)
    assert (len(again), again.remarks) == (40, ("left out of data: 3 files, such as dog/deep/.1.png",))
    assert labelled.remarks == again.remarks
    assert loaded.evaluate(labelled) == figures
    with pytest.raises(TaskError):
        loaded.evaluate(loaded.read(data))  # without labels


def test_arrays_in_files(leave: Leave, tmp_path: Path) -> None:
    left = leave(model="mlp")
    inputs = left.task.test.tensors[0].numpy()
    np.save(tmp_path / "new.npy", inputs)
    loaded = dpeer.load_model(left.folder)
    found = loaded.predict(tmp_path / "new.npy")
    assert torch.equal(found.outputs, loaded.predict(inputs).outputs)
    assert loaded.predict(left.labelled()).keys["row"][:2] == ("0", "1")
    check_same(left, loaded)


def test_a_task_of_ones_own_is_made_as_in_the_run(leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    left = leave(task=f"{tmp_path / 'mine.py'}:task", task_options={"width": 7})
    state = torch.get_rng_state()
    loaded = dpeer.load_model(left.folder)
    assert torch.equal(torch.get_rng_state(), state)  # a script that loads a model draws on as if it had not
    check_same(left, loaded)
    assert loaded.classes == ("0", "1", "2")
    (tmp_path / "mine.py").unlink()
    card = json.loads((left.folder / "model.json").read_text())
    (left.folder / "model.json").write_text(json.dumps(card | {"task": "elsewhere.py:task"}))
    with pytest.raises(TaskError):
        dpeer.load_model(left.folder)

    def handed(width: int, bias: bool = True) -> nn.Module:
        return nn.Sequential(nn.Linear(4, width, bias=bias), nn.ReLU(), nn.Linear(width, 3))

    inputs: Tensor = left.task.test.tensors[0]
    assert torch.equal(
        dpeer.load_model(left.folder, module=handed(7)).predict(inputs).outputs, loaded.predict(inputs).outputs
    )
    for wrong in (handed(6), handed(7, bias=False)):
        with pytest.raises(CheckpointError):
            dpeer.load_model(left.folder, module=wrong)


def test_of_a_run_that_keeps_the_best_model_the_card_is_about_that_one(leave: Leave) -> None:
    left = leave(keep="best", validation=0.2, body_lr=5.0, momentum=0.0, model="mlp")
    last = []
    for number in range(1, 5):
        left.learner.train(number)
        last.append(left.learner.evaluate().test_loss)
    card = left.write()
    assert left.learner.evaluate().test_loss == last[-1], "the model that trains on stays as it is"
    assert card["metrics"] == dpeer.load_model(left.folder).evaluate(left.labelled())
    assert left.learner.figures.best_round != 4, "else the kept model is the last one"


def test_figures_are_of_the_data_that_accuracies_are_of(leave: Leave) -> None:
    left = leave(evaluate_on="validation", validation=0.3, model="mlp")
    card = dpeer.load_model(left.folder).card
    assert card["measured_on"] == "validation"
    assert card["metrics"]["rows"] == card["samples"]["validation"] == len(left.task.validation or ())
    assert sum(card["class_counts"]["validation"]) == card["samples"]["validation"]
