import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import PartitionError, UnknownName
from dpeer.training import partition, partition_pools

LABELS = np.repeat(np.arange(10), 150)

specs = st.sampled_from(["dirichlet:0.1", "dirichlet:0.3", "dirichlet:10", "pathological:2", "pathological:7", "iid"])
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
    if not spec.startswith("pathological") or size * classes >= 10:
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


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 12), classes=st.integers(1, 10))
def test_pathological_holds_so_many_classes_evenly(seed: int, size: int, classes: int) -> None:
    parts = partition(LABELS, size, f"pathological:{classes}", seed)
    held = [set(LABELS[part].tolist()) for part in parts]
    assert all(len(mine) == classes for mine in held)
    holders = [sum(number in mine for mine in held) for number in range(10)]
    assert max(holders) - min(holders) <= 1


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
        ("iid:3", "iid takes no number"),
    ],
)
def test_malformed_specs(spec: str, message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        partition(LABELS, 4, spec, 0)


def test_unknown_scheme_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'dirichlet"):
        partition(LABELS, 4, "dirichle:0.3", 0)


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
