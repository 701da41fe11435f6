"""Poisson-sampled batches: their sizes, whole groups, augmentation by example."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dpeer.privacy import randomness
from dpeer.privacy.randomness import KEY_BYTES, Keystream
from dpeer.training.batch_loader import Batch, Batches
from dpeer.training.dpsgd.private_minibatches import PoissonBatches
from dpeer.training.task import Augment, Task

N = 40


class Known(Keystream):
    """A keystream under a known key."""

    def __init__(self) -> None:
        super().__init__()
        self._key = bytearray((4).to_bytes(KEY_BYTES, "big"))


def sampled(rate: float, groups: np.ndarray | None = None, augment: Augment | None = None) -> PoissonBatches:
    data = Batches("train", TensorDataset(torch.arange(N)[:, None] * torch.ones(1, 3), torch.arange(N)), None)
    return PoissonBatches(data, augment, rate, groups)


def drawn(batches: PoissonBatches, number: int) -> list[Batch]:
    return [batches.draw() for _ in range(number)]


def test_batches_are_of_single_examples_and_some_are_empty() -> None:
    found = drawn(sampled(0.02), 1000)
    sizes = np.array([batch.size for batch in found])
    assert sizes.mean() == pytest.approx(0.8, abs=0.15)
    assert sizes.var() == pytest.approx(0.8, abs=0.25)
    assert 300 < (sizes == 0).sum() < 600
    for batch in found:
        assert batch.units is None
        if not batch.size:
            assert batch.inputs is None
            continue
        assert len(batch.targets) == batch.size == len(set(batch.targets.tolist()))
        assert torch.equal(batch.inputs[:, 0].long(), batch.targets)


def test_what_a_task_says_of_whose_examples_are_is_what_is_drawn_together() -> None:
    patients = [f"patient {example % 8}" for example in range(N)]
    data = TensorDataset(torch.arange(N)[:, None] * torch.ones(1, 3), torch.arange(N))
    task = Task(model=torch.nn.Linear(3, 2), head=(), train=data, test=data, groups=patients)
    found = PoissonBatches(Batches("train", data, None), None, 0.5, task.groups)
    assert found.units == 8
    for batch in drawn(found, 40):
        drawn_of = {target % 8 for target in batch.targets.tolist()} if batch.size else set()
        assert batch.size == 5 * len(drawn_of), "a patient's five examples or none"


def test_no_two_draws_are_alike() -> None:
    one, other = ([batch.targets for batch in drawn(sampled(0.5), 8)] for _ in range(2))
    assert [x.tolist() for x in one] != [x.tolist() for x in other]


def test_a_known_key_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "Keystream", Known)
    one, other = ([batch.targets.tolist() for batch in drawn(sampled(0.5), 8)] for _ in range(2))
    assert one == other


@pytest.mark.parametrize("names", [np.array([3, 1, 1, 2] * 10), np.array(["b", "a", "a", "c"] * 10)])
def test_groups_come_whole(names: np.ndarray) -> None:
    batches = sampled(0.5, groups=names)
    assert batches.units == 3
    seen: set[tuple[str, ...]] = set()
    for batch in drawn(batches, 60):
        if not batch.size:
            seen.add(())
            continue
        whose = names[batch.targets.numpy()]
        present = np.unique(whose)
        assert all((whose == name).sum() == (names == name).sum() for name in present)
        assert batch.units.tolist() == np.searchsorted(present, whose).tolist()
        assert (batch.units.diff() >= 0).all()
        seen.add(tuple(str(name) for name in present))
    assert len(seen) > 4


def test_each_example_is_augmented_by_itself_and_not_from_the_seed() -> None:
    shapes: list[tuple[int, ...]] = []

    def augment(inputs: Tensor, generator: np.random.Generator) -> Tensor:
        shapes.append(tuple(inputs.shape))
        return inputs + float(generator.random())

    found = [sampled(1.0, augment=augment).draw().inputs for _ in range(2)]
    assert shapes == [(1, 3)] * (2 * N)
    moved = [(inputs[:, 0] - torch.arange(N)) for inputs in found]
    assert len(set(moved[0].tolist())) > N / 2
    assert not torch.equal(moved[0], moved[1])
    assert ((moved[0] >= 0) & (moved[0] < 1)).all()
