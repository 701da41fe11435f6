"""The example `survival.py`: Cox' loss and the concordance index beside loops over patients, and three hospitals."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import dpeer
from dpeer.exceptions import TaskError
from tests.error_texts import refused

EXAMPLE = Path(__file__).parents[2] / "examples" / "survival.py"


@pytest.fixture(scope="module")
def survival():
    spec = importlib.util.spec_from_file_location("survival", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def patients(seed, count=30):
    """Scores, times with ties, and events."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=count), generator.integers(1, 9, count), generator.integers(0, 2, count)


def as_tensors(score, time, event):
    return torch.tensor(score)[:, None], torch.tensor(np.column_stack([time, event]), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_cox_partial_likelihood_with_ties_as_breslow_has_them(survival, seed):
    score, time, event = patients(seed)
    terms = [
        score[i] - math.log(sum(math.exp(score[j]) for j in range(len(score)) if time[j] >= time[i]))
        for i in range(len(score)) if event[i]
    ]  # fmt: skip
    assert survival.cox_loss(*as_tensors(score, time, event)).item() == pytest.approx(-np.mean(terms), rel=1e-12)


def test_a_minibatch_without_an_event_has_no_gradient(survival):
    score, time, _ = patients(0)
    scores, targets = as_tensors(score, time, np.zeros(len(time)))
    scores.requires_grad_()
    loss = survival.cox_loss(scores, targets)
    loss.backward()
    assert loss.item() == 0.0
    assert not scores.grad.any()


@pytest.mark.parametrize("seed", range(5))
def test_the_concordance_is_the_share_of_comparable_pairs_in_the_right_order(survival, seed):
    score, time, event = patients(seed)
    score = np.round(score, 1)  # some are equal
    pairs = [(i, j) for i in range(len(time)) for j in range(len(time)) if event[i] and time[i] < time[j]]
    right = [1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0 for i, j in pairs]
    found = survival.concordance(*as_tensors(score, time, event))
    assert found == {"concordance": pytest.approx(np.mean(right), rel=1e-12)}
    assert survival.concordance(*as_tensors(score, time, np.zeros(len(time)))) == {}


def run(folder, **settings):
    common = {"size": 3, "topology": "full", "task": f"{EXAMPLE}:task", "alone": "never", "keep": "last"}
    return dpeer.run(dpeer.Settings(**common, out=folder, **settings))


def test_a_files_columns_are_read_whatever_their_order(survival, tmp_path):
    (tmp_path / "hospital-1.csv").write_text("event,age,time,dose\n1,60,2.5,3\n0,71,4,1\n")
    inputs, targets = survival.read_own_file(tmp_path, 1)
    assert inputs.tolist() == [[60, 3], [71, 1]]
    assert targets.tolist() == [[2.5, 1], [4, 0]]


def test_privacy_of_records_refuses_a_loss_in_which_patients_depend_on_each_other(tmp_path):
    with refused(TaskError, "is not the mean of its examples' losses", "--privacy sample needs a mean over the batch"):
        run(tmp_path, rounds=1, privacy="sample", target_epsilon=8.0, records=100, batch_size=32)
