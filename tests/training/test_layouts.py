"""Tensors of unusual layout in a task's model: taken, or refused in one line that says what would be right."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from tests.training.small import small_task


class Net(nn.Module):
    """A body, a head `fc`, and one more tensor."""

    def __init__(self, **tensors: Any) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)
        for name, tensor in tensors.items():
            if isinstance(tensor, nn.Parameter):
                setattr(self, name, tensor)
            else:
                self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(torch.relu(self.body(x)))
        return out


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3, dtype=torch.complex64),
        torch.ones(3, dtype=torch.bfloat16),
        torch.empty(0, 4),
        torch.arange(6.0).view(2, 3).T,
    ],
    ids=["complex", "bfloat16", "empty", "transposed"],
)
def test_dense_tensors_of_any_type_are_trained_beside_and_saved(tmp_path: Path, tensor: Tensor) -> None:
    first, second = (learner(small_task(model=Net(extra=tensor.clone()))) for _ in range(2))
    first.train(0)
    first.save(tmp_path)
    second.load(tmp_path)
    first.write_model(tmp_path / "model.safetensors")
    assert torch.equal(second.trainer.module.extra, tensor)


class Words(nn.Module):
    """An embedding, averaged."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.words, self.fc = nn.Embedding(12, 4, sparse=sparse), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.words(x).mean(1))
        return out


def of_words(*, sparse: bool, **changes: Any) -> TorchLearner:
    torch.manual_seed(3)
    model, words = Words(sparse), torch.randint(12, (40, 5))
    data = TensorDataset(words, words[:, 0] % 3)
    return learner(small_task(model=model, train=data, test=data), **changes)


def learner(task: Task, **changes: Any) -> TorchLearner:
    return build_learner(task, "dfedsmdc", Hyperparameters(body_epochs=1, batch_size=16), rank=0, seed=0, **changes)


def test_sparse_gradients_train_as_dense_ones_do() -> None:
    sparse, dense = (of_words(sparse=sparse) for sparse in (True, False))
    before = dense.body.clone()
    assert sparse.train(0) == pytest.approx(dense.train(0))
    torch.testing.assert_close(sparse.body, dense.body)
    assert not torch.equal(dense.body, before)
