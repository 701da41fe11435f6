"""Numbers to predict that are scaled inside the model."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from dpeer.training import Hyperparameters, build_learner
from dpeer.training.loading import load_task
from dpeer.training.metrics import predicts_values
from dpeer.training.models.scaling import ScaledLoss, scale_outputs, target_scale
from dpeer.training.tasks import Choices


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


def task(table: Path, **changes: Any) -> Any:
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


def test_costs_in_euros_are_learned_at_the_rates_for_small_numbers(table: Path) -> None:
    learner = build_learner(task(table), "local", Hyperparameters(body_epochs=20), rank=0, seed=0)
    first = learner.evaluate()
    learner.train(0)
    found = learner.evaluate()
    assert found.test_loss < 0.3 < first.test_loss < 10
    assert found.metrics["mae"] > 100, "in euros"
    assert found.metrics["r2"] > 0.7


def test_as_they_are_they_stay_as_they_are(table: Path) -> None:
    plain = task(table, standardize=False)
    assert plain.loss is mse_loss
    assert not {"output_centre", "output_scale"} & set(plain.model.state_dict())
    assert not plain.built["scales_outputs"]


def test_a_schemas_range_is_the_scale_where_nothing_may_be_computed_from_rows(table: Path) -> None:
    schema = table.with_name("schema.toml")
    numbers = "".join(f'[columns.{name}]\nkind = "number"\nrange = [-5, 5]\n' for name in "abc")
    message = 'column = "cost"\nkind = "regression"\nrange = [-100000, 200000]'
    schema.write_text(f"format = 1\n[target]\n{message}\n{numbers}")
    choices = Choices(partition="own", standardize=False, schema=schema)
    found = load_task("csv", 0, 1, 0, {"path": str(table)}, choices)
    assert (found.model.output_centre, found.model.output_scale) == (50_000, 150_000)
