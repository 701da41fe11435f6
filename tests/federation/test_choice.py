"""Which model start, cluster and simulate keep, and what is held out to choose it by."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.build import PeerParts, build
from dpeer.federation.config import VALIDATION, resolve
from dpeer.federation.settings import Settings, as_run

PRIVATE = {"privacy": "client", "noise_multiplier": 2.0}

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed, samples=200, brings=False):
    data = TensorDataset(torch.randn(samples, 4, generator=torch.Generator().manual_seed(rank)),
                         torch.arange(samples) % 2)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    return Task(model=model, head=("1",), train=data, test=data, validation=data if brings else None)
"""


@pytest.mark.parametrize(
    ("given", "keep", "validation"),
    [
        ({}, "best", VALIDATION),
        ({"keep": "best"}, "best", VALIDATION),
        ({"keep": "last"}, "last", 0.0),
        ({"keep": "last", "validation": 0.3}, "last", 0.3),
        ({"validation": 0.3}, "best", 0.3),
        ({"validation": 0.0}, "last", 0.0),
        (PRIVATE, "last", 0.0),
        ({"privacy": "sample", "noise_multiplier": 2.0}, "last", 0.0),
        ({"preset": "paper-cifar"}, "last", 0.0),
        ({"preset": "paper-cifar", "keep": "best", "validation": 0.1}, "best", 0.1),
        # What figures are of has not chosen the model.
        ({"evaluate_on": "validation", "validation": 0.2}, "last", 0.2),
    ],
)
def test_the_best_model_is_kept_where_nothing_speaks_against_it(
    given: dict[str, Any], keep: str, validation: float
) -> None:
    found = resolve(as_run(Settings(**given)), 0)
    assert (found.run.keep, found.data.validation) == (keep, validation)


def made(tmp_path: Path, **values: Any) -> PeerParts:
    (tmp_path / "own.py").write_text(OWN)
    if values.pop("own", False):
        values["task"] = f"{tmp_path / 'own.py'}:task"
    return build(resolve(as_run(Settings(**{"size": 4, "rounds": 2, "out": tmp_path / "run", **values})), 1))


def message(parts: PeerParts) -> list[str]:
    return [line for line in parts.notes if "is kept" in line]


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_training_samples_are_held_out_of_every_task(own: bool, tmp_path: Path) -> None:
    plain, parts = made(tmp_path, own=own, keep="last"), made(tmp_path, own=own)
    whole, held = plain.learner.num_samples, len(parts.learner.trainer.task.validation)
    assert parts.learner.num_samples == whole - held
    assert held == pytest.approx(VALIDATION * whole, rel=0.3)
    assert message(plain) == []
    assert message(parts) == [
        f"the model with the least loss on validation data is kept: {held} samples, held out of {whole} for training "
        "(--keep last trains on all of them)"
    ]
    assert (parts.facts["settings"]["keep"], parts.facts["settings"]["validation"]) == ("best", VALIDATION)
    # Peers need not agree on it.
    assert parts.fingerprint == plain.fingerprint


@pytest.mark.slow
def test_too_few_samples_are_all_trained_on_and_it_is_said(tmp_path: Path) -> None:
    for values in ({"own": True, "task_options": {"samples": 24}}, {"size": 60, "partition": "iid"}):
        parts = made(tmp_path, **values)
        count = parts.learner.num_samples
        assert parts.learner.trainer.task.validation is None
        assert message(parts) == [
            f"nothing is held out for validation, so the last round's model is kept: 15% of {count} training samples "
            "are fewer than 5, or part what belongs together"
        ]
        assert (parts.facts["settings"]["keep"], parts.facts["settings"]["validation"]) == ("last", 0.0)


@pytest.mark.slow
def test_validation_data_that_a_task_brings_choose_and_nothing_else_is_held_out(tmp_path: Path) -> None:
    own: dict[str, Any] = {"own": True, "task_options": {"brings": True}}
    parts = made(tmp_path, **own)
    assert parts.learner.num_samples == 200
    assert message(parts) == [
        "the model with the least loss on validation data is kept: 200 samples, that the task brings"
    ]
    assert (parts.facts["settings"]["keep"], parts.facts["settings"]["validation"]) == ("best", 0.0)
    with pytest.raises(ConfigurationError):
        made(tmp_path, **own, validation=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_private_run_knows_the_data_of_one_that_held_some_out(own: bool, tmp_path: Path) -> None:
    """That two runs were of the same data decides whether the first counts into the second one's epsilon."""
    found = []
    for number, values in enumerate(({}, {"keep": "last"}, PRIVATE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        learner = made(folder, own=own, **values).learner
        learner.start_over()
        learner.train(0)
        learner.release(0)
        (path,) = (folder / "run" / "rank-1" / "privacy").glob("*.jsonl")
        found.append(json.loads(path.read_text().splitlines()[0])["data"])
    assert found[0] == found[1] == found[2] is not None
