"""A model that was left in a folder predicts as the one in memory did, to the bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, TaskError, UnknownName
from dpeer.training import TorchLearner
from dpeer.training.measures import measure
from tests.training.use.conftest import COLUMNS, Leave, write_csv

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


def outputs(learner: TorchLearner) -> Tensor:
    """What the learner's model gives for its test data, as it evaluates them."""
    with learner.keeping.kept():
        found = dpeer.training.selection.predictions(learner.trainer.module, learner.selection._test)
    return found[0]


def same(one: Tensor, other: Tensor) -> bool:
    return one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["local", "dfedsmdc", "fedrod", "ditto", "dis-pfl", "fedbabu"])
def test_it_predicts_with_what_the_algorithm_predicts_with(algorithm: str, leave: Leave) -> None:
    learner, folder = leave(algorithm=algorithm, task="digits")
    test = learner.trainer.task.test
    found = dpeer.load_model(folder).predict(test.tensors[0])
    assert same(found.outputs, outputs(learner))
    assert found.classes == tuple("0123456789")


@pytest.mark.parametrize("model", ["mlp", "small-body", "digits", "cnn"])
def test_every_kind_of_built_in_model_is_built_again(model: str, leave: Leave) -> None:
    learner, folder = leave(model=model, standardize=True)
    loaded = dpeer.load_model(folder)
    assert not loaded.module.training
    assert same(loaded.predict(learner.trainer.task.test.tensors[0].numpy()).outputs, outputs(learner))


def test_a_model_with_options_is_built_again_with_them(leave: Leave) -> None:
    learner, folder = leave(model="mlp", model_options={"width": 9})
    loaded = dpeer.load_model(folder)
    assert loaded.module.head.in_features == 9
    assert loaded.card["model"]["options"] == {"width": 9}
    assert same(loaded.predict(learner.trainer.task.test.tensors[0]).outputs, outputs(learner))
    card = json.loads((folder / "model.json").read_text())
    card["model"]["options"] = {"wide": 9}  # of another version, say
    (folder / "model.json").write_text(json.dumps(card))
    with pytest.raises(UnknownName, match=r"unknown option of mlp 'wide'"):
        dpeer.load_model(folder)


@pytest.mark.parametrize("task", ["digits", "mine.py:task"])
def test_first_weights_come_from_a_file_and_the_card_tells_of_it(task: str, leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec = task.replace("mine.py", str(tmp_path / "mine.py"))
    learner, folder = leave(task=spec, body_lr=1e-9, head_lr=1e-9, finish="none")  # as it began
    began = {name: value + 1 for name, value in load_file(folder / "model.safetensors").items()}
    save_file(began, tmp_path / "w.safetensors")
    learner, folder = leave(task=spec, body_lr=1e-9, head_lr=1e-9, finish="none", init_from=tmp_path / "w.safetensors")
    found = load_file(folder / "model.safetensors")
    assert all(torch.allclose(value, began[name], atol=1e-5) for name, value in found.items())
    (tmp_path / "w.safetensors").unlink()  # it is not needed any more
    loaded = dpeer.load_model(folder)
    assert same(loaded.predict(learner.trainer.task.test.tensors[0]).outputs, outputs(learner))
    told = loaded.card["init_from"]
    assert (len(told["sha256"]), told["taken"], told["fresh"]) == (64, len(began), {})


def test_a_card_of_before_models_had_options_will_do(leave: Leave) -> None:
    learner, folder = leave(model="mlp")
    card = json.loads((folder / "model.json").read_text())
    del card["model"]["options"], card["model"]["tokens"]
    (folder / "model.json").write_text(json.dumps(card))
    assert same(dpeer.load_model(folder).predict(learner.trainer.task.test.tensors[0]).outputs, outputs(learner))


def test_rows_of_a_table_are_predicted_by_their_columns_names(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any]
) -> None:
    learner, folder = leave(**table_settings)
    loaded = dpeer.load_model(folder)
    assert (loaded.columns, loaded.classes) == (tuple(sorted(COLUMNS)), ("no", "yes"))
    found = loaded.predict(visits("new.csv", order=(4, 2, 0, 3, 1)))
    assert found.keys == {"row": tuple(map(str, range(2, 62))), "patient": tuple(f"p{n}" for n in range(60))}
    assert same(found.outputs, loaded.predict(visits()).outputs)
    indices = np.sort(learner.trainer.task.indices["test"])
    expected = dict(zip(learner.trainer.task.indices["test"].tolist(), outputs(learner), strict=True))
    for place in indices.tolist():
        assert torch.allclose(found.outputs[place], expected[place], atol=1e-6)
    assert found.labels == [("no", "yes")[number] for number in found.outputs.argmax(1).tolist()]
    assert found.probabilities.sum(axis=1) == pytest.approx(np.ones(60))


def test_figures_on_labelled_rows_are_those_of_the_run(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any], tmp_path: Path
) -> None:
    learner, folder = leave(**table_settings)
    lines = visits().read_text().splitlines()
    test = learner.trainer.task.indices["test"]
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *(lines[1 + row] for row in test)]) + "\n")
    loaded = dpeer.load_model(folder)
    assert loaded.evaluate(tmp_path / "test.csv") == loaded.card["metrics"]
    assert loaded.card["metrics"]["positive"] == "yes"
    assert loaded.card["samples"] == {"train": len(learner.trainer.data), "validation": 0, "test": len(test)}
    assert sum(loaded.card["class_counts"]["train"]) == len(learner.trainer.data)


def test_a_regression_predicts_values(leave: Leave, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[*v, v.sum()] for v in rng.normal(size=(50, 4)).round(3)]
    path = write_csv(tmp_path / "dose.csv", (*COLUMNS, "dose"), rows)
    options = {"path": str(path), "target": "dose", "kind": "regression"}
    learner, folder = leave(task="csv", task_options=options, partition="iid", body_lr=0.01)
    assert set(learner.evaluate().metrics) == {"mae", "rmse", "r2"}
    loaded = dpeer.load_model(folder)
    found = loaded.predict(path)
    assert found.values.shape == (50,)
    assert loaded.classes == ()
    with pytest.raises(TaskError, match="values, not classes"):
        found.labels  # noqa: B018
    figures = loaded.evaluate(path)
    expected = np.abs(found.values.astype(float) - np.array([row[-1] for row in rows])).mean()
    assert figures["values"]["mae"]["value"] == pytest.approx(expected, rel=1e-5)


def test_images_in_folders(leave: Leave, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads images")
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 128, (10, 10, 3), dtype=np.uint8) + np.uint8(100 * (name == "dog"))
            image.fromarray(pixels).save(tmp_path / "data" / name / f"{number}.png")
    options = {"path": str(tmp_path / "data"), "image_size": 8}
    _, folder = leave(task="image-folder", task_options=options, partition="iid")
    loaded = dpeer.load_model(folder)
    found = loaded.predict(tmp_path / "data" / "dog")
    assert found.keys["file"] == tuple(sorted(f"{number}.png" for number in range(20)))
    all_of_them = loaded.predict(tmp_path / "data")
    assert all_of_them.keys["file"][0] == "cat/0.png"
    assert same(all_of_them.outputs[20:], found.outputs) or torch.allclose(all_of_them.outputs[20:], found.outputs)
    figures = loaded.evaluate(tmp_path / "data")
    assert figures["rows"] == 40
    truth = torch.tensor([0] * 20 + [1] * 20)
    assert figures == measure(all_of_them.outputs, truth, ("cat", "dog"))
    assert (found.remarks, all_of_them.remarks) == ((), ())
    for name in ("scan.tiff", "notes.txt", "dog/deep/.1.png"):
        (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
        image.fromarray(pixels).save(tmp_path / "data" / name, "png")
    said = "1 hidden or of __MACOSX (such as dog/deep/.1.png), 1 .txt (such as notes.txt), 1 .tiff (such as scan.tiff)"
    said = f"left out of data: {said}"
    again = loaded.predict(tmp_path / "data")
    assert (len(again), again.remarks) == (40, (said,))
    labelled = loaded.read(tmp_path / "data", labels=True)
    assert labelled.remarks == (said,)
    assert loaded.evaluate(labelled) == figures
    with pytest.raises(TaskError, match=r"were read without labels: read\(path, labels=True\)$"):
        loaded.evaluate(loaded.read(tmp_path / "data"))
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "scan.tiff").touch()
    with pytest.raises(
        TaskError, match=r"has no images \(.png, .*\); left out of none: 1 .tiff \(such as scan.tiff\)$"
    ):
        loaded.predict(tmp_path / "none")


def test_bytes_of_images_are_scaled_as_in_training(leave: Leave, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads images")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    for number, one in enumerate(pixels):
        place = tmp_path / "data" / str(number % 2)
        place.mkdir(parents=True, exist_ok=True)
        image.fromarray(one).save(place / f"{number:02}.png")
    options = {"path": str(tmp_path / "data"), "image_size": 8, "channels": 1}
    _, folder = leave(task="image-folder", task_options=options)
    loaded = dpeer.load_model(folder)
    from_files = loaded.predict(tmp_path / "data" / "0").outputs
    as_bytes, as_numbers = pixels[::2, None], pixels[::2, None].astype(np.float32) / 127.5 - 1
    assert torch.allclose(loaded.predict(as_bytes).outputs, from_files, atol=1e-6)
    assert torch.allclose(loaded.predict(as_numbers).outputs, from_files, atol=1e-6)


def test_arrays_in_files(leave: Leave, tmp_path: Path) -> None:
    learner, folder = leave()
    inputs, targets = learner.trainer.task.test.tensors
    np.save(tmp_path / "new.npy", inputs.numpy())
    np.savez(tmp_path / "labelled.npz", inputs=inputs.numpy(), targets=targets.numpy())
    loaded = dpeer.load_model(folder)
    assert same(loaded.predict(tmp_path / "new.npy").outputs, outputs(learner))
    assert loaded.predict(tmp_path / "labelled.npz").keys["row"][:2] == ("0", "1")
    assert loaded.evaluate(tmp_path / "labelled.npz") == loaded.card["metrics"]
    np.savez(tmp_path / "few.npz", inputs=inputs.numpy(), targets=targets.numpy()[:3])
    for name, evaluated, message in (
        ("few.npz", True, "inputs have 3 targets"),
        ("new.npy", True, "no array 'targets'; it has inputs"),
        ("shape.npy", False, r"the shape is \(2, 3\); expected \(rows, 1, 8, 8\)"),
        ("none.npy", False, "has no rows"),
        ("objects.npy", False, "Object arrays cannot be loaded"),
        ("empty.npy", False, "cannot be read"),
        ("text.npz", False, "cannot be read"),
        ("words.npy", False, "expected an array of numbers"),
        ("complex.npy", False, "expected an array of numbers"),
        ("missing.npy", False, "there is no"),
        ("table.csv", False, "expected a .npy or .npz file"),
    ):
        made = {
            "shape.npy": np.zeros((2, 3)), "none.npy": np.zeros((0, 1, 8, 8)), "words.npy": np.full((1, 1, 8, 8), "a"),
            "objects.npy": np.array([{}], dtype=object), "complex.npy": np.zeros((1, 1, 8, 8), complex),
        }.get(name)  # fmt: skip
        if made is not None:
            np.save(tmp_path / name, made)
        elif name in ("empty.npy", "text.npz", "table.csv"):
            (tmp_path / name).write_text("" if name == "empty.npy" else "a,b\n")
        with pytest.raises(TaskError, match=message):
            (loaded.evaluate if evaluated else loaded.predict)(tmp_path / name)
    with pytest.raises(TaskError, match="the inputs: expected an array of numbers"):
        loaded.predict({"inputs": 3})


def test_a_task_of_ones_own_is_made_as_in_the_run(leave: Leave, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec = f"{tmp_path / 'mine.py'}:task"
    learner, folder = leave(task=spec, task_options={"width": 7})
    state = torch.get_rng_state()
    loaded = dpeer.load_model(folder)
    assert torch.equal(torch.get_rng_state(), state)  # a script that loads a model draws on as if it had not
    assert same(loaded.predict(learner.trainer.task.test.tensors[0]).outputs, outputs(learner))
    assert loaded.classes == ("0", "1", "2")
    (tmp_path / "mine.py").unlink()
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(card | {"task": "elsewhere.py:task"}))
    with pytest.raises(TaskError, match=r"made by its task's factory.*hand a model.*module="):
        dpeer.load_model(folder)
    module = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 3))
    handed = dpeer.load_model(folder, module=module)
    assert same(handed.predict(learner.trainer.task.test.tensors[0]).outputs, outputs(learner))
    with pytest.raises(CheckpointError, match=r"'0.weight' has shape \(7, 4\), the model's \(6, 4\)"):
        dpeer.load_model(folder, module=nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
    with pytest.raises(CheckpointError, match=r"has '0\.bias', which the model has not"):
        dpeer.load_model(folder, module=nn.Sequential(nn.Linear(4, 7, bias=False), nn.ReLU(), nn.Linear(7, 3)))
    with pytest.raises(ConfigurationError, match=r"expected a torch.nn.Module"):
        dpeer.load_model(folder, module="model")


def test_a_table_that_does_not_fit_is_said(
    leave: Leave, visits: Callable[..., Path], table_settings: dict[str, Any], tmp_path: Path
) -> None:
    _, folder = leave(**table_settings)
    loaded = dpeer.load_model(folder)
    with pytest.raises(UnknownName, match=r"unknown column 'age, length' in what the model needs.*few.csv"):
        loaded.predict(write_csv(tmp_path / "few.csv", ("weight", "pulse"), [[1, 2]]))
    for text in ("", "weight,age,pulse,length\n"):
        (tmp_path / "empty.csv").write_text(text)
        with pytest.raises(TaskError, match="has no rows"):
            loaded.predict(tmp_path / "empty.csv")
    with pytest.raises(TaskError, match="no column 'outcome', with which predictions could be compared"):
        loaded.evaluate(visits("new.csv", order=(4, 2, 0, 3, 1)))
    with pytest.raises(TaskError, match="there is no"):
        loaded.predict(tmp_path / "nothing.csv")


def test_folders_without_a_model_are_said(leave: Leave, tmp_path: Path) -> None:
    _, folder = leave()
    assert "digits" in repr(dpeer.load_model(folder.parent))  # the only peer's
    with pytest.raises(ConfigurationError, match="there is no folder"):
        dpeer.load_model(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"has no model.safetensors; it is written when"):
        dpeer.load_model(tmp_path)
    with pytest.raises(ConfigurationError, match="expected a path"):
        dpeer.load_model(3)
    other = folder.parent / "rank-10"
    other.mkdir()
    (other / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(ConfigurationError, match="the models of 2 peers: name one of rank-0, rank-10"):
        dpeer.load_model(folder.parent)
    with pytest.raises(CheckpointError, match="beside the model"):
        dpeer.load_model(other)
    card = json.loads((folder / "model.json").read_text())
    for wrong, message in (
        ("{", "holds no JSON object"),
        (json.dumps(card | {"format": 2}), "format 2, this dpeer reads 1"),
        (json.dumps(card | {"model": {"model": "digits"}}), "damaged: KeyError"),
        (json.dumps(card | {"preparation": {"format": 9}}), "preparation has format 9"),
        (json.dumps(card | {"classes": 3}), "damaged"),
    ):
        (folder / "model.json").write_text(wrong)
        with pytest.raises(CheckpointError, match=message):
            dpeer.load_model(folder)
    (folder / "model.json").write_text(json.dumps(card))
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match="cannot be read"):
        dpeer.load_model(folder)


def test_of_a_run_that_keeps_the_best_model_the_card_is_about_that_one(leave: Leave, tmp_path: Path) -> None:
    learner, folder = leave(keep="best", validation=0.2, body_lr=0.5, momentum=0.0)
    for number in range(1, 5):
        learner.train(number)
        learner.evaluate()
    training = [parameter.detach().clone() for parameter in learner.trainer.module.parameters()]
    learner.write_model(folder / "model.safetensors")
    card = learner.card()
    assert all(map(torch.equal, training, learner.trainer.module.parameters()))
    inputs, targets = learner.trainer.task.test.tensors
    np.savez(tmp_path / "test.npz", inputs=inputs.numpy(), targets=targets.numpy())
    assert card["metrics"] == dpeer.load_model(folder).evaluate(tmp_path / "test.npz")
    with learner.keeping.predicting():
        last = learner.selection.predictions()
    if learner.best_round != 4:
        assert measure(*last) != card["metrics"]


def test_figures_are_of_the_data_that_accuracies_are_of(leave: Leave) -> None:
    learner, folder = leave(evaluate_on="validation", validation=0.3)
    card = dpeer.load_model(folder).card
    assert card["measured_on"] == "validation"
    assert card["metrics"]["rows"] == card["samples"]["validation"] == len(learner.trainer.task.validation)
    assert sum(card["class_counts"]["validation"]) == card["samples"]["validation"]
