from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from dpeer.training import Hyperparameters, Task, build_learner
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


def test_orders_do_not_touch_the_global_generators() -> None:
    state = torch.get_rng_state()
    batch_order(10, 0, 0, 0, "body", 0)
    assert torch.equal(state, torch.get_rng_state())


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


@pytest.mark.parametrize(("batch_size", "sizes"), [(4, [4, 4, 2]), (10, [10]), (99, [10])])
def test_short_last_batch_is_kept(batch_size: int, sizes: list[int]) -> None:
    seen: list[list[int]] = []

    def collate(batch: list[Any]) -> Any:
        x, y = zip(*batch, strict=True)
        seen.append([int(v) for v in y])
        return torch.stack(x), torch.stack(y) * 0

    task = Task(
        model=nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 2)), head=("1",), train=PAIRS, test=PAIRS, collate=collate
    )
    learner = build_learner(task, "local", Hyperparameters(body_epochs=1, batch_size=batch_size), rank=0, seed=0)
    learner.train(0)
    assert [len(batch) for batch in seen] == sizes
    assert sorted(label for batch in seen for label in batch) == list(range(10))


class Two(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b


def test_structured_inputs_fill_the_models_arguments() -> None:
    a, b = torch.tensor(3.0), torch.tensor(1.0)
    assert predict(Two(), (a, b)) == predict(Two(), [a, b]) == predict(Two(), {"b": b, "a": a}) == 2
