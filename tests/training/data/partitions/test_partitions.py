import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import PartitionError, UnknownName
from dpeer.training import Choices, load_task, partition, partition_pools
from dpeer.training.data.partitions import NATURAL, assign, check_spec
from dpeer.training.settings import TestSplit

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
def test_every_sample_at_most_once_and_nobody_too_small(spec: str, seed: int, size: int) -> None:
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


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=st.integers(1, 30))
def test_iid_parts_are_equal(seed: int, size: int) -> None:
    sizes = [len(part) for part in partition(LABELS, size, "iid", seed)]
    assert max(sizes) - min(sizes) <= 1


def test_dirichlet_gets_more_even_with_a() -> None:
    def spread(spec: str) -> float:
        return float(np.mean([np.std([len(p) for p in partition(LABELS, 8, spec, seed)]) for seed in range(10)]))

    assert spread("dirichlet:0.1") > spread("dirichlet:1") > spread("dirichlet:100")


def test_depends_on_the_seed_alone() -> None:
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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dirichlet:x", "'dirichlet:x': dirichlet takes a positive concentration, such as 'dirichlet:0.3'"),
        ("dirichlet:-1", "positive"),
        ("dirichlet:nan", "positive"),
        ("dirichlet:inf", "positive"),
        ("dirichlet", "'dirichlet:0.3'"),
        ("pathological:0", "whole number"),
        ("pathological:2.5", "whole number"),
        ("pathological:11", "only 10 classes"),
        ("pathological-sampled:11", "'pathological-sampled:11': the data has only 10 classes, so C can be 1 to 10"),
        ("pathological-sampled:0.3", "takes a whole number of classes a peer.*such as 'pathological-sampled:2'"),
        ("pathological-sampled", "'pathological-sampled:2'"),
        ("iid:3", "iid takes no number"),
        ("dirichlet-equal", "dirichlet-equal takes a positive concentration, such as 'dirichlet-equal:0.3'"),
        ("dirichlet-equal:0", "positive"),
        ("pathological:1" + "0" * 400, "whole number"),
        ("writer", "'writer' is for built-in tasks, whose data say whom.*divided by dirichlet:0.3.*deal_groups"),
        ("own", "'own' is for built-in tasks"),
    ],
)
def test_malformed_specs(spec: str, message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        partition(LABELS, 4, spec, 0)


def test_unknown_scheme_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'dirichlet") as caught:
        partition(LABELS, 4, "dirichle:0.3", 0)
    assert "writer" not in str(caught.value)


def test_the_command_line_has_more_schemes() -> None:
    for spec in ("dirichlet-equal:0.3", "pathological:2", "pathological-sampled:2", "iid", *NATURAL, "own"):
        check_spec(spec)
    with pytest.raises(UnknownName, match=r"did you mean 'pathological-sampled:2'\? valid: .*pathological:2, path"):
        check_spec("pathological-sample:2")
    with pytest.raises(UnknownName, match=r"unknown partition 'writr': did you mean 'writer'\? valid: .*iid.* own"):
        check_spec("writr")
    with pytest.raises(PartitionError, match="partition 'writer:3': writer takes no number; write 'writer'"):
        check_spec("writer:3")
    with pytest.raises(PartitionError, match="dirichlet takes a positive"):
        check_spec("dirichlet:-1")
    with pytest.raises(UnknownName, match=r"did you mean 'subject'\? valid: .*, own"):
        load_task("digits", 0, 2, 0, choices=Choices(partition="subjct"))


def test_too_few_samples() -> None:
    with pytest.raises(PartitionError, match="more peers than samples: 5 samples cannot be divided among 6 peers"):
        partition(LABELS[:5], 6, "iid", 0)
    with pytest.raises(PartitionError, match=r"too few samples.*at most 5 peers"):
        partition(LABELS[:50], 6, "iid", 0)
    with pytest.raises(PartitionError, match=r"in 100 draws some peer.*try a larger A"):
        partition(LABELS, 100, "dirichlet:0.01", 0)
    assert [len(p) for p in partition(LABELS[:6], 6, "iid", 0, minimum=1)] == [1] * 6
    with pytest.raises(PartitionError, match="one per sample"):
        partition(np.zeros((3, 3)), 1, "iid", 0)


def test_too_few_test_samples_trigger_a_redraw() -> None:
    """Drawn so that the first draw leaves somebody with one test sample for some seed, and never in the result."""
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 10, 600), rng.integers(0, 10, 40)
    least = min(len(part) for seed in range(30) for part in partition_pools(train, test, 6, "dirichlet:0.3", seed)[1])
    without = min(
        len(part)
        for seed in range(30)
        for part in partition_pools(train, test, 6, "dirichlet:0.3", seed, minimum_test=0)[1]
    )
    assert without < 2 <= least


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


def test_proportions_too_small_to_multiply() -> None:
    """Once the first class is used up, both peers want what is left with the smallest of numbers: all of it."""
    labels = np.repeat([0, 1], [2, 38])
    for seed in range(5):
        owner = assign._equal(labels, np.array([[1.0, 5e-324]] * 2), np.random.default_rng(seed))
        assert np.bincount(owner).tolist() == [20, 20]


@pytest.mark.slow
@pytest.mark.parametrize("concentration", [0.1, 0.3, 1.0, 10.0])
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
    """Each peer's test classes are those of its training, a fifth as many, drawn from all there are."""
    train, test = np.repeat(np.arange(10), 2000), np.tile(np.arange(10), 400)
    for seed in range(3):
        mine, theirs = partition_pools(train, test, 40, spec, seed, test_split="shared")
        for trained, tested in zip(mine, theirs, strict=True):
            assert len(np.unique(tested)) == len(tested)
            assert (np.diff(tested) > 0).all()
            wanted = np.bincount(train[trained], minlength=10) / 5
            drawn = np.bincount(test[tested], minlength=10)
            assert (np.abs(drawn - wanted) < 1).all()
            assert not drawn[wanted == 0].any()
        apart = partition_pools(train, test, 40, spec, seed)[0]
        assert all(np.array_equal(a, b) for a, b in zip(mine, apart, strict=True))


def test_shared_test_samples_are_shared() -> None:
    """Of 100 peers who draw a hundredth each: an image is in nobody else's draw with chance (99/100)^99 = 0.37."""
    train, test = np.repeat(np.arange(10), 5000), np.repeat(np.arange(10), 1000)
    for spec in ("iid", "dirichlet-equal:0.3"):
        theirs = np.concatenate(partition_pools(train, test, 100, spec, 1, test_split="shared")[1])
        times = np.bincount(theirs, minlength=len(test))
        assert (times[theirs] > 1).mean() == pytest.approx(1 - 0.99**99, abs=0.02)
        disjoint = np.concatenate(partition_pools(train, test, 100, spec, 1)[1])
        assert len(np.unique(disjoint)) == len(disjoint)


def test_a_class_that_only_one_pool_has() -> None:
    """Nobody is tested on what nobody trains on; what nobody can be tested on is divided all the same."""
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
def test_parts_stay_what_they_were(spec: str, digests: str) -> None:
    """Results of an earlier version can be repeated with this one."""
    train, test = (np.random.default_rng(seed).integers(0, 10, count) for seed, count in ((0, 1500), (1, 400)))

    def digest(parts: list[Any]) -> str:
        return hashlib.sha256(b"".join(part.astype(np.int64).tobytes() + b"|" for part in parts)).hexdigest()[:16]

    alone, both = partition(train, 8, spec, 0), partition_pools(train, test, 8, spec, 0)
    assert f"{digest(alone)} {digest([*both[0], *both[1]])}" == digests
