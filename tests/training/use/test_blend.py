"""A blend of two models: its weight beside an independent computation, its outputs, its file, and what has none."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import TensorDataset

from dpeer.exceptions import CheckpointError
from dpeer.training import Task
from dpeer.training.device import HOST
from dpeer.training.initial import begin_from
from dpeer.training.state.store import Origin, write_model
from dpeer.training.use.blend import Blend, BlendFit, fit_on_validation, fit_weight, log_mean, why_unsuited
from dpeer.training.use.model import TrainedModel, restored
from tests.error_texts import refused

Array = Any
"""Of numpy."""


def softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def weight_of(first: Array, second: Array, right: Array) -> float:
    """The weight by the definition, with likelihoods as products of probabilities; no logarithm enters."""
    tried = [step * 0.05 for step in range(21)]
    mixed = [w * softmax(first) + (1 - w) * softmax(second) for w in tried]
    likelihood = [math.prod(p[row, int(label)] for row, label in enumerate(right)) for p in mixed]
    return sum(w * one for w, one in zip(tried, likelihood, strict=True)) / sum(likelihood)


def drawn(rows: int, classes: int = 3, spread: float = 1.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(rows + classes)
    scores = rng.normal(0, spread, (2, rows, classes))
    return scores[0], scores[1], rng.integers(classes, size=rows)


def fitted(first: Array, second: Array, right: Array, *loss: Any) -> BlendFit:
    found = fit_weight(torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(right), *loss)
    assert found is not None
    return found


@pytest.mark.parametrize(("rows", "classes", "spread"), [(1, 2, 1), (13, 3, 2), (100, 6, 0.5), (60, 2, 8)])
def test_the_weight_is_that_of_the_definition(rows: int, classes: int, spread: float) -> None:
    first, second, right = drawn(rows, classes, spread)
    found = fitted(first, second, right).weight
    assert found == pytest.approx(weight_of(first, second, right), abs=1e-9)
    assert fitted(second, first, right).weight == pytest.approx(1 - found, abs=1e-9)
    assert fitted(first + 7, second - 3, right).weight == pytest.approx(found, abs=1e-9), "scores have no zero"


@pytest.mark.parametrize("low", [-math.inf, -1e4, -1e30])
def test_a_model_that_excludes_what_happens_is_never_taken_alone(low: float) -> None:
    first = np.array([[0.0, low], [0.0, low], [0.0, low]])
    second, right = np.zeros((3, 2)), np.array([0, 0, 1])
    found = fitted(first, second, right)
    assert found.weight == pytest.approx(weight_of(first, second, right), abs=1e-9)
    assert found.losses[0] > found.losses[1], "infinite, or as good as that"
    assert math.isfinite(found.losses[2])


def test_many_rows_and_extreme_scores_leave_no_number_undefined() -> None:
    first, second, right = drawn(20_000)
    first[np.arange(len(right)), right] += 4
    assert fitted(first, second, right).weight > 0.9
    assert fitted(1e3 * first, 1e30 * second, right).weight == pytest.approx(0.95, abs=0.05)
    hopeless, ones = torch.tensor([[0.0, -math.inf]] * 4), torch.ones(4, dtype=torch.long)
    assert fit_weight(hopeless, hopeless, ones) is None
    assert fit_weight(torch.full((4, 2), math.nan), torch.zeros(4, 2), ones) is None


def test_rows_without_a_label_and_weights_of_classes_count_as_in_the_loss() -> None:
    first, second, right = drawn(40)
    more, others = (np.concatenate([one, np.full((5, 3), 9.0)]) for one in (first, second))
    found = fitted(more, others, np.concatenate([right, np.full(5, -100)]))
    assert found.weight == pytest.approx(fitted(first, second, right).weight, abs=1e-12)
    weights = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    weighted = fitted(first, second, right, nn.CrossEntropyLoss(weights))
    share = weights.numpy()[right] / weights.numpy()[right].sum()
    tried = np.arange(21) / 20
    p = [w * softmax(first) + (1 - w) * softmax(second) for w in tried]
    log = np.array([40 * (share * np.log(one[np.arange(40), right])).sum() for one in p])
    likelihood = np.exp(log - log.max())
    assert weighted.weight == pytest.approx((tried * likelihood).sum() / likelihood.sum(), abs=1e-9)


class Net(nn.Module):
    """A body with running statistics, and a head."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()), nn.Linear(5, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores."""
        found: Tensor = self.head(self.body(inputs))
        return found


def nets() -> list[Net]:
    made = []
    for seed in range(2):
        torch.manual_seed(seed)
        made.append(Net())
        made[-1](torch.randn(30, 4) * (1 + seed))  # statistics of its own
    return [one.eval() for one in made]


INPUTS = torch.linspace(-3, 3, 28).reshape(7, 4)
CARD: dict[str, Any] = {"classes": ["a", "b", "c"], "input_shape": [4], "blend": {"weights": [0.3, 0.7]}}


def means(models: list[Net], weight: float) -> Array:
    parts = [softmax(one(INPUTS).detach().double().numpy()) for one in models]
    found: Array = weight * parts[0] + (1 - weight) * parts[1]
    return found


def test_the_output_is_the_logarithm_of_the_mean_of_both_softmaxes() -> None:
    models = nets()
    for weight in (0.0, 0.3, 1.0):
        outputs = Blend(models, (weight, 1 - weight))(INPUTS).detach()
        assert outputs.exp().numpy() == pytest.approx(means(models, weight), abs=1e-6)
        assert torch.softmax(outputs, dim=1).numpy() == pytest.approx(means(models, weight), abs=1e-6)
    far = torch.tensor([[0.0, -200.0, 150.0]])  # probabilities that float32 has not
    both = log_mean([far, far - 40], (0.5, 0.5))
    assert both.numpy() == pytest.approx(torch.log_softmax(far.double(), dim=1).numpy(), rel=1e-6)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, list[Net]]:
    """The file of a blend, and its members."""
    models = nets()
    write_model(Blend(models, (0.3, 0.7)).state_dict(), tmp_path / "m.safetensors", Origin.NONE, blend=True)
    return tmp_path / "m.safetensors", models


def test_it_is_written_and_read_back_to_the_bit(saved: tuple[Path, list[Net]]) -> None:
    path, models = saved
    values = load_file(path)
    for number, model in enumerate(models):
        for name, value in model.state_dict().items():
            assert torch.equal(values.pop(f"members.{number}.{name}"), value)
    assert not values
    given = Net()
    found = restored(json.loads(json.dumps(CARD)), path, given)
    assert isinstance(found, Blend)
    assert not found.training
    assert not found.members[1].training
    assert torch.equal(found(INPUTS), Blend(models, (0.3, 0.7))(INPUTS))
    predicted = TrainedModel(found, CARD).predict(INPUTS)
    assert predicted.probabilities == pytest.approx(means(models, 0.3), abs=1e-6)
    assert predicted.labels == [CARD["classes"][row] for row in means(models, 0.3).argmax(axis=1)]


@pytest.mark.parametrize("weights", [None, [1.0], [0.5, "x"], [0.6, 0.6], [-0.5, 1.5], [math.nan, 1.0]])
def test_a_card_with_strange_weights_is_damaged(weights: Any, saved: tuple[Path, list[Net]]) -> None:
    with refused(CheckpointError, f"the card of {str(saved[0])!r} is damaged: "):
        restored(CARD | {"blend": {} if weights is None else {"weights": weights}}, saved[0], Net())


def test_a_blend_and_one_model_are_not_mixed_up(saved: tuple[Path, list[Net]], tmp_path: Path) -> None:
    with refused(CheckpointError, "is of another model: one of both lacks 'body.0."):
        restored(CARD | {"blend": None}, saved[0], Net())
    write_model(nets()[0].state_dict(), tmp_path / "one.safetensors")
    with refused(CheckpointError, "is of another model: one of both lacks 'members.0."):
        restored(CARD, tmp_path / "one.safetensors", Net())


def test_first_weights_are_those_of_the_federated_member(saved: tuple[Path, list[Net]]) -> None:
    path, models = saved
    fresh = Net()
    found = begin_from(fresh, ("head",), path)
    for name, value in models[0].state_dict().items():
        assert torch.equal(fresh.state_dict()[name], value), name
    assert (found.taken, found.fresh, found.unused, found.origin) == (9, {}, (), Origin.NONE)


def task(model: nn.Module, targets: Tensor, **values: Any) -> Task:
    data = TensorDataset(INPUTS, targets)
    return Task(model=model, head=("head",), train=data, validation=data, test=data, **values)


LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0])


def test_both_models_are_weighed_on_the_validation_data() -> None:
    models = nets()
    found = fit_on_validation(models[0], models[1], task(Net(), LABELS), cross_entropy, HOST)
    assert not isinstance(found, str)
    first, second = (one(INPUTS).detach().double().numpy() for one in models)
    assert found.weight == pytest.approx(weight_of(first, second, LABELS.numpy()), abs=1e-6)
    losses = [float(cross_entropy(one(INPUTS), LABELS).detach()) for one in models]
    assert found.losses[:2] == pytest.approx(losses, abs=1e-6)
    assert found.losses[2] == pytest.approx(
        -np.log(means(models, found.weight)[np.arange(7), LABELS.numpy()]).mean(), abs=1e-6
    )


class Maps(Net):
    """A score for each class at each of five places."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Shape (rows, classes, places)."""
        return super().forward(inputs).unsqueeze(2).expand(-1, -1, 5)


def test_what_cannot_be_blended_says_why() -> None:
    model, values = Net(1), INPUTS[:, :1]
    for loss in (mse_loss, nn.MSELoss()):
        assert why_unsuited(task(model, values, loss=loss)) == "values are predicted, not classes"
    one_score = task(model, (LABELS > 0).float().unsqueeze(1), loss=nn.BCEWithLogitsLoss())
    assert why_unsuited(one_score) == "the task has a loss of its own, in which log-probabilities need not make sense"
    assert fit_on_validation(model, Net(1), one_score, one_score.loss, HOST) == why_unsuited(one_score)
    assert why_unsuited(task(Net(), LABELS)) is why_unsuited(task(Net(), LABELS, loss=cross_entropy)) is None
    shape = "the models' outputs are not class scores of shape (rows, classes) for class numbers"
    maps, few = (Maps(), LABELS.unsqueeze(1).expand(-1, 5)), (Net(2), LABELS)
    soft = (Net(), torch.softmax(INPUTS[:, :3], dim=1))
    for module, targets in (maps, few, soft, (Net(1), LABELS), (Net(), LABELS.float())):
        assert fit_on_validation(module, copy.deepcopy(module), task(module, targets), cross_entropy, HOST) == shape
    broken = Net()
    broken.head.weight.data.fill_(math.nan)
    why = fit_on_validation(broken, Net(), task(Net(), LABELS), cross_entropy, HOST)
    assert why == "their validation loss is not finite"
