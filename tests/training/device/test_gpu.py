"""What only a GPU can tell."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Hyperparameters, Task, TorchLearner, Trainer, build_learner
from dpeer.training.device import HOST, Compute, find_device
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.models.networks import DigitsNet
from dpeer.training.split import split
from tests.training.algorithm_cases import CASES, peers, rounds
from tests.training.small import NormedNet, small_task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device, or a torch without CUDA"),
]


@pytest.fixture
def gpu() -> Compute:
    return Compute(find_device("cuda", 0))


def close(one: TorchLearner, other: TorchLearner, share: float = 1.0) -> None:
    """Equal to 1e-3, but for a share of the values (a mask may turn on the last bits of two weights)."""
    a, b = (ours.trainer.model.data.cpu() for ours in (one, other))
    assert ((a - b).abs() <= 1e-3).float().mean() >= share


@pytest.mark.parametrize("where", [(True, True, True), (True, False, True)], ids=["gpu", "both"])
@pytest.mark.parametrize("case", CASES)
def test_every_algorithm_is_that_of_the_cpu(case: str, where: tuple[bool, ...], gpu: Compute) -> None:
    ours, plain = peers(case, *(gpu if there else HOST for there in where)), peers(case)
    assert ours[0].about.digest == plain[0].about.digest
    rounds(ours, 2)
    rounds(plain, 2)
    for one, other, there in zip(ours, plain, where, strict=True):
        assert one.trainer.model.data.is_cuda == there
        close(one, other, 0.95 if "pfl" in case or "compress" in case else 1.0)


@pytest.mark.parametrize("case", CASES)
def test_resuming_on_the_gpu_gives_the_same_bits(case: str, gpu: Compute, tmp_path: Path) -> None:
    whole, first, resumed = (peers(case, gpu, gpu, gpu) for _ in range(3))
    rounds(first, 2)
    for rank, (one, fresh) in enumerate(zip(first, resumed, strict=True)):
        (tmp_path / str(rank)).mkdir()
        one.save(tmp_path / str(rank))
        fresh.load(tmp_path / str(rank))
    expected = rounds(whole, 4)
    assert rounds(resumed, 2, start=2) == expected[len(expected) // 2 :]
    for one, other in zip(whole, resumed, strict=True):
        assert torch.equal(one.trainer.model.data, other.trainer.model.data)


def test_dropout_is_noticed_and_repeated(gpu: Compute) -> None:
    found = []
    for disturbed in (False, True):
        ours = peers("dfedmdc", gpu, gpu, gpu, task={"model": NormedNet, "head": lambda: ("norm", "fc")})
        if disturbed:
            torch.cuda.manual_seed_all(1234)
        found.append((rounds(ours, 2), [one.body for one in ours]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


@pytest.mark.parametrize("amp", [None, "bf16"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions(amp: Any, channels_last: bool, gpu: Compute) -> None:
    generator = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(
        torch.rand(64, 3, 8, 8, generator=generator), torch.randint(0, 10, (64,), generator=generator)
    )

    def trained(compute: Compute) -> TorchLearner:
        torch.manual_seed(0)
        task = Task(model=DigitsNet((3, 8, 8)), head=("head",), train=data, test=data)
        ours = build_learner(task, "dfedsmdc", Hyperparameters(body_epochs=2), rank=0, seed=0, compute=compute)
        assert torch.isfinite(torch.tensor(ours.train(0)))
        ours.evaluate()
        return ours

    wanted = Compute(gpu.device, amp, channels_last)
    one, again, plain = trained(wanted), trained(wanted), trained(HOST)
    torch.testing.assert_close(one.body, plain.body, rtol=0, atol=0.05 if amp else 1e-3)
    if not channels_last:
        assert torch.equal(one.body, again.body)


def test_a_wrong_target_is_one_line() -> None:
    """In a process of its own: after it CUDA is of no more use."""
    import subprocess
    import sys

    program = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from dpeer.exceptions import TaskError
from dpeer.training import Task, build_learner
from dpeer.training.device import Compute
data = TensorDataset(torch.randn(8, 4), torch.full((8,), 9))
task = Task(model=nn.Linear(4, 3), head=(), train=data, test=data)
try:
    build_learner(task, "local", rank=0, seed=0, compute=Compute(torch.device("cuda", 0))).train(0)
except TaskError as error:
    print("TaskError:", error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("TaskError:"), ended.stderr
    assert ended.stdout.count("\n") == 1


def test_memory_that_runs_out_is_one_line(gpu: Compute) -> None:
    def greedy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return outputs.sum() + torch.empty(2**50, device=outputs.device).sum()

    with pytest.raises(TaskError, match="out of memory"):
        build_learner(small_task(loss=greedy), "local", rank=0, seed=0, compute=gpu).train(0)


def test_private_steps_are_those_of_the_cpu() -> None:
    found = []
    make: Callable[[], Compute]
    for make in (lambda: HOST, lambda: Compute(find_device("cuda", 0))):
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.rand(30, 1, 8, 8), torch.randint(10, (30,)))
        task, compute = Task(DigitsNet(), (), data, data), make()
        parameters = split(task.model, (), "model")
        task.model.to(compute.device)
        peer = Trainer(task, parameters, Hyperparameters(), rank=0, seed=0, compute=compute)
        rule = PrivateGradient(ClippedSum(0.5, 0.0, 1.0, 30), 7)
        peer.fit(peer.model, epochs=3, lr=0.5, gradient=rule)
        found.append(peer.model.data.cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
