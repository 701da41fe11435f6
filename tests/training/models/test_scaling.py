"""Inputs that are scaled inside the model."""

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dpeer.training import build_learner
from dpeer.training.data.pool import Data, Pool
from dpeer.training.models import build_model
from dpeer.training.models.scaling import standardize
from dpeer.training.task import Task
from dpeer.training.tasks import Choices
from dpeer.training.tasks.pooled import pooled_task

CLASSES = 3


def pool(kind: str) -> Pool:
    torch.manual_seed(5)
    targets = torch.arange(120) % CLASSES
    inputs = {
        "images": torch.randint(0, 90, (120, 3, 8, 8), dtype=torch.uint8),
        "series": torch.randn(120, 4, 16) * torch.tensor([1.0, 0.02, 50.0, 1.0]).view(4, 1) + 7,
        "features": torch.randn(120, 5) * torch.tensor([1.0, 300.0, 1e-9, 2.0, 1.0]) + torch.arange(5.0) * 1e-9,
    }[kind]
    return Pool(inputs, targets)


MODELS = {"images": "cnn", "series": "cnn1d", "features": "mlp"}
KINDS = list(MODELS)


def make(kind: str, rank: int = 0, *, scaled: bool = True) -> Task:
    torch.manual_seed(0)
    data = Data(pool(kind), None, CLASSES)
    choices = Choices(partition="iid", standardize=scaled, validation=0.2)
    return pooled_task(data, rank, 2, 1, choices, model=MODELS[kind])


def scaled_by_hand(train: Tensor, inputs: Tensor) -> Tensor:
    """Channel by channel, in NumPy's float64."""
    found = inputs.double().numpy().copy()
    for channel in range(inputs.shape[1]):
        own = train[:, channel].double().numpy()
        found[:, channel] = (found[:, channel] - own.mean()) / own.std()
    return torch.from_numpy(found).float()


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_predicts_as_one_without_it_on_scaled_inputs(kind: str) -> None:
    task, plain = make(kind), make(kind, scaled=False)
    for part in (task.train, task.test, task.validation):
        inputs = part.tensors[0]
        by_hand = scaled_by_hand(task.train.tensors[0], inputs)
        torch.testing.assert_close(task.model(inputs), plain.model(by_hand), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(task.model(inputs), plain.model(inputs), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_body_sees_has_mean_0_and_deviation_1(kind: str) -> None:
    task = make(kind)
    seen: list[Tensor] = []
    task.model.get_submodule("features").register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    task.model(task.train.tensors[0])
    channels = seen[0].double().transpose(0, 1).flatten(1)
    assert channels.mean(1).abs().max() < 1e-4
    assert (channels.std(1, correction=0) - 1).abs().max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_peers_have_buffers_of_their_own_and_one_body(kind: str) -> None:
    tasks = [make(kind, rank) for rank in range(2)]
    plain = build_learner(make(kind, scaled=False), "dfedmdc", rank=0, seed=1)
    learners = [build_learner(task, "dfedmdc", rank=rank, seed=1) for rank, task in enumerate(tasks)]
    for name in ("input_mean", "input_std"):
        first, second = (task.model.get_buffer(name) for task in tasks)
        assert not torch.equal(first, second)
        assert first.shape == (1, tasks[0].train.tensors[0].shape[1]) + (1,) * (tasks[0].train.tensors[0].ndim - 2)
        assert first.dtype == torch.float32
    for learner in learners:
        assert learner.digest == plain.digest
        assert learner.manifest == plain.manifest
        assert learner.payload_bytes == plain.payload_bytes
        assert learner.head_parameters == plain.head_parameters


def test_mixing_and_training_leave_the_buffers_alone(gossip: Any) -> None:
    tasks = [make("series", rank) for rank in range(2)]
    kept = [[buffer.clone() for buffer in task.model.buffers()] for task in tasks]
    learners = [build_learner(task, "dfedsam", rank=rank, seed=1) for rank, task in enumerate(tasks)]
    gossip(learners, 2, evaluate=True, weights=torch.full((2, 2), 0.5).numpy())
    for task, buffers in zip(tasks, kept, strict=True):
        assert all(torch.equal(*pair) for pair in zip(task.model.buffers(), buffers, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ["dfedmdc", "local", "fedrod", "ditto", "dis_pfl"])
def test_the_saved_model_predicts_on_raw_inputs(kind: str, algorithm: str, tmp_path: Path) -> None:
    task = make(kind)
    learner = build_learner(task, algorithm.replace("_", "-"), rank=0, seed=1)
    learner.train(0)
    expected = learner.evaluate()
    learner.write_model(tmp_path / "model.safetensors")
    state = load_file(tmp_path / "model.safetensors")
    assert {"input_mean", "input_std"} <= state.keys()
    inputs, targets = task.test.tensors
    loaded = build_model(MODELS[kind], inputs.shape[1:], CLASSES)
    standardize(loaded, torch.zeros(1, *inputs.shape[1:]))
    if algorithm != "fedrod":  # which saves one more head
        loaded.load_state_dict(state)
        assert (loaded.eval()(inputs).argmax(1) == targets).float().mean().item() == pytest.approx(expected.accuracy)


def test_a_resumed_learner_has_its_buffers_again(tmp_path: Path) -> None:
    first, second = (build_learner(make("features"), "dfedmdc", rank=0, seed=1) for _ in range(2))
    first.train(0)
    first.save(tmp_path)
    second.load(tmp_path)
    assert second.evaluate() == first.evaluate()


@pytest.mark.parametrize("kind", KINDS)
def test_copies_scale_by_their_own_buffers(kind: str) -> None:
    task = make(kind)
    inputs = task.test.tensors[0]
    copied = copy.deepcopy(task.model)
    assert torch.equal(copied(inputs), task.model(inputs))
    copied.get_buffer("input_mean").add_(1)
    assert not torch.equal(copied(inputs), task.model(inputs))
    file = io.BytesIO()
    torch.save(task.model, file)
    file.seek(0)
    pickled: nn.Module = torch.load(file, weights_only=False)
    assert torch.equal(pickled(inputs), task.model(inputs))


def test_a_feature_that_never_changes_is_only_centred() -> None:
    torch.manual_seed(0)
    values = torch.full((30, 4), 0.1) * torch.tensor([1.0, 1e9, 0.0, 1.0])
    values[:, 3] += torch.randn(30) * 1e-8  # it does change, if little
    model = nn.Sequential(nn.Identity())
    standardize(model, values)
    assert model.get_buffer("input_std")[0, :3].tolist() == [1.0, 1.0, 1.0]
    assert 0 < model.get_buffer("input_std")[0, 3] < 1e-7
    assert model(values)[:, :3].abs().max() <= 1e-6
    changed = values.clone()
    changed[:, 0] += 2
    torch.testing.assert_close(model(changed)[:, 0], torch.full((30,), 2.0))


def test_no_deviation_is_too_small_to_divide_by() -> None:
    values = torch.tensor([[1e-45], [0.0], [0.0], [0.0], [0.0]])
    model = nn.Sequential(nn.Identity())
    standardize(model, values)
    assert model(values).isfinite().all()


def test_sums_are_in_float64() -> None:
    torch.manual_seed(0)
    values = 1e4 + torch.randn(50_000, 1)
    model = nn.Sequential(nn.Identity())
    standardize(model, values)
    assert model.get_buffer("input_mean").item() == pytest.approx(values.double().mean().item(), rel=1e-7)
    assert model.get_buffer("input_std").item() == pytest.approx(values.double().std(correction=0).item(), rel=1e-6)


def test_nothing_is_scaled_unless_asked_for() -> None:
    assert not list(make("images", scaled=False).model.buffers())
