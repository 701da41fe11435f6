"""Division of samples and groups among peers, by every scheme."""

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import ConfigurationError, PartitionError
from dpeer.training import partition
from dpeer.training.data.partitions import deal_groups, parse, partition_pools
from dpeer.training.settings import TestSplit
from tests.error_texts import refused

LABELS = np.repeat(np.arange(10), 150)

specs = st.sampled_from(
    [
        "dirichlet:0.1", "dirichlet:0.3", "dirichlet:10", "pathological:2", "pathological:7", "pathological-sampled:2",
        "pathological-sampled:7", "iid",
    ]
)  # fmt: skip
seeds = st.integers(0, 2**32)


@settings(max_examples=60, deadline=None)
@given(spec=specs, seed=seeds, size=st.integers(1, 12))
def test_every_sample_is_dealt_at_most_once_and_no_part_is_too_small(spec: str, seed: int, size: int) -> None:
    parts = partition(LABELS, size, spec, seed)
    assert len(parts) == size
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert min(map(len, parts)) >= 10
    assert all((np.diff(part) > 0).all() for part in parts)
    classes = int(spec.partition(":")[2]) if spec.startswith("pathological") else 10
    if spec.startswith("pathological-sampled"):
        assert len(together) == 150 * len(np.unique(LABELS[together]))
    elif size * classes >= 10:
        assert len(together) == len(LABELS)
    if spec == "iid":
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@settings(max_examples=60, deadline=None)
@given(spec=specs, seed=seeds, size=st.integers(2, 8))
def test_test_labels_follow_the_training_proportions(spec: str, seed: int, size: int) -> None:
    test_labels = np.repeat(np.arange(10), 40)
    train, test = partition_pools(LABELS, test_labels, size, spec, seed)
    assert len(np.unique(np.concatenate(test))) == sum(map(len, test))
    for mine, held_out in zip(train, test, strict=True):
        assert len(held_out) >= 2
        trained = np.bincount(LABELS[mine], minlength=10)
        tested = np.bincount(test_labels[held_out], minlength=10)
        assert (np.abs(tested - trained * 40 / 150) <= 1).all()
        assert not tested[trained == 0].any()


def test_a_division_depends_on_the_seed_alone() -> None:
    np.random.seed(1)
    first = partition(LABELS, 8, "dirichlet:0.3", 5)
    state = np.random.get_state()[1]
    np.random.seed(2)
    again = partition(torch.tensor(LABELS), 8, "dirichlet:0.3", 5)
    words = partition([f"class {c}" for c in LABELS], 8, "dirichlet:0.3", 5)
    for a, b, c in zip(first, again, words, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
    other = partition(LABELS, 8, "dirichlet:0.3", 6)
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    np.random.seed(1)
    assert np.array_equal(np.random.get_state()[1], state)


def test_too_few_test_samples_trigger_a_redraw() -> None:
    """Drawn so that the first draw leaves a peer one test sample for some seed, and never in the result."""
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 10, 600), rng.integers(0, 10, 40)

    def least(minimum: int) -> int:
        pools = [partition_pools(train, test, 6, "dirichlet:0.3", n, minimum_test=minimum)[1] for n in range(30)]
        return min(len(part) for parts in pools for part in parts)

    assert least(0) < 2 <= least(2)


@settings(max_examples=40, deadline=None)
@given(
    seed=seeds, size=st.integers(1, 40), concentration=st.sampled_from(["1e-320", "1e-9", "0.1", "1", "100", "1e300"])
)
def test_dirichlet_equal_gives_equal_sizes(seed: int, size: int, concentration: str) -> None:
    """Whatever the concentration: each sample once, and less than one a peer is left over."""
    parts = partition(LABELS, size, f"dirichlet-equal:{concentration}", seed)
    assert {len(part) for part in parts} == {len(LABELS) // size}
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)


@pytest.mark.parametrize("concentration", [0.1, 1.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_dirichlet_equal_follows_the_distribution(concentration: float) -> None:
    """The mean of sum p^2 over ten classes is (A + 1) / (10 A + 1), a little less because classes are used up.

    Of n drawn samples the sum of squares is too large by (1 - sum p^2) / n.
    """
    labels = np.repeat(np.arange(10), 4000)
    parts = [part for seed in range(2) for part in partition(labels, 800, f"dirichlet-equal:{concentration}", seed)]
    shares = np.stack([np.bincount(labels[part], minlength=10) for part in parts]) / 50
    found = ((shares**2).sum(axis=1) - 1 / 50) / (1 - 1 / 50)
    assert found.mean() == pytest.approx((concentration + 1) / (10 * concentration + 1), rel=0.08)
    assert shares.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=1e-9)


@pytest.mark.parametrize("concentration", [0.3, 1.0])
def test_dirichlet_follows_the_distribution(concentration: float) -> None:
    """Each class over eight peers: the mean of sum p^2 is (A + 1) / (8 A + 1), a little less without small peers."""
    found = []
    for seed in range(60):
        parts = partition(LABELS, 8, f"dirichlet:{concentration}", seed, minimum=0)
        shares = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts]) / 150
        found.append((shares**2).sum(axis=0).mean())
    assert np.mean(found) == pytest.approx((concentration + 1) / (8 * concentration + 1), rel=0.05)


@pytest.mark.parametrize(
    "spec", ["dirichlet-equal:0.3", "dirichlet:1", "pathological:2", "pathological-sampled:2", "iid"]
)
def test_shared_test_samples(spec: str) -> None:
    """Each peer's test classes are those of its training, a fifth as many, drawn from the whole pool."""
    train, test = np.repeat(np.arange(10), 2000), np.tile(np.arange(10), 400)
    mine, theirs = partition_pools(train, test, 40, spec, 0, test_split="shared")
    for trained, tested in zip(mine, theirs, strict=True):
        assert len(np.unique(tested)) == len(tested)
        assert (np.diff(tested) > 0).all()
        wanted = np.bincount(train[trained], minlength=10) / 5
        drawn = np.bincount(test[tested], minlength=10)
        assert (np.abs(drawn - wanted) < 1).all()
        assert not drawn[wanted == 0].any()
    apart = partition_pools(train, test, 40, spec, 0)[0]
    assert all(np.array_equal(a, b) for a, b in zip(mine, apart, strict=True))


def test_a_class_of_one_pool_alone_is_not_tested() -> None:
    """What no peer trains on is tested by none; what none can be tested on is divided all the same."""
    train, test = np.repeat([0, 2, 3], 100), np.repeat([0, 1, 3], 40)
    splits: tuple[TestSplit, ...] = ("disjoint", "shared")
    for split in splits:
        mine, theirs = partition_pools(train, test, 4, "iid", 0, test_split=split)
        assert {int(label) for part in theirs for label in test[part]} == {0, 3}
        assert {int(label) for part in mine for label in train[part]} == {0, 2, 3}


@pytest.mark.parametrize(
    ("spec", "digests"),
    [
        ("dirichlet:0.3", "499f53c19238ecea fec693de6c954659"),
        ("dirichlet-equal:0.3", "2d1f7d9a6ad00113 508557b52141a614"),
        ("pathological:2", "74e1522a962ea510 f4360d2be1bd0289"),
        ("pathological-sampled:2", "7cc3ce9024f13095 ebb86c1300272831"),
        ("iid", "b9990aaa8cb33169 e67f36b01fab76ea"),
    ],
)
def test_parts_stay_as_they_were(spec: str, digests: str) -> None:
    """Results of an earlier version can be repeated with this one."""
    train, test = (np.random.default_rng(seed).integers(0, 10, count) for seed, count in ((0, 1500), (1, 400)))

    def digest(parts: list[Any]) -> str:
        return hashlib.sha256(b"".join(part.astype(np.int64).tobytes() + b"|" for part in parts)).hexdigest()[:16]

    alone, both = partition(train, 8, spec, 0), partition_pools(train, test, 8, spec, 0)
    assert f"{digest(alone)} {digest([*both[0], *both[1]])}" == digests


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 12), classes=st.integers(1, 10))
def test_peers_hold_as_many_classes_as_a_scheme_names(seed: int, size: int, classes: int) -> None:
    """Balanced, a class goes to nearly as many peers as another; sampled, the holders of one divide it equally."""
    parts = partition(LABELS, size, f"pathological:{classes}", seed)
    held = np.stack([np.bincount(LABELS[part], minlength=10) > 0 for part in parts])
    assert (held.sum(axis=1) == classes).all()
    assert held.sum(axis=0).max() - held.sum(axis=0).min() <= 1
    parts = partition(LABELS, size, f"pathological-sampled:{classes}", seed)
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
    assert ((counts > 0).sum(axis=1) == classes).all()
    for column in counts.T:
        mine = column[column > 0]
        assert mine.sum() in (0, 150)
        assert not len(mine) or mine.max() - mine.min() <= 1


@pytest.mark.parametrize("classes", [2, pytest.param(5, marks=pytest.mark.long)])
def test_sampled_classes_are_drawn_by_each_peer_for_itself(classes: int) -> None:
    """What follows from independent draws without replacement, by their formulas; none of it holds where balanced.

    A peer has a class with chance p = C / 10, so of six peers Bin(6, p) have it, and none with chance (1 - p)^6; two
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


@settings(max_examples=60, deadline=None)
@given(seed=seeds, groups=st.integers(1, 40), size=st.integers(1, 40))
def test_groups_are_dealt_whole_in_nearly_equal_numbers(seed: int, groups: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(np.concatenate([np.arange(groups), rng.integers(0, groups, 200)])) * 3 + 5
    if groups < size:
        with pytest.raises(PartitionError):
            deal_groups(numbers, size, "writer", seed)
        return
    parts = deal_groups(numbers, size, "writer", seed)
    assert len(parts) == size
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(numbers)))
    held = [set(numbers[part].tolist()) for part in parts]
    assert sum(map(len, held)) == groups
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


def test_one_group_each_is_in_the_order_of_their_names_and_more_by_the_seed() -> None:
    """Rank r is the r-th writer, whatever the seed: what one knows of a writer stays with a rank."""
    for seed in range(3):
        parts = deal_groups(np.array(["c", "a", "b", "a"]), 3, "writer", seed)
        assert [part.tolist() for part in parts] == [[1, 3], [2], [0]]
    numbers = np.repeat(np.arange(12), 3)
    first, same, other = (np.concatenate(deal_groups(numbers, 3, "writer", seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("count", "size", "spec", "fragment"),
    [
        *(
            (1500, 4, spec, f"partition '{spec}'")
            for spec in ("dirichlet", "dirichlet:nan", "pathological:2.5", "iid:3", "pathological:11", "writer")
        ),
        (1500, 4, f"pathological:1{'0' * 400}", "takes a whole number of classes"),
        (1500, 4, "dirichle:0.3", "unknown partition 'dirichle': did you mean 'dirichlet:0.3'?"),
        (5, 6, "iid", "5 samples can be divided among 1 to 5 peers"),
        (50, 6, "iid", "in 100 draws some peer always got fewer than 10 of the 50 samples"),
        (1500, 100, "dirichlet:0.01", "partition 'dirichlet:0.01' with size 100"),
    ],
)
def test_a_division_that_cannot_be(count: int, size: int, spec: str, fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        partition(LABELS[:count], size, spec, 0)


def test_other_labels_and_a_number_of_writers_are_refused() -> None:
    with refused(PartitionError, "these have shape (3, 3)"):
        partition(np.zeros((3, 3)), 1, "iid", 0)
    with refused(PartitionError, "partition 'writer:3'"):
        parse("writer:3")
