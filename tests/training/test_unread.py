"""A data set as it was before it was read."""

import threading
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from dpeer.training.unread import unread


class Counting(Dataset[Any]):
    """Counts what it reads, keeps some of it, and has a part that does likewise."""

    def __init__(self, part: Any = None) -> None:
        self.rows, self.read, self.kept, self.part = torch.arange(6), 0, dict[int, Any](), part
        self.lock, self.chain, self.long = threading.Lock(), [part], [0] * 20_000

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> Any:
        self.read += 1
        self.kept[number] = self.rows[number]
        return self.kept[number] if self.part is None else self.part[number]


def test_what_reading_changes_is_the_copys_own_and_all_else_is_shared() -> None:
    data = Counting(Counting())
    fresh = unread(data)
    fresh[3], fresh[4]
    assert (data.read, data.kept, data.part.read) == (0, {}, 0)
    assert (fresh.read, sorted(fresh.kept), fresh.part.read) == (2, [3, 4], 2)
    assert fresh.rows is data.rows
    assert fresh.lock is data.lock
    assert fresh.long is data.long
    assert fresh.chain[0] is fresh.part
    assert fresh.part is not data.part


def test_data_sets_within_others_are_copied_too() -> None:
    one, other = Counting(), Counting()
    fresh = unread(Subset(ConcatDataset([one, other]), [7, 1]))
    fresh[0], fresh[1]
    assert (one.read, other.read) == (0, 0)


class Closing(Counting):
    def __del__(self) -> None:
        self.closed = True


class Sealed(Counting):
    def __copy__(self) -> "Sealed":
        raise TypeError("an open file")


def test_where_no_copy_can_be_there_is_none() -> None:
    assert unread(TensorDataset(torch.zeros(3), torch.zeros(3))) is None
    assert unread(Closing()) is None
    assert unread(Sealed()) is None
    assert unread([(1, 2)] * 20_000) is None
