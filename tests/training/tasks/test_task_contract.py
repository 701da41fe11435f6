"""The contract of built-in tasks: what every one of them keeps, whatever its data."""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from dpeer.exceptions import DpeerError
from dpeer.training import BUILTIN_TASKS, Choices, Task, load_task

SIZE = 2
Options = dict[str, Any]


def pixels(count: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).integers(0, 256, (count, *shape), dtype=np.uint8)


def numbers(count: int, classes: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.int64) % classes


def cifar10(folder: Path) -> Options:
    inner = folder / "cifar-10-batches-py"
    inner.mkdir()
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        content = {b"labels": numbers(40, 10).tolist(), b"data": pixels(40, 3072)}
        (inner / name).write_bytes(pickle.dumps(content, protocol=2))
    return {"data": str(folder)}


def cifar100(folder: Path) -> Options:
    inner = folder / "cifar-100-python"
    inner.mkdir()
    for name, count in (("train", 1000), ("test", 400)):
        content = {b"fine_labels": numbers(count, 100).tolist(), b"data": pixels(count, 3072)}
        (inner / name).write_bytes(pickle.dumps(content, protocol=2))
    return {"data": str(folder)}


def tiny_imagenet(folder: Path) -> Options:
    inner, names = folder / "tiny-imagenet-200", ["n01443537", "n02124075", "n04067472"]
    annotations = []
    for place, name in enumerate(names):
        (inner / "train" / name / "images").mkdir(parents=True)
        for number in range(40):
            image = Image.fromarray(np.full((64, 64, 3), 60 * place + number, np.uint8))
            image.save(inner / "train" / name / "images" / f"{name}_{number}.JPEG")
    (inner / "val" / "images").mkdir(parents=True)
    for number in range(30):
        Image.fromarray(np.full((64, 64, 3), number, np.uint8)).save(inner / "val" / "images" / f"val_{number}.JPEG")
        annotations.append(f"val_{number}.JPEG\t{names[number % 3]}\t0\t0\t9\t9\n")
    (inner / "val" / "val_annotations.txt").write_text("".join(annotations))
    (inner / "wnids.txt").write_text("\n".join(names) + "\n")
    return {"data": str(folder)}


def mnist(folder: Path) -> Options:
    parts = {"train": 200, "test": 100}
    arrays = {f"x_{name}": pixels(count, 28, 28) for name, count in parts.items()}
    arrays |= {f"y_{name}": numbers(count, 10) for name, count in parts.items()}
    np.savez(folder / "mnist.npz", **arrays)
    return {"data": str(folder / "mnist.npz")}


def emnist(folder: Path) -> Options:
    for part, count in (("train", 620), ("test", 310)):
        for kind, array in (("images-idx3", pixels(count, 28, 28)), ("labels-idx1", numbers(count, 62))):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            path = folder / f"emnist-byclass-{part}-{kind}-ubyte"
            path.write_bytes(head + array.astype(np.uint8).tobytes())
    return {"data": str(folder)}


def femnist(folder: Path) -> Options:
    for part, count in (("train", 45), ("test", 10)):
        (folder / part).mkdir()
        users = {f"f000{n}": {"x": (pixels(count + n, 784) / 255).tolist(), "y": numbers(count + n, 62).tolist()}
                 for n in range(4)}  # fmt: skip
        content = {"users": list(users), "num_samples": [len(one["y"]) for one in users.values()], "user_data": users}
        (folder / part / "all_data_0.json").write_text(json.dumps(content))
    return {"data": str(folder)}


def har(folder: Path) -> Options:
    x = np.random.default_rng(0).normal(size=(480, 128, 9)).astype(np.float32)
    subject = np.repeat(np.arange(1, 5), 120)
    np.savez(folder / "har.npz", x=x, y=np.arange(480) // 5 % 6, subject=subject, is_test=subject > 3)
    return {"data": str(folder / "har.npz")}


def glue(folder: Path) -> Options:
    inner = folder / "SST-2"
    inner.mkdir()
    for name, count in (("train", 120), ("dev", 60)):
        lines = ["sentence\tlabel", *(f"a sentence, number {n} of {name}\t{n % 2}" for n in range(count))]
        (inner / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return {"data": str(folder), "name": "sst2", "length": 24}


def roles(folder: Path) -> Options:
    turns = [{"speaker": name, "text": f"{name} says {n:03d}."} for n in range(120) for name in ("HAMLET", "GHOST")]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, turns)) + "\n")
    return {"data": str(folder / "texts.jsonl"), "length": 16}


def csv(folder: Path) -> Options:
    for rank in range(SIZE):
        rows = [f"{n + 0.5},{n * n % 17 + rank},{'yes' if n % 2 else 'no'}" for n in range(80)]
        (folder / f"site-{rank}.csv").write_text("\n".join(["age,dose,ill", *rows]) + "\n")
    return {"path": str(folder / "site-{rank}.csv"), "target": "ill"}


def image_folder(folder: Path) -> Options:
    for rank in range(SIZE):
        for place, name in enumerate(("ill", "well")):
            (folder / f"site-{rank}" / name).mkdir(parents=True)
            for n in range(30):
                image = Image.fromarray(np.full((20, 20, 3), 100 * place + 2 * n + rank, np.uint8))
                image.save(folder / f"site-{rank}" / name / f"{n}.png")
    return {"path": str(folder / "site-{rank}"), "image_size": 16}


WRITERS: dict[str, Callable[[Path], Options]] = {
    "digits": lambda folder: {}, "cifar10": cifar10, "cifar100": cifar100, "tiny-imagenet": tiny_imagenet,
    "mnist": mnist, "emnist": emnist, "femnist": femnist, "har": har, "glue": glue, "roles": roles, "csv": csv,
    "image-folder": image_folder,
}  # fmt: skip


def test_every_task_is_here() -> None:
    assert WRITERS.keys() == BUILTIN_TASKS.keys()


@pytest.fixture(params=BUILTIN_TASKS, scope="module")
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Options]:
    """A task's name and the options under which it finds its data."""
    return request.param, WRITERS[request.param](tmp_path_factory.mktemp(request.param))


def loaded(known: tuple[str, Options], rank: int, **choices: Any) -> Task:
    return load_task(known[0], rank, SIZE, 3, known[1], Choices(**choices))


def tensors(task: Task) -> dict[str, list[torch.Tensor]]:
    parts = {"train": task.train, "validation": task.validation, "test": task.test}
    return {
        "weights": list(task.model.state_dict().values()),
        **{name: list(part.tensors) for name, part in parts.items() if isinstance(part, TensorDataset)},
    }


def test_the_same_arguments_make_the_same_task_to_the_bit(known: tuple[str, Options]) -> None:
    one, other = (tensors(loaded(known, 1, validation=0.25)) for _ in range(2))
    assert one.keys() == other.keys() == {"weights", "train", "validation", "test"}
    for name, values in one.items():
        assert all(torch.equal(a, b) for a, b in zip(values, other[name], strict=True)), name


def test_peers_begin_with_one_model_and_have_samples_of_their_own(known: tuple[str, Options]) -> None:
    tasks = [loaded(known, rank, validation=0.25) for rank in range(SIZE)]
    first, second = (dict(task.model.named_parameters()) for task in tasks)
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items()), "one initialisation"
    held: list[set[int]] = []
    for task in tasks:
        assert task.indices is not None
        parts = {name: {*index.tolist()} for name, index in task.indices.items()}
        assert all(parts.values()), "no part is empty"
        assert len(task.train) == len(parts["train"])
        assert not parts["train"] & parts["validation"]
        held.append(parts["train"] | parts["validation"])
    if BUILTIN_TASKS[known[0]].partition != "own":
        assert not held[0] & held[1]
        assert tasks[0].division == tasks[1].division is not None


def test_the_model_learns_from_the_data_and_has_a_head(known: tuple[str, Options]) -> None:
    task = loaded(known, 0)
    inputs, targets = (part[:8] for part in task.train.tensors)
    outputs = task.model(inputs)
    loss = (task.loss or torch.nn.functional.cross_entropy)(outputs, targets)
    loss.backward()
    assert torch.isfinite(loss)
    names = [name for name, value in task.model.named_parameters() if value.grad is not None]
    head = [name for name in names if name.startswith(tuple(task.head))]
    assert head
    assert len(head) < len(names), "a body is left to share"


def test_a_validation_share_is_taken_from_training_alone(known: tuple[str, Options]) -> None:
    whole, part = loaded(known, 0), loaded(known, 0, validation=0.25)
    assert whole.validation is None
    assert part.validation is not None
    assert len(part.train) + len(part.validation) == len(whole.train)
    assert all(torch.equal(a, b) for a, b in zip(whole.test.tensors, part.test.tensors, strict=True))


def test_mistakes_are_one_line_that_names_the_option(known: tuple[str, Options], tmp_path: Path) -> None:
    name, options = known
    with pytest.raises(DpeerError, match="colour") as refused:
        load_task(name, 0, SIZE, 3, options | {"colour": "red"}, Choices())
    assert "\n" not in str(refused.value)
    place = next((key for key in ("data", "path") if key in options), None)
    if place is not None:
        for wrong in (str(tmp_path / "nowhere"), None):
            with pytest.raises(DpeerError, match=r"nowhere|data|path") as refused:
                load_task(name, 0, SIZE, 3, options | {place: wrong}, Choices())
            assert "\n" not in str(refused.value)
