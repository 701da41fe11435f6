from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from dpeer.training.batch_loader import Batches, batch_order, predict

PAIRS = TensorDataset(torch.arange(10.0).view(10, 1), torch.arange(10))


class Plain(Dataset[Any]):
    """The same data, but as an ordinary dataset."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index]


def test_orders_differ_in_every_component_and_are_permutations() -> None:
    base = (50, 1, 2, 3, "head", 4)
    variants = [(50, 9, 2, 3, "head", 4), (50, 1, 9, 3, "head", 4), (50, 1, 2, 9, "head", 4),
                (50, 1, 2, 3, "body", 4), (50, 1, 2, 3, "head", 9)]  # fmt: skip
    order = batch_order(*base)
    assert torch.equal(order, batch_order(*base))
    assert sorted(order.tolist()) == list(range(50))
    assert all(not torch.equal(order, batch_order(*other)) for other in variants)


@pytest.mark.parametrize(
    "dataset", [PAIRS, Plain(PAIRS), Subset(Subset(PAIRS, range(10)), list(range(10))), Plain(Subset(PAIRS, range(10)))]
)
def test_gathering_equals_collating(dataset: Any) -> None:
    inputs, targets = Batches("train", dataset, None).take(torch.tensor([3, 1, 7]))
    assert inputs.tolist() == [[3.0], [1.0], [7.0]]
    assert targets.tolist() == [3, 1, 7]


def test_subset_of_subset_picks_the_right_rows() -> None:
    nested = Subset(Subset(PAIRS, [9, 8, 7, 6]), [1, 3])
    assert Batches("train", nested, None).take(torch.tensor([0, 1]))[1].tolist() == [8, 6]


def test_a_derived_tensor_dataset_keeps_its_own_items() -> None:
    class Negated(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            return -x, y

    inputs, _ = Batches("train", Negated(*PAIRS.tensors), None).take(torch.tensor([2]))
    assert inputs.tolist() == [[-2.0]]


class Two(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b


def test_structured_inputs_fill_the_models_arguments() -> None:
    a, b = torch.tensor(3.0), torch.tensor(1.0)
    assert predict(Two(), (a, b)) == predict(Two(), [a, b]) == predict(Two(), {"b": b, "a": a}) == 2
