"""Early stopping of peers that train alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.training import Hyperparameters, TorchLearner, build_learner
from tests.training.small import small_task

# Ten samples are learned by heart, and the validation loss grows.
H = Hyperparameters(body_epochs=4, batch_size=5, body_lr=0.1)
ROUNDS, PATIENCE = 40, 3


@pytest.fixture
def alone() -> Callable[..., TorchLearner]:
    def make(**changes: Any) -> TorchLearner:
        task = small_task(samples=10)
        task.validation = task.test
        asked: dict[str, Any] = {"keep": "best", "patience": PATIENCE}
        return build_learner(task, "local", H, rank=0, seed=0, **(asked | changes))

    return make


def run(learner: TorchLearner, rounds: range) -> tuple[list[float | None], list[float]]:
    """The training and validation losses of some rounds."""
    trained: list[float | None] = []
    validated: list[float] = []
    for number in rounds:
        trained.append(learner.train(number))
        validated.append(learner.evaluate().test_loss)
    return trained, validated


def test_training_ends_when_patience_does_and_the_best_model_is_kept(
    alone: Callable[..., TorchLearner], tmp_path: Path
) -> None:
    patient, endless = alone(), alone(patience=None)
    trained, losses = run(patient, range(ROUNDS))
    _, all_losses = run(endless, range(ROUNDS))
    ended = next(number for number, loss in enumerate(trained) if loss is None)
    assert 1 < ended < ROUNDS - 1
    assert all(loss is None for loss in trained[ended:])
    best = losses.index(min(losses[:ended]))
    assert patient.best_round == best
    assert ended == best + PATIENCE + 1
    assert losses[:ended] == all_losses[:ended]
    assert set(losses[ended:]) == {losses[ended - 1]}, "the model stays as it is"
    patient.write_model(tmp_path / "model")
    fewer = alone(patience=None)
    run(fewer, range(best + 1))
    fewer.write_model(tmp_path / "other")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_resumed_peer_has_no_more_patience_than_one_that_never_stopped(
    alone: Callable[..., TorchLearner], tmp_path: Path
) -> None:
    whole = alone()
    trained, _ = run(whole, range(ROUNDS))
    ended = trained.index(None)
    for stop in (ended - 2, ended, ended + 1):
        first, resumed = alone(), alone()
        run(first, range(stop))
        folder = tmp_path / str(stop)
        folder.mkdir()
        first.save(folder)
        resumed.load(folder)
        again, _ = run(resumed, range(stop, ROUNDS))
        assert again == trained[stop:]
        assert torch.equal(resumed.trainer.model.data, whole.trainer.model.data)
