"""Tensors of unusual layout in a task's model: taken, or refused in one line that says what would be right."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner

Make = Callable[..., Task]


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


def sparse_csr() -> Tensor:
    return torch.eye(6).to_sparse_csr()


def quantized() -> Tensor:
    return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


def nested() -> Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def of_inference() -> Tensor:
    with torch.inference_mode():
        return torch.ones(4)


def quietly(make: Callable[[], Tensor]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that these are new, or old
        return make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.eye(6).to_sparse(), "'extra' is a sparse coo tensor.* must be dense: .*to_sparse.* in forward"),
        (sparse_csr, "'extra' is a sparse csr tensor.*keep it as an attribute that is no buffer"),
        (quantized, "'extra' is a quantized tensor.*keep it as float32, and quantize it in forward"),
        (nested, "'extra' is a nested tensor.*pad it"),
        (of_inference, r"'extra' was made in inference mode.*outside torch\.inference_mode\(\)"),
    ],
    ids=["coo", "csr", "quantized", "nested", "inference"],
)
def test_a_buffer_that_is_not_dense_is_refused(make_task: Make, make: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(TaskError, match="buffer " + message) as caught:
        make_task(model=Net(extra=quietly(make)))
    assert "\n" not in str(caught.value)


def test_a_parameter_that_is_not_dense_is_refused(make_task: Make) -> None:
    with pytest.raises(TaskError, match="parameter 'extra' is a sparse coo tensor"):
        make_task(model=Net(extra=nn.Parameter(torch.eye(6).to_sparse())))
    with torch.inference_mode():
        model = Net()
    with pytest.raises(TaskError, match=r"parameter 'body\.weight' was made in inference mode"):
        make_task(model=model)


def test_a_compiled_model_is_given_as_itself(make_task: Make) -> None:
    compiled: Any = torch.compile(Net(), backend="eager")
    with pytest.raises(TaskError, match=r"is torch\.compile\(Net\).*give the Net itself, .*with model\.compile\(\)"):
        make_task(model=compiled, head=("_orig_mod.fc",))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3, dtype=torch.complex64),
        torch.ones(3, dtype=torch.int8),
        torch.ones(3, dtype=torch.bfloat16),
        torch.tensor(True),
        torch.empty(0, 4),
        torch.arange(6.0).view(2, 3).T,
        nn.Parameter(torch.ones(2, dtype=torch.complex64), requires_grad=False),
    ],
    ids=["complex", "int8", "bfloat16", "flag", "empty", "transposed", "frozen complex"],
)
def test_dense_tensors_of_any_type_are_trained_beside_and_saved(
    make_task: Make, tmp_path: Path, tensor: Tensor
) -> None:
    first, second = (learner(make_task(model=Net(extra=tensor.clone()))) for _ in range(2))
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


def of_words(make_task: Make, *, sparse: bool, **changes: Any) -> TorchLearner:
    torch.manual_seed(3)
    model, words = Words(sparse), torch.randint(12, (40, 5))
    data = TensorDataset(words, words[:, 0] % 3)
    return learner(make_task(model=model, train=data, test=data), **changes)


def learner(task: Task, **changes: Any) -> TorchLearner:
    return build_learner(task, "dfedsmdc", Hyperparameters(body_epochs=1, batch_size=16), rank=0, seed=0, **changes)


def test_sparse_gradients_train_as_dense_ones_do(make_task: Make) -> None:
    sparse, dense = (of_words(make_task, sparse=sparse) for sparse in (True, False))
    before = dense.body.clone()
    assert sparse.train(0) == pytest.approx(dense.train(0))
    torch.testing.assert_close(sparse.body, dense.body)
    assert not torch.equal(dense.body, before)
