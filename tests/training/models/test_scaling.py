"""Inputs and numbers to predict that are scaled inside the model."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from dpeer.training import build_learner, load_task
from dpeer.training.data.pool import Data, Pool
from dpeer.training.models.scaling import ScaledLoss, scale_outputs, standardize, target_scale
from dpeer.training.objective import predicts_values
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
        assert learner.about.digest == plain.about.digest
        assert learner.about.manifest == plain.about.manifest
        assert learner.about.payload_bytes == plain.about.payload_bytes
        assert learner.about.head_parameters == plain.about.head_parameters


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


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(80, 3))
    cost = 40_000 + 9_000 * inputs.sum(axis=1)
    with (tmp_path / "cost.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["a", "b", "c", "cost"])
        lines.writerows([*row, value] for row, value in zip(inputs, cost, strict=True))
    return tmp_path / "cost.csv"


def regression(table: Path, **changes: Any) -> Any:
    choices = Choices(partition="own", **{"standardize": True, **changes})
    return load_task("csv", 0, 1, 0, {"path": str(table), "target": "cost", "kind": "regression"}, choices)


def test_outputs_are_multiplied_and_moved_and_the_numbers_saved() -> None:
    model = nn.Linear(2, 1)
    plain = nn.Linear(2, 1)
    plain.load_state_dict(model.state_dict())
    scale_outputs(model, 40.0, 3.0)
    inputs = torch.randn(5, 2)
    torch.testing.assert_close(model(inputs), 3 * plain(inputs) + 40)
    assert {"output_centre", "output_scale"} <= set(model.state_dict())


def test_the_loss_is_that_of_targets_that_were_scaled_before() -> None:
    outputs, targets = torch.randn(6, 1), torch.randn(6, 1)
    loss = ScaledLoss(4.0)
    torch.testing.assert_close(loss(4 * outputs + 7, 4 * targets + 7), mse_loss(outputs, targets))
    assert predicts_values(loss)


def test_the_scale_is_the_own_rows_or_the_range_or_none() -> None:
    targets = torch.tensor([[1.0], [2.0], [6.0]])
    centre, scale = target_scale(targets, (0.0, 10.0), own=True) or (0, 0)
    assert (centre, scale) == pytest.approx((3.0, np.std([1, 2, 6])))
    assert target_scale(targets, (0.0, 10.0), own=False) == (5.0, 5.0)
    assert target_scale(targets, None, own=False) is None
    assert target_scale(torch.full((4, 1), 9.0), None, own=True) == (9.0, 1.0)


def test_a_schemas_range_is_the_scale_where_nothing_may_be_computed_from_rows(table: Path) -> None:
    schema = table.with_name("schema.toml")
    numbers = "".join(f'[columns.{name}]\nkind = "number"\nrange = [-5, 5]\n' for name in "abc")
    message = 'column = "cost"\nkind = "regression"\nrange = [-100000, 200000]'
    schema.write_text(f"format = 1\n[target]\n{message}\n{numbers}")
    choices = Choices(partition="own", standardize=False, schema=schema)
    found = load_task("csv", 0, 1, 0, {"path": str(table)}, choices)
    assert (found.model.output_centre, found.model.output_scale) == (50_000, 150_000)
