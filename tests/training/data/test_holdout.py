"""Train/test splits: by strata, whole stretches and equal rows, and record by record."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.training import Choices, forget, load_task
from dpeer.training.data.holdout import count_equal, digests, hold_out, hold_out_alike, hold_out_apart, numbered
from dpeer.training.data.pool import Pool

seeds = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(seed=seeds, sizes=st.lists(st.integers(1, 12), min_size=2, max_size=60), share=st.floats(0.01, 0.99))
def test_a_stretch_is_never_parted(seed: int, sizes: list[int], share: float) -> None:
    """Whatever the order of rows; one stretch is held out at least, and one is left; as many as asked."""
    rng = np.random.default_rng(seed)
    stretches = rng.permutation(np.repeat(rng.permutation(1000)[: len(sizes)], sizes))
    held = hold_out(stretches % 3, stretches, share, rng)
    assert (np.diff(held) > 0).all()
    out = set(stretches[held].tolist())
    assert not out & set(np.delete(stretches, held).tolist())
    assert 1 <= len(out) < len(sizes)
    assert abs(len(out) - share * len(sizes)) < 1 or len(out) in (1, len(sizes) - 1)


@settings(max_examples=100, deadline=None)
@given(seed=seeds, counts=st.lists(st.integers(0, 40), min_size=1, max_size=8), share=st.floats(0.05, 0.95))
def test_every_stratum_gives_its_share(seed: int, counts: list[int], share: float) -> None:
    strata = np.repeat(np.arange(len(counts)), counts)
    if len(strata) < 2:
        return
    rng = np.random.default_rng(seed)
    strata = rng.permutation(strata)
    held = hold_out(strata, None, share, rng)
    found = np.bincount(strata[held], minlength=len(counts))
    forced = len(held) in (1, len(strata) - 1)
    assert forced or abs(len(held) - share * len(strata)) < 1
    if not forced:
        assert (np.abs(found - share * np.array(counts)) < 1).all()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_all_stretches_are_equally_likely(share: float) -> None:
    """Neither the first nor the last of a stratum, nor a long stretch, is favored."""
    stretches = np.repeat(np.arange(20), np.arange(1, 21))
    times = np.zeros(20)
    for seed in range(2000):
        held = hold_out(stretches // 10, stretches, share, np.random.default_rng(seed))
        times[np.unique(stretches[held])] += 1
    assert np.abs(times / 2000 - share).max() < 5 * np.sqrt(share * (1 - share) / 2000)


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_two_are_parted_and_one_is_not(share: float) -> None:
    for seed in range(20):
        assert len(hold_out(np.zeros(2, np.int64), None, share, np.random.default_rng(seed))) == 1
        whole = hold_out(np.zeros(5, np.int64), np.full(5, 3), share, np.random.default_rng(seed))
        assert not len(whole)


def test_equal_rows_have_one_digest_and_number() -> None:
    found = digests(np.array([[0.0, 1.0], [2.0, 1.0], [-0.0, 1.0], [2.0, 1.5], [np.nan, 1.0], [np.nan, 1.0]]))
    assert numbered(found).tolist() == [0, 1, 0, 2, 3, 3]
    assert count_equal(found) == 4
    assert count_equal(digests(np.arange(5))) == 0


@pytest.mark.parametrize("grouped", [False, True])
def test_without_equal_samples_the_same_are_held_out(grouped: bool) -> None:
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


def test_a_set_of_most_samples_is_trained_on_and_a_few_values_are_divided() -> None:
    numbers = np.r_[np.zeros(60, np.int64), np.arange(1, 41)]
    for seed in range(20):
        held = hold_out_alike(np.zeros(100, np.int64), None, numbers, 0.2, np.random.default_rng(seed))
        assert numbers[held].min() > 0
        assert len(held) == 8
    numbers = np.arange(200) % 4
    held = hold_out_alike(np.zeros(200, np.int64), None, numbers, 0.2, np.random.default_rng(0))
    assert len(held) == 40
    assert {*numbers[held].tolist()} == {0, 1, 2, 3}


KEY = b"0123456789abcdef"


def names(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_about_that_share_is_held_out_and_each_key_chooses_others() -> None:
    first, second = (set(hold_out_apart(names(10_000), 0.2, key).tolist()) for key in (KEY, b"another"))
    for held in (first, second):
        assert len(held) == pytest.approx(2000, abs=5 * 40)  # five standard deviations
    assert len(first & second) == pytest.approx(400, abs=5 * 20)


def test_one_sample_more_moves_no_other_wherever_it_stands() -> None:
    before = names(500)
    held = {before[row] for row in hold_out_apart(before, 0.3, KEY)}
    for place in (0, 250, 500):
        after = [*before[:place], b"new", *before[place:]]
        assert {after[row] for row in hold_out_apart(after, 0.3, KEY)} - {b"new"} == held


def test_samples_of_one_name_are_held_out_together_however_many_they_are() -> None:
    for name in names(40):
        counts = [len(hold_out_apart([name] * count, 0.5, KEY)) for count in (1, 2, 50)]
        assert counts in ([0, 0, 0], [1, 2, 50])


def test_names_of_samples_are_their_inputs_or_a_group_that_is_not_parted() -> None:
    inputs, targets = torch.tensor([[1.0], [1.0], [2.0], [1.0]]), torch.tensor([0, 1, 0, 0])
    for groups in (None, np.array(["a", "a", "a", "b"])):
        found = Pool(inputs, targets, groups).names(np.arange(4))
        assert found[0] == found[1] == found[3] != found[2]
    for numbers in ([0, 1, 0], [7, 3, 7]):
        pool = Pool(torch.arange(3.0).unsqueeze(1), targets[:3], np.array(["b", "a", "b"]), np.array(numbers))
        assert pool.names(np.arange(3)) == [b"b", b"a", b"b"]
    index = np.arange(256)
    pool = Pool(torch.arange(256, dtype=torch.uint8).reshape(256, 1, 1, 1), torch.zeros(256, dtype=torch.int64))
    assert Pool(*pool.rows(index)).names(index) == pool.names(index), "bytes, and what a model gets of them"


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


def rows_of(part: Any) -> set[tuple[float, ...]]:
    return {tuple(row) for row in part.tensors[0].tolist()}


@pytest.mark.parametrize(("partition", "apart"), [("own", True), ("iid", False)])
def test_copies_in_a_table_are_on_one_side(tmp_path: Path, partition: str, apart: bool) -> None:
    forget()
    choices = Choices(partition=partition, validation=0.25, apart=apart, standardize=False)
    task = load_task("csv", 1, 2, 0, twice(tmp_path / "t.csv"), choices)
    train, validation, test = map(rows_of, (task.train, task.validation, task.test))
    assert not train & test
    assert not train & validation
    assert not validation & test
    if partition == "own":
        assert "200 of 200 rows equal another row in inputs: equal ones are all trained on, or all held out" in [
            *task.remarks
        ]
        assert len(task.train) == 2 * len(train)


def test_copies_in_two_patients_bring_their_groups_to_one_side_or_are_remarked(tmp_path: Path) -> None:
    """Each patient shares a row with the next, so all hang together: whole groups are all that can be kept."""
    forget()
    options = twice(tmp_path / "t.csv", group="who")
    task = load_task("csv", 0, 2, 0, options, Choices(partition="own", standardize=False))
    train = rows_of(task.train)
    crossing = sum(tuple(row) in train for row in task.test.tensors[0].tolist())
    assert crossing
    (message,) = (line for line in task.remarks if "equal another" in line)
    assert message == (
        f"WARNING: 200 of 200 rows equal another row in inputs: {crossing} of {len(task.test)} test rows equal one "
        "that is trained on, so the accuracy may be too high; remove rows that are copies"
    )
