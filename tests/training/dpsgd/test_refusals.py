"""Models, losses, data and settings that privacy at sample level cannot have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import build_learner
from dpeer.training.device import Compute
from tests.error_texts import refused
from tests.training.dp_learners import sample_terms, sampled
from tests.training.small import Preprocessed, small_task


def stacked(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])


def collating(change: Callable[[list[Any]], Any]) -> dict[str, Any]:
    return {"collate": lambda samples: (change(samples), stacked(samples)[1])}


def before_a_layer(layer: nn.Module) -> dict[str, Any]:
    return {"model": nn.Sequential(nn.Linear(6, 3), layer), "head": ()}


def data(inputs: Tensor, targets: Tensor) -> dict[str, Any]:
    rows = TensorDataset(inputs, targets)
    return {"train": rows, "test": rows}


@pytest.mark.parametrize(
    ("parts", "fragment"),
    [
        (before_a_layer(nn.BatchNorm1d(3)), "1 (BatchNorm1d) computes each example from the others"),
        (before_a_layer(nn.InstanceNorm1d(3, track_running_stats=True)), "1 (InstanceNorm1d) keeps statistics"),
        ({"model": nn.Embedding(3, 4, max_norm=1.0), "head": ()}, "the model (Embedding) writes to its weights"),
        ({"loss": lambda o, t: cross_entropy(o, t, reduction="sum")}, "--privacy sample needs a mean over the batch"),
        ({"loss": lambda o, t: o[:, :2]}, "loss gave float32 (1, 2); it must give one number"),
        (data(torch.randn(8, 6), torch.tensor([0, -100] * 4)), "the loss of one of 8 training examples is not finite"),
        (
            data(torch.randn(8, 6).to_sparse(), torch.arange(8) % 3),
            "inputs float32 (1, 6) sparse_coo; targets int64 (1,): privacy at sample level needs one dense tensor",
        ),
        (
            collating(lambda samples: pack_sequence([x[None] for x, _ in samples])),
            "inputs PackedSequence of 4: ",
        ),
        (
            collating(lambda samples: (stacked(samples)[0], "words")),
            "inputs tuple of 2: float32 (1, 6), str; targets int64 (1,): privacy at sample level",
        ),
        (
            collating(lambda samples: stacked(samples)[0].T),
            "inputs float32 (6, 1); targets int64 (1,): privacy at sample level",
        ),
    ],
)
def test_a_task_whose_examples_cannot_be_told_apart(parts: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    with refused(TaskError, fragment):
        sampled(small_task(**parts), tmp_path, "local")


def test_a_loss_of_which_the_batch_is_a_part(tmp_path: Path) -> None:
    with refused(TaskError, "--privacy sample needs a mean over the batch"):
        sampled(small_task(model=Preprocessed(lambda x: x - x.mean(0), 6), head=()), tmp_path, "fedavg")
    with refused(TaskError, "groups are of 49 examples, its training data have 50"):
        sampled(small_task(), tmp_path / "groups", groups=np.zeros(49))


def best(folder: Path) -> None:
    task = small_task()
    task.validation = task.test
    build_learner(task, "dfedmdc", rank=0, seed=0, session=sample_terms(folder), keep="best")


def halves(folder: Path) -> None:
    session = sample_terms(folder)
    build_learner(small_task(), "dfedmdc", rank=0, seed=0, session=session, compute=Compute(amp="bf16"))


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (best, "--keep best cannot be used with --privacy sample"),
        (halves, "--amp bf16: "),
        (lambda folder: sampled(small_task(), folder, hyper={"class_weights": "balanced"}), "--class-weights balanced"),
        (lambda _: ClippedSum(1.0, 1.0, 0.5, 10).released(np.array([0.0, np.nan])), "the sum of clipped gradients"),
    ],
)
def test_settings_that_cannot_be(call: Callable[[Path], object], fragment: str, tmp_path: Path) -> None:
    with refused(ConfigurationError, fragment):
        call(tmp_path)
