"""Per-example gradients on a GPU are those of the CPU."""

from collections.abc import Callable

import pytest
import torch

from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.device import HOST, Compute, find_device
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.models.small import DigitsNet
from dpeer.training.split import split

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device, or a torch without CUDA"),
]


def test_steps_are_those_of_the_cpu() -> None:
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
