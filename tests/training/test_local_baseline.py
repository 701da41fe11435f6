"""The copy that a peer trains alone: the bits of `local`, and none of the peer's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.algorithms import ALGORITHMS
from dpeer.training.local_baseline import LocalBaseline, independent_copy

RANK, SEED = 1, 5
H = Hyperparameters(rounds=3, batch_size=8, body_epochs=2)


def make(dropout: float = 0.0, **values: Any) -> Task:
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(30, 4, generator=generator)
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(dropout), nn.ReLU(), nn.Linear(8, 2)
    )  # fmt: skip
    return Task(model=model, head=("1", "4"), train=data, test=data, **values)


def local(task: Task, h: Hyperparameters = H, rounds: int = H.rounds, **options: Any) -> TorchLearner:
    """What `--algorithm local` trains, without interruption."""
    learner = build_learner(task, "local", h, rank=RANK, seed=SEED, **options)
    for number in range(rounds):
        learner.train(number)
        learner.evaluate()
    return learner


def alone(task: Task, gradients: float = 2, h: Hyperparameters = H, **options: Any) -> LocalBaseline:
    takes_part = options.pop("takes_part", lambda number: True)
    return LocalBaseline(independent_copy(task), h, gradients, takes_part, rank=RANK, seed=SEED, **options)


def through(copy: LocalBaseline, between: Callable[[], Any] = lambda: None) -> LocalBaseline:
    while not copy.done:
        assert copy.train_round()
        between()
    return copy


def model(of: TorchLearner | LocalBaseline, tmp_path: Path) -> bytes:
    learner = of.learner if isinstance(of, LocalBaseline) else of
    learner.write_model(tmp_path / "model")
    return (tmp_path / "model").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("draws", [None, True])
def test_beside_another_learner_it_has_the_bits_of_local(dropout: float, draws: bool | None, tmp_path: Path) -> None:
    expected = model(local(make(dropout, draws=draws)), tmp_path)
    other = build_learner(make(dropout, draws=draws), "dfedsmdc", H, rank=RANK, seed=SEED)

    def interfere() -> None:
        torch.rand(3)
        other.train(0)
        other.evaluate()

    assert model(through(alone(make(dropout, draws=draws)), between=interfere), tmp_path) == expected


def test_a_round_that_is_given_up_is_not_completed() -> None:
    copy = alone(make())
    assert copy.train_round()
    assert not copy.train_round(lambda: copy.made == 10)
    assert (copy.completed, copy.made) == (1, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dfedsmdc", "fedrep", "ditto", "dis-pfl"])
@pytest.mark.parametrize("local_steps", [None, 3])
def test_it_computes_as_many_gradients_as_the_peer(name: str, local_steps: int | None) -> None:
    h = H.model_copy(update={"local_steps": local_steps})
    own_task = make()
    if ALGORITHMS[name].shares == "model" or name in ("fedrod", "dis-pfl"):
        own_task = replace(own_task, model=nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), head=("2",))
    copied = independent_copy(own_task)
    peer = build_learner(own_task, name, h, rank=RANK, seed=SEED)
    for number in range(h.rounds):
        peer.train(number)
    copy = LocalBaseline(copied, h, peer.algorithm.gradients(h), lambda number: True, rank=RANK, seed=SEED)
    through(copy)
    assert copy.made == copy.steps
    if name != "dis-pfl":  # its screening looks at one minibatch a round besides
        # Passes over the data, rounded to whole ones where an algorithm's steps are parts of them.
        passes = abs(copy.learner.figures.gradients - peer.figures.gradients) / (30 * h.rounds)
        assert passes < (0.01 if local_steps is None else 1.0)


def test_the_peers_own_bits_are_the_same_with_a_copy_beside(tmp_path: Path) -> None:
    found = []
    for beside in (False, True):
        task = make(0.4)
        copy = alone(task) if beside else None
        peer = build_learner(task, "dfedsmdc", H, rank=RANK, seed=SEED)
        for number in range(H.rounds):
            if copy:
                copy.train_round()
            loss = peer.train(number)
            found.append((loss, peer.evaluate()))
        found.append(model(peer, tmp_path))
    half = len(found) // 2
    assert found[:half] == found[half:]


def test_rounds_that_the_peer_sits_out_it_sits_out_too(tmp_path: Path) -> None:
    copy = through(alone(make(), takes_part=lambda number: number != 1))
    expected = build_learner(make(), "local", H, rank=RANK, seed=SEED)
    for number in (0, 2):
        expected.train(number)
    assert model(copy, tmp_path) == model(expected, tmp_path)
    assert copy.completed == 3


@pytest.mark.parametrize("finish", ["head:2", "all:1"])
def test_it_is_finished_as_the_peer_is_when_it_is_measured(finish: str, tmp_path: Path) -> None:
    h = H.model_copy(update={"finish": finish})
    expected = local(make(0.3), h)
    copy = through(alone(make(0.3), h=h))
    assert model(copy, tmp_path) == (unfinished := model(expected, tmp_path))
    found = expected.fine_tune(H.rounds - 1)
    for _ in range(2):
        assert copy.rows()[0] == found
    assert model(copy, tmp_path) == model(expected, tmp_path) != unfinished


def test_what_was_saved_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    first = alone(make(0.3))
    for _ in range(2):
        first.train_round()
    (tmp_path / "state").mkdir()
    first.save(tmp_path / "state")
    second = alone(make(0.3))
    second.load(tmp_path / "state", 2)
    assert second.made == first.steps * 2 // 3
    assert model(through(second), tmp_path) == model(local(make(0.3)), tmp_path)


def test_a_loss_that_refers_to_the_model_is_told_and_one_that_does_not_is_copied() -> None:
    task = make()
    weight = task.model[0].weight
    for loss in (
        lambda outputs, targets: cross_entropy(outputs, targets) + weight.norm(),
        partial(lambda model, outputs, targets: cross_entropy(outputs, targets), task.model),
        lambda outputs, targets, model=task.model: cross_entropy(outputs, targets),
    ):
        with pytest.raises(TaskError):
            independent_copy(replace(task, loss=loss))
    weighted = nn.CrossEntropyLoss(torch.tensor([1.0, 2.0]))
    copied = independent_copy(replace(task, loss=weighted)).loss
    assert isinstance(copied, nn.CrossEntropyLoss)
    assert copied is not weighted
