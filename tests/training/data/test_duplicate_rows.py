"""Rows with equal inputs: all trained on, or all held out, and counted."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.training import Choices, forget, load_task
from dpeer.training.data.duplicate_rows import count_equal, digests, numbered
from dpeer.training.data.partitions import hold_out, hold_out_alike
from dpeer.training.data.pool import Data, Pool
from dpeer.training.tasks.pooled import pooled_task


def test_equal_rows_have_one_digest_and_number() -> None:
    found = digests(np.array([[0.0, 1.0], [2.0, 1.0], [-0.0, 1.0], [2.0, 1.5], [np.nan, 1.0], [np.nan, 1.0]]))
    assert numbered(found).tolist() == [0, 1, 0, 2, 3, 3]
    assert count_equal(found) == 4
    assert count_equal(digests(np.arange(5))) == 0


@pytest.mark.parametrize("grouped", [False, True])
def test_without_equal_samples_the_same_are_held_out_as_before(grouped: bool) -> None:
    strata, stretches = np.arange(300) % 3, np.arange(300)[::-1] // 4 if grouped else None
    for seed in range(5):
        found = hold_out_alike(strata, stretches, np.arange(300), 0.2, np.random.default_rng(seed))
        assert np.array_equal(found, hold_out(strata, stretches, 0.2, np.random.default_rng(seed)))


def test_equal_samples_are_together_and_their_groups_with_them() -> None:
    """Groups of three rows; of every tenth group the first row is also in the next group."""
    groups = np.arange(300) // 3
    numbers = np.arange(300)
    numbers[30::30] = numbers[27:-3:30]
    for seed in range(20):
        held = hold_out_alike(np.zeros(300, np.int64), groups, numbers, 0.2, np.random.default_rng(seed))
        left = np.delete(np.arange(300), held)
        assert not {*groups[held].tolist()} & {*groups[left].tolist()}
        assert not {*numbers[held].tolist()} & {*numbers[left].tolist()}
        assert 40 <= len(held) <= 80


def test_what_most_samples_hang_on_is_trained_on() -> None:
    numbers = np.r_[np.zeros(60, np.int64), np.arange(1, 41)]
    for seed in range(20):
        held = hold_out_alike(np.zeros(100, np.int64), None, numbers, 0.2, np.random.default_rng(seed))
        assert numbers[held].min() > 0
        assert len(held) == 8


def test_inputs_of_a_few_values_are_divided_sample_by_sample() -> None:
    numbers = np.arange(200) % 4
    held = hold_out_alike(np.zeros(200, np.int64), None, numbers, 0.2, np.random.default_rng(0))
    assert len(held) == 40
    assert {*numbers[held].tolist()} == {0, 1, 2, 3}


def twice(path: Path, *, group: str | None = None) -> dict[str, Any]:
    """A table of noise, with classes that are noise, too; every row stands there twice, a copy with another class."""
    rows = np.random.default_rng(0).normal(size=(100, 2)).round(6)
    lines = [
        f"{a},{b},p{number // 2 if copy == 0 else (number + 1) // 2},{(number + copy) % 2}"
        for copy in range(2)
        for number, (a, b) in enumerate(rows)
    ]
    path.write_text("\n".join(["a,b,who,sick", *lines]) + "\n")
    return {"path": str(path), "target": "sick", "classes": ["0", "1"], "group": group, "columns": ["a", "b"]}


def parts(task: Any) -> list[set[tuple[float, ...]]]:
    return [{tuple(row) for row in part.tensors[0].tolist()} for part in (task.train, task.validation, task.test)]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("partition", ["own", "iid"])
def test_copies_in_a_table_are_on_one_side(tmp_path: Path, apart: bool, partition: str) -> None:
    forget()
    choices = Choices(partition=partition, validation=0.25, apart=apart and partition == "own", standardize=False)
    task = load_task("csv", 1, 2, 0, twice(tmp_path / "t.csv"), choices)
    train, validation, test = parts(task)
    assert not train & test
    assert not train & validation
    assert not validation & test
    if partition == "own":
        assert "200 of 200 rows equal another row in inputs: equal ones are all trained on, or all held out" in [
            *task.remarks
        ]
        assert len(task.train) == 2 * len(train)


def test_copies_in_two_patients_bring_their_groups_to_one_side_or_are_said(tmp_path: Path) -> None:
    """Each patient shares a row with the next, so all hang together: whole groups are all that can be kept."""
    forget()
    options = twice(tmp_path / "t.csv", group="who")
    task = load_task("csv", 0, 2, 0, options, Choices(partition="own", standardize=False))
    train, test = ({tuple(row) for row in part.tensors[0].tolist()} for part in (task.train, task.test))
    crossing = sum(tuple(row) in train for row in task.test.tensors[0].tolist())
    assert train & test
    (message,) = (line for line in task.remarks if "equal another" in line)
    assert message == (
        f"WARNING: 200 of 200 rows equal another row in inputs: {crossing} of {len(task.test)} test rows equal one "
        "that is trained on, so the accuracy may be too high; remove rows that are copies"
    )


def test_equal_images_are_counted_as_images() -> None:
    images = torch.arange(100, dtype=torch.uint8).reshape(100, 1, 1, 1).repeat(1, 3, 8, 8)
    images[1] = images[0]
    data = Data(Pool(images, torch.arange(100) % 2), None, 2, pixels=True)
    task = pooled_task(data, 0, 1, 0, Choices(partition="own"), model="cnn")
    assert [*task.remarks] == [
        "2 of 100 images equal another image in inputs: equal ones are all trained on, or all held out"
    ]
    assert Counter(len(part) for part in (task.train, task.test)) == Counter([80, 20])


def test_an_accuracy_on_noise_is_not_that_of_copies() -> None:
    """The classes follow from nothing: who has seen the copies of the test rows knows them all the same."""
    rows = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(0, 2, (120,), generator=torch.Generator().manual_seed(1))
    data = Data(Pool(rows.repeat(3, 1), targets.repeat(3)), None, 2)
    task = pooled_task(data, 0, 1, 0, Choices(partition="own"), model="mlp")
    (known, seen), (asked, truth) = task.train.tensors, task.test.tensors
    nearest = torch.cdist(asked, known).argmin(dim=1)
    assert 0.2 < float((seen[nearest] == truth).float().mean()) < 0.8
