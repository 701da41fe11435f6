"""First weights from a file: what is taken, what stays as it was, and what is refused."""

import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training.initial import Weights, begin_from
from dpeer.training.models import build_model
from dpeer.training.models.scaling import standardize
from tests.error_texts import refused

Write = Callable[..., Path]


class Net(nn.Module):
    """A body with running statistics and a frozen part, and a head."""

    def __init__(self, outputs: int = 3, width: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, width), nn.BatchNorm1d(width))
        self.fixed = nn.Linear(width, width).requires_grad_(False)
        self.head = nn.Linear(width, outputs)


def net(seed: int, **sizes: int) -> Net:
    torch.manual_seed(seed)
    made = Net(**sizes)
    made.body[1].running_mean += seed
    return made


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def check_state(model: nn.Module, expected: dict[str, Tensor]) -> None:
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(values: dict[str, Tensor], name: str = "w.safetensors") -> Path:
        save_file({key: value.contiguous() for key, value in values.items()}, tmp_path / name)
        return tmp_path / name

    return make


def test_all_of_a_file_is_taken_frozen_parts_and_buffers_too(write: Write) -> None:
    model, other = net(0), state(net(1))
    parameters = list(model.parameters())
    found = begin_from(model, ("head",), write(other))
    check_state(model, other)
    assert (found.taken, found.fresh, found.unused) == (len(other), {}, ())
    assert all(map(lambda one, same: one is same, model.parameters(), parameters)), "what others hold is the same"
    assert not model.fixed.weight.requires_grad
    assert found.to_json() == {"sha256": found.sha256, "taken": 11, "fresh": {}, "unused": 0}
    again, another = (begin_from(net(0), ("head",), write(state(net(seed)), f"{seed}.safetensors")) for seed in (1, 2))
    assert found.sha256 == again.sha256 != another.sha256, "the hash is of the content"


def test_a_head_for_other_classes_stays_as_it_was(write: Write) -> None:
    model, other = net(0), state(net(1, outputs=7))
    heads = {name: value for name, value in state(model).items() if name.startswith("head.")}
    path = write(other | {"old.weight": torch.zeros(2)})
    found = begin_from(model, ("head",), path)
    check_state(model, other | heads)
    assert found.taken == 9
    assert found.line(path) == (
        f"weights of w.safetensors (SHA-256 {found.sha256[:12]}): 9 tensors taken; head.bias as initialised (shape "
        "(7,) in the file, (3,) here); head.weight as initialised (shape (7, 4) in the file, (3, 4) here); not used: "
        "old.weight"
    )


PART = {name: value for name, value in state(net(1)).items() if name.startswith(("body.0", "fixed"))}


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        (PART, "it has 4 of the body's 9 tensors, fewer than half"),
        ({"bodi.0.weight": torch.ones(4, 5)}, "nothing in it fits the model's body: the file has bodi.0.weight; "),
        ({"head.bias": torch.ones(3)}, "nothing in it fits the model's body: the file has head.bias"),
        ({}, "the file has nothing"),
        ({"fixed.bias": torch.ones(4, dtype=torch.int8)}, "'fixed.bias' is of type int8"),
        ({"body.0.weight": torch.ones(9, 5)}, "'body.0.weight' has shape (9, 5)"),
        ({"body.0.bias": torch.ones(4), "fixed.bias": torch.ones(5)}, "'fixed.bias' has shape (5,)"),
        ({"body.0.bias": torch.ones(4), "fixed.bias": torch.full((4,), torch.inf)}, "'fixed.bias'"),
    ],
)
def test_a_file_that_does_not_fit_names_the_tensor_and_changes_nothing(
    values: dict[str, Tensor], fragment: str, write: Write
) -> None:
    model, path = net(0), write(values)
    with refused(TaskError, f"--init-from {path}: ", fragment):
        begin_from(model, ("head",), path)
    check_state(model, state(net(0)))


def index(folder: Path, files: object) -> Path:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return folder / "model.safetensors.index.json"


def test_a_model_in_several_files_is_read_by_its_index(write: Write, tmp_path: Path) -> None:
    model, other = net(0), state(net(1))
    places = {name: f"{number % 2}.safetensors" for number, name in enumerate(other)}
    for file in ("0.safetensors", "1.safetensors"):
        write({name: value for name, value in other.items() if places[name] == file}, file)
    path = index(tmp_path, places)
    found = begin_from(model, ("head",), path)
    check_state(model, other)
    assert (found.taken, found.fresh, found.unused) == (len(other), {}, ())
    write({name: value + 1 for name, value in other.items() if places[name] == "1.safetensors"}, "1.safetensors")
    assert begin_from(net(0), ("head",), path).sha256 != found.sha256
    (tmp_path / "1.safetensors").unlink()
    with refused(ConfigurationError, f"--init-from {tmp_path / '1.safetensors'}: No such file"):
        begin_from(net(0), ("head",), path)


@pytest.mark.parametrize("files", [None, [1], {"head.bias": 1}])
def test_an_index_of_another_kind_is_named(files: object, tmp_path: Path) -> None:
    with refused(ConfigurationError, "model.safetensors.index.json: expected an index whose weight_map"):
        begin_from(net(0), ("head",), index(tmp_path, files))


@pytest.mark.parametrize(("one", "other"), [("model.", "ema_model."), ("student.", "teacher.")])
@pytest.mark.parametrize("more", [{}, {"ema_model.n_averaged": torch.ones(1), "step": torch.ones(1)}])
def test_a_file_with_two_copies_of_the_model_is_refused(
    one: str, other: str, more: dict[str, Tensor], write: Write
) -> None:
    values = {prefix + name: value for prefix in (one, other) for name, value in state(net(1)).items()}
    path = write(values | more)
    with refused(TaskError, f"--init-from {path}: ", "more than once, as ", f"{one}body.0.bias", f"{other}body"):
        begin_from(net(0), ("head",), path)


@pytest.mark.parametrize("there", ["", "model.", "module.", "module.model.net."])
@pytest.mark.parametrize("here", [False, True])
def test_names_with_another_prefix_are_matched(there: str, here: bool, write: Write) -> None:
    model, other = net(0), state(net(1))
    path = write({there + name: value for name, value in other.items()})
    begin_from(nn.ModuleDict({"inner": model}) if here else model, ("inner.head", "head"), path)
    check_state(model, other)


NAMES = {
    "vit-tiny": {
        "vit.layers.": "vit.encoder.layer.", "attention.q_proj": "attention.attention.query",
        "attention.k_proj": "attention.attention.key", "attention.v_proj": "attention.attention.value",
        "attention.o_proj": "attention.output.dense", "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense",
        "head.": "classifier.",
    },
    "swin-tiny": {
        "attention.q_proj": "attention.self.query", "attention.k_proj": "attention.self.key",
        "attention.v_proj": "attention.self.value", "attention.o_proj": "attention.output.dense",
        "attention.relative_position_bias.": "attention.self.", "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    },
}  # fmt: skip
"""Parts of names, and what they are in published files, such as google/vit-base-patch16-224 of 2021."""
OPTIONS = {
    "vit-tiny": {"layers": 2, "width": 12, "heads": 3, "patch": 4},
    "swin-tiny": {"layers": [1, 1], "width": 8, "heads": [2, 4], "window": 2, "patch": 2},
}


@pytest.mark.parametrize(("name", "bare"), [("vit-tiny", False), ("vit-tiny", True), ("swin-tiny", False)])
def test_published_names_of_transformers_are_known(name: str, bare: bool, write: Write) -> None:
    """A pooler is not used; the file of a bare ViT has no classifier, nor the model's name in front."""
    torch.manual_seed(0)
    model = build_model(name, (1, 8, 8), 5, OPTIONS[name])
    expected = {one: value + 0.5 for one, value in state(model).items() if not (bare and one.startswith("head."))}
    values = {"vit.pooler.dense.weight": torch.zeros(12, 12)} if name == "vit-tiny" else {}
    for one, value in expected.items():
        for ours, theirs in NAMES[name].items():
            one = one.replace(ours, theirs)
        values[one] = value
    if bare:
        values = {one.removeprefix("vit."): value for one, value in values.items()}
    head = {one: value for one, value in state(model).items() if one.startswith("head.")} if bare else {}
    found = begin_from(model, ("head",), write(values))
    check_state(model, expected | head)
    assert (found.fresh.keys(), len(found.unused)) == (head.keys(), name == "vit-tiny")


def test_halves_become_floats_and_a_peers_own_scales_are_not_taken(write: Write) -> None:
    model = build_model("mlp", (6,), 2)
    standardize(model, torch.randn(20, 6))
    before = state(model)
    values = {name: torch.full_like(value, 0.5).bfloat16() for name, value in before.items()}
    found = begin_from(model, ("head",), write(values))
    assert {name for name, value in model.state_dict().items() if torch.equal(value, before[name])} == {
        "input_mean", "input_std",
    }  # fmt: skip
    assert (model.head.weight.dtype, found.unused) == (torch.float32, ("input_mean", "input_std"))


def test_one_tensor_of_the_file_is_in_memory_at_a_time(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Tensor]] = []
    read = Weights.tensor

    def watched(self: Weights, name: str) -> Tensor:
        assert all(one() is None for one in alive)
        value = read(self, name)
        alive.append(weakref.ref(value))
        return value

    monkeypatch.setattr(Weights, "tensor", watched)
    begin_from(net(0), ("head",), write(state(net(1))))
    assert len(alive) > 10


def test_what_holds_no_weights_is_refused_and_no_pickle_is_read(write: Write, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    whole = write(state(net(1))).read_bytes()
    torch.save(state(net(1)), tmp_path / "zipped.bin")
    torch.save(state(net(1)), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"body.0.weight": Trap()}, tmp_path / "trap.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(whole[:-10])
    (tmp_path / "short.safetensors").write_bytes(whole[:40])
    (tmp_path / "folder").mkdir()
    said = {"none.safetensors": "No such file", "folder": "it is a folder"}
    others = ("zipped.bin", "old.pt", "trap.safetensors", "cut.safetensors", "short.safetensors")
    for name, why in (said | dict.fromkeys(others, "")).items():
        with refused(ConfigurationError, f"{tmp_path / name}", why):
            begin_from(net(0), ("head",), tmp_path / name)
    assert not (tmp_path / "sprung").exists()
