"""Divisions that give each peer so many classes, balanced or sampled."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.training import Choices, load_task, partition
from dpeer.training.data.partitions import remarks

LABELS = np.repeat(np.arange(10), 150)

seeds = st.integers(0, 2**32)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 12), classes=st.integers(1, 10))
def test_pathological_holds_so_many_classes_evenly(seed: int, size: int, classes: int) -> None:
    parts = partition(LABELS, size, f"pathological:{classes}", seed)
    held = [set(LABELS[part].tolist()) for part in parts]
    assert all(len(mine) == classes for mine in held)
    holders = [sum(number in mine for mine in held) for number in range(10)]
    assert max(holders) - min(holders) <= 1


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 12), classes=st.integers(1, 10))
def test_sampled_classes_are_divided_equally_among_who_drew_them(seed: int, size: int, classes: int) -> None:
    parts = partition(LABELS, size, f"pathological-sampled:{classes}", seed)
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
    assert ((counts > 0).sum(axis=1) == classes).all()
    for column in counts.T:
        mine = column[column > 0]
        assert mine.sum() in (0, 150)
        assert not len(mine) or mine.max() - mine.min() <= 1


@pytest.mark.parametrize("classes", [2, 5])
def test_sampled_classes_are_drawn_by_each_peer_for_itself(classes: int) -> None:
    """What follows from independent draws without replacement, by their formulas; none of it holds where balanced.

    A peer has a class with chance p = C / 10, so of six peers Bin(6, p) have it, and nobody with chance (1 - p)^6; two
    of them have C^2 / 10 classes in common.
    """
    p, size, draws = classes / 10, 6, 400
    held = np.zeros((draws, size, 10))
    for seed in range(draws):
        for rank, part in enumerate(partition(LABELS, size, f"pathological-sampled:{classes}", seed, minimum=0)):
            held[seed, rank, np.unique(LABELS[part])] = 1
    holders = held.sum(axis=1)
    assert held.mean(axis=(0, 1)) == pytest.approx(np.full(10, p), abs=0.05)
    assert held.mean(axis=(0, 2)) == pytest.approx(np.full(size, p), abs=1e-9)
    assert holders.var() == pytest.approx(size * p * (1 - p), rel=0.08)
    assert (holders == 0).mean() == pytest.approx((1 - p) ** size, abs=0.02)
    assert (held[:, 0] * held[:, 5]).sum(axis=1).mean() == pytest.approx(classes**2 / 10, abs=0.12)


def test_what_is_said_of_a_division_by_classes() -> None:
    """Three peers, four classes: what two pools and what one pool leave unused."""
    train, test = np.repeat([0, 1, 2, 3], [400, 300, 200, 1000]), np.repeat([0, 1, 2, 3], [40, 30, 20, 100])
    halves = [np.arange(0, 200), np.arange(200, 400)], [np.arange(0, 20), np.arange(20, 40)]
    mine = [(halves[0][0], halves[1][0]), (halves[0][1], halves[1][1]), (np.arange(400, 700), np.arange(40, 70))]
    assert remarks("pathological-sampled:1", [train, test], mine) == (
        "partition pathological-sampled:1: each peer's classes were drawn at random, and a class goes to 0 to 2 peers",
        "no peer holds classes 2, 3: their 1,200 training and 120 test samples are not used",
    )
    three = np.arange(900)
    assert remarks("pathological:1", [train[three]], [(part,) for part in np.split(three, [400, 700])]) == (
        "partition pathological:1 is balanced: a class goes to 1 peer; papers draw each peer's classes at random: "
        "pathological-sampled:1",
    )
    assert remarks("pathological:1", [train], [(part,) for part in np.split(three, [400, 700])])[1:] == (
        "no peer holds class 3: its 1,000 samples are not used",
    )
    for spec in ("iid", "dirichlet:0.3", "dirichlet-equal:0.3", "writer", "own"):
        assert remarks(spec, [train, test], mine) == ()


def test_many_classes_that_nobody_holds_are_not_all_listed() -> None:
    labels = np.repeat(np.arange(12), 20)
    (_, unused) = remarks("pathological-sampled:2", [labels], [(np.arange(40),)])
    assert unused == "no peer holds classes 2, 3, 4, 5, 6, 7, 8, 9 and 2 others: their 200 samples are not used"


@pytest.mark.parametrize("spec", ["pathological:2", "pathological-sampled:2"])
def test_a_task_says_how_its_classes_were_dealt(spec: str) -> None:
    tasks = [load_task("digits", rank, 4, 1, choices=Choices(partition=spec, validation=0.1)) for rank in range(4)]
    assert len({tuple(task.remarks) for task in tasks}) == 1
    held = np.stack([np.bincount(task.train.tensors[1].numpy(), minlength=10) > 0 for task in tasks]).sum(axis=0)
    assert f"a class goes to {held.min()} to {held.max()} peers" in tasks[0].remarks[0]
    unused = np.flatnonzero(held == 0).tolist()
    assert len(unused) >= 2, "four peers have at most eight classes"
    assert tasks[0].remarks[1].startswith(f"no peer holds classes {', '.join(map(str, unused))}: their ")
