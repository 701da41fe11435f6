"""Partition of a pool of labelled samples, or of its groups, among peers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import PartitionError
from dpeer.training.data.partitions.assign import Indices, deal, owners
from dpeer.training.data.partitions.schemes import parse
from dpeer.training.randomness import Purpose, stream
from dpeer.training.settings import TestSplit

MINIMUM_TRAIN, MINIMUM_TEST = 10, 2
_DRAWS = 100


def partition(labels: Any, size: int, spec: str, seed: int, *, minimum: int = MINIMUM_TRAIN) -> list[Indices]:
    """Divide samples among peers; the same arguments give the same parts on every machine.

    - ``dirichlet:A``: each class is divided by proportions drawn from a symmetric Dirichlet distribution with
      concentration A (the smaller, the more unequal), so sizes differ too.
    - ``dirichlet-equal:A``: each peer's class proportions are drawn from such a distribution, and all peers get
      equally many samples (Hsu et al., 2019; the code that DisPFL and DFedMDC descend from). Fewer than ``size``
      samples are left over.
    - ``pathological:C``: each peer holds C classes; classes go to nearly equally many peers each, so all of them
      occur when ``size * C`` is at least their number (in the manner of McMahan et al., 2017).
    - ``pathological-sampled:C``: each peer's C classes are drawn at random, whatever the others hold, and the samples
      of a class are divided equally among those who hold it (as DFedMDC, section 5.1, and DP2-FedSAM, section 5.1,
      print it). The code that DisPFL published and DFedMDC descends from draws classes so, too, but gives all peers
      equally many samples, and those of a class that is used up again: parts overlap there.
    - ``iid``: a random division into equal parts.

    Args:
        labels: The label of each sample, shape (samples,): numbers or strings.
        size: Number of peers.
        spec: One of the five above.
        seed: Not negative; nothing else is random, and global generators are not touched.
        minimum: The fewest samples that a peer may get; a division that leaves one below is drawn again.

    Returns:
        One sorted index array per rank. No sample occurs twice; each occurs once, except for what is left over by
        ``dirichlet-equal`` and for the classes that no peer holds with ``pathological`` and ``pathological-sampled``.

    Raises:
        PartitionError: The spec makes no sense, or the samples do not suffice.
        UnknownName: There is no such scheme.
    """
    return _divide(_classes(labels), None, size, spec, seed, minimum, 0, "disjoint")[0]


def partition_pools(
    train_labels: Any,
    test_labels: Any,
    size: int,
    spec: str,
    seed: int,
    *,
    minimum_train: int = MINIMUM_TRAIN,
    minimum_test: int = MINIMUM_TEST,
    test_split: TestSplit = "disjoint",
) -> tuple[list[Indices], list[Indices]]:
    """Divide a training and a test pool together: each peer's test labels follow its training labels.

    A class's test samples are divided in the very proportions of its training samples, so a peer is tested on what
    it learns from. With ``test_split="shared"`` each peer draws its test samples from the whole test pool, so that
    peers have some in common: with many peers about 63 % of what is drawn is also drawn by another one.

    Args:
        train_labels: As in `partition`.
        test_labels: As in `partition`.
        size: As in `partition`.
        spec: As in `partition`.
        seed: As in `partition`.
        minimum_train: The fewest training samples a peer may get.
        minimum_test: The fewest test samples a peer may get.
        test_split: Whether test samples are one peer's alone.

    Returns:
        The peers' training indices and their test indices, by rank.

    Raises:
        PartitionError: As in `partition`.
        UnknownName: As in `partition`.
    """
    both = _classes(np.concatenate([np.asarray(train_labels), np.asarray(test_labels)]))
    count = len(np.asarray(train_labels))
    return _divide(both[:count], both[count:], size, spec, seed, minimum_train, minimum_test, test_split)


def _classes(labels: Any) -> Indices:
    """The labels, numbered anew as 0, 1, ..."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise PartitionError(f"labels must be one per sample, shape (samples,); these have shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _divide(
    train: Indices,
    test: Indices | None,
    size: int,
    spec: str,
    seed: int,
    minimum_train: int,
    minimum_test: int,
    split: TestSplit,
) -> tuple[list[Indices], list[Indices]]:
    scheme = parse(spec)
    if size < 1:
        raise PartitionError(f"size {size}: samples can be divided among 1 or more peers")
    _check_enough("training samples" if test is not None else "samples", len(train), size, minimum_train)
    if test is not None:
        _check_enough("test samples", len(test), size, minimum_test)
    classes = int(train.max()) + 1 if len(train) else 0
    if scheme.pathological and scheme.value > classes:
        raise PartitionError(f"partition {spec!r}: the data has only {classes} classes, so C can be 1 to {classes}")
    rng = stream(seed, Purpose.PARTITION)
    for _ in range(_DRAWS):
        owner = owners(train, scheme, classes, size, rng)
        if scheme.name == "dirichlet" and (owner < 0).any():  # proportions that underflowed
            continue
        counts = np.zeros((classes, size))
        np.add.at(counts, (train[owner >= 0], owner[owner >= 0]), 1)
        parts = [np.flatnonzero(owner == rank) for rank in range(size)]
        tests = [] if test is None else _tests(test, counts, len(train), split, rng)
        if min(map(len, parts)) >= minimum_train and (test is None or min(map(len, tests)) >= minimum_test):
            return parts, tests
    least = f"{minimum_train} training and {minimum_test} test samples" if test is not None else f"{minimum_train}"
    more = "a larger A, " if scheme.name.startswith("dirichlet") else ""
    raise PartitionError(
        f"partition {spec!r} with size {size}: in {_DRAWS} draws some peer always got fewer than {least} of the "
        f"{len(train)} samples; try {more}fewer peers, or 'iid'"
    )


def _tests(
    test: Indices, counts: NDArray[np.float64], total: int, split: TestSplit, rng: np.random.Generator
) -> list[Indices]:
    """Each peer's test samples; `counts` are its training samples by class, shape (classes, peers), `total` all."""
    if split == "disjoint":
        owner = deal(test, counts, rng)
        return [np.flatnonzero(owner == rank) for rank in range(counts.shape[1])]
    pools = [np.flatnonzero(test == number) for number in range(len(counts))]
    parts = []
    for column in counts.T:
        wanted = np.floor(column * len(test) / total + rng.random(len(pools)) * (column > 0)).astype(np.int64)
        drawn = [rng.permutation(pool)[:count] for pool, count in zip(pools, wanted, strict=True)]
        parts.append(np.sort(np.concatenate(drawn)))
    return parts


def _check_enough(what: str, count: int, size: int, minimum: int) -> None:
    if count < size:
        raise PartitionError(f"more peers than samples: {count} {what} cannot be divided among {size} peers")
    if count < size * minimum:
        raise PartitionError(
            f"too few samples: {count} {what} for {size} peers, each of which needs at least {minimum}; "
            f"at most {count // minimum} peers"
        )


def deal_groups(groups: Any, size: int, spec: str, seed: int) -> list[Indices]:
    """Give whole groups of samples to peers: one each where there are as many, else nearly equal numbers of them.

    Args:
        groups: The group of each sample, shape (samples,): numbers or strings.
        size: Number of peers.
        spec: What a group is called ("writer", ...), for messages.
        seed: Decides which groups come together; not negative.

    Returns:
        One sorted index array per rank; every sample occurs once.

    Raises:
        PartitionError: There are fewer groups than peers.
    """
    names, numbers = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < size:
        raise PartitionError(
            f"partition {spec!r}: the data are from {len(names)} {spec}s, too few for {size} peers; "
            f"at most --size {len(names)}"
        )
    peer_of = np.arange(len(names)) % size
    if len(names) > size:
        peer_of = stream(seed, Purpose.PARTITION).permutation(peer_of)
    owner = peer_of[numbers]
    return [np.flatnonzero(owner == rank) for rank in range(size)]
