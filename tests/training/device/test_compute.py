"""Finding the device, bfloat16, and images with their channels last."""

import types
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import Subset, TensorDataset

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import ALGORITHMS, Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.device import HOST, Compute, find_device, mapped
from dpeer.training.models.networks import DigitsNet
from tests.error_texts import refused
from tests.thinning import every
from tests.training.small import Rows, mix, small_task

BF16 = Compute(amp="bf16")
LAST = Compute(channels_last=True)


# Which device.


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def have(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        for name in ("benchmark", "deterministic", "allow_tf32"):
            monkeypatch.setattr(torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))

    return have


def test_ranks_are_dealt_round_robin(gpus: Callable[[int], None]) -> None:
    gpus(3)
    for text in ("cuda", "auto"):
        assert [str(find_device(text, rank)) for rank in range(5)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:0", "cuda:1"]
    assert [str(find_device("cuda:2", rank)) for rank in range(3)] == ["cuda:2"] * 3
    assert str(find_device("cpu", 1)) == "cpu"


def test_cudnn_is_made_repeatable_before_a_task_is_loaded(gpus: Callable[[int], None]) -> None:
    gpus(1)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = False, True
    find_device("auto", 0)
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize(
    ("device", "count", "fragment"), [("cuda:1", 1, "has cuda:0 alone"), ("cuda:7", 4, "has cuda:0 to cuda:3")]
)
def test_a_gpu_beyond_the_last_is_refused(device: str, count: int, fragment: str, gpus: Callable[[int], None]) -> None:
    gpus(count)
    with refused(ConfigurationError, f"--device {device}: ", fragment):
        find_device(device, 0)


def test_without_a_gpu_auto_is_the_cpu(gpus: Callable[[int], None]) -> None:
    gpus(0)
    assert find_device("auto", 0) == HOST.device == torch.device("cpu")


def test_what_a_device_says_too_late_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = build_learner(small_task(), "local", rank=0, seed=0)

    def train(_: object) -> None:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr(ours.algorithm, "train", train)
    with pytest.raises(
        TaskError, match=r"cpu gave up: AcceleratorError: CUDA error.*--device cpu says where"
    ) as caught:
        ours.train(0)
    assert "\n" not in str(caught.value)


# Structures.


def test_structures_keep_their_kinds() -> None:
    Pair = namedtuple("Pair", "first second")

    class Output(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    one = torch.ones(2)
    given = {
        "a": [one, (one, "text")],
        "b": Pair(one, None),
        "c": Output(scores=one),
        "d": types.MappingProxyType({1: one}),
    }
    found = mapped(given, lambda tensor: tensor + 1)
    assert found["a"][0].tolist() == found["a"][1][0].tolist() == [2, 2]
    assert found["a"][1][1] == "text"
    assert isinstance(found["b"], Pair)
    assert found["c"].scores.tolist() == found["d"][1].tolist() == found["b"].first.tolist() == [2, 2]
    assert one.tolist() == given["c"].scores.tolist() == [1, 1]
    packed = mapped(pack_sequence([one, one[:1]]), lambda tensor: tensor * 3)
    assert isinstance(packed, PackedSequence)
    assert packed.data.tolist() == [3, 3, 3]


def test_what_knows_how_to_move_is_asked_to() -> None:
    class Graph:
        where = "cpu"

        def to(self, device: torch.device) -> "Graph":
            moved = Graph()
            moved.where = str(device)
            return moved

    inputs, _ = Compute(torch.device("meta")).place(([Graph(), 3], torch.ones(1)))
    assert [inputs[0].where, inputs[1]] == ["meta", 3]
    assert HOST.place(inputs) is inputs


# bfloat16.


def trained(
    algorithm: str, task: Task, compute: Compute, rounds: int = 2, **changes: Any
) -> tuple[TorchLearner, list[Any]]:
    h = Hyperparameters(**{"body_epochs": 2, "batch_size": 16, "rounds": rounds} | changes)
    ours = build_learner(task, algorithm, h, rank=0, seed=0, compute=compute)
    seen: list[Any] = []
    for number in range(rounds):
        seen.append(ours.train(number))
        if ours.about.shares:
            ours.release(number)
            mix(ours, {}, {0: 1.0})
        seen.append(ours.evaluate())
    return ours, seen


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", every(4, ALGORITHMS))
def test_bfloat16_is_close_to_float32_and_repeatable(algorithm: str, tmp_path: Path) -> None:
    half, seen = trained(algorithm, small_task(), BF16)
    again, seen_again = trained(algorithm, small_task(), BF16)
    exact, seen_exact = trained(algorithm, small_task(), HOST)
    assert seen == seen_again
    assert torch.equal(half.body, again.body)
    ours, theirs = half.trainer.model, exact.trainer.model
    assert ours.data.dtype == ours.grad.dtype == torch.float32
    assert torch.isfinite(ours.data).all()
    assert not torch.equal(ours.data, theirs.data)
    torch.testing.assert_close(ours.data, theirs.data, rtol=0, atol=0.05)
    assert seen[0] == pytest.approx(seen_exact[0], abs=0.05)
    assert half.about.manifest == exact.about.manifest
    half.write_model(tmp_path / "model.safetensors")
    assert {value.dtype for value in load_file(tmp_path / "model.safetensors").values()} == {torch.float32}


def test_models_see_bfloat16_and_losses_and_metrics_float32() -> None:
    seen: dict[str, set[torch.dtype]] = {"model": set(), "loss": set(), "metrics": set()}

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        seen["loss"].add(outputs.dtype)
        return nn.functional.cross_entropy(outputs, targets)

    def metrics(outputs: Tensor, targets: Tensor) -> dict[str, float]:
        seen["metrics"].add(outputs.dtype)
        return {"accuracy": float((outputs.numpy().argmax(1) == targets.numpy()).mean())}

    task = small_task(loss=loss, metrics=metrics)
    task.model.fc.register_forward_hook(lambda _, given, gave: seen["model"].add(gave.dtype))
    trained("dfedsmdc", task, BF16)
    assert seen == {"model": {torch.bfloat16}, "loss": {torch.float32}, "metrics": {torch.float32}}


# Channels last.


def digits(wrap: Callable[[Any], Any] = lambda data: data, **changes: Any) -> Task:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.rand(40, 3, 8, 8, generator=generator), torch.randint(0, 10, (40,), generator=generator))
    torch.manual_seed(0)
    return Task(model=DigitsNet((3, 8, 8)), head=("head",), train=wrap(data), test=wrap(data), **changes)


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: Subset(data, range(3, 39)), Rows])
def test_convolutions_get_channels_last_and_all_that_leaves_is_as_ever(
    wrap: Callable[[Any], Any], tmp_path: Path
) -> None:
    formats: set[bool] = set()
    task = digits(wrap)
    task.model.features[0].register_forward_hook(
        lambda _, given, gave: formats.add(given[0].is_contiguous(memory_format=torch.channels_last))
    )
    last, _ = trained("dfedsmdc", task, LAST, rounds=1)
    usual, _ = trained("dfedsmdc", digits(wrap), HOST, rounds=1)
    assert formats == {True}
    assert last.about.manifest == usual.about.manifest
    torch.testing.assert_close(last.body, usual.body, rtol=0, atol=1e-4)
    last.write_model(tmp_path / "last.safetensors")
    usual.write_model(tmp_path / "usual.safetensors")
    a, b = load_file(tmp_path / "last.safetensors"), load_file(tmp_path / "usual.safetensors")
    for name, value in b.items():
        torch.testing.assert_close(a[name], value, rtol=0, atol=1e-4)


def test_what_is_no_image_is_left_alone() -> None:
    one, seen = trained("dfedmdc", small_task(), LAST)
    other, expected = trained("dfedmdc", small_task(), HOST)
    assert seen == expected
    assert torch.equal(one.trainer.model.data, other.trainer.model.data)


@pytest.mark.slow
def test_everything_at_once_and_elsewhere(elsewhere: Any) -> None:
    wanted = Compute(elsewhere.device, channels_last=True)
    one, seen = trained("dfedsmdc", digits(augment=lambda x, generator: x.flip(3)), wanted, rounds=1)
    other, expected = trained("dfedsmdc", digits(augment=lambda x, generator: x.flip(3)), LAST, rounds=1)
    assert seen == expected
    assert torch.equal(one.body, other.body)
