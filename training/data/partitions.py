"""Partition of labelled samples, or of whole groups, among peers: the schemes of ``--partition``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import PartitionError, UnknownName
from dpeer.training.data.holdout import Indices
from dpeer.training.randomness import Purpose, stream
from dpeer.training.settings import TestSplit

_PATHOLOGICAL = ("pathological", "pathological-sampled")
NATURAL = ("writer", "subject", "group")
"""Schemes that follow the groups of the data."""
OWN = "own"
"""Every rank reads data of its own and keeps all of them."""
_EXAMPLES = {
    "dirichlet": "dirichlet:0.3", "dirichlet-equal": "dirichlet-equal:0.3", "pathological": "pathological:2",
    "pathological-sampled": "pathological-sampled:2", "iid": "iid", **{name: name for name in (*NATURAL, OWN)},
}  # fmt: skip


class Scheme(NamedTuple):
    """A partition spec, parsed; `value` is the concentration A, or the number of classes C a peer, else 0."""

    name: str
    value: float


def parse(spec: str) -> Scheme:
    """Parse what ``--partition`` takes. Whether the data have groups such as writers is checked later.

    Raises:
        UnknownName: No such scheme; the error names the nearest.
        PartitionError: The number is missing, or makes no sense.
    """
    name, colon, text = spec.partition(":")
    if name not in _EXAMPLES:
        raise UnknownName("partition", name, _EXAMPLES.values())
    if ":" not in _EXAMPLES[name]:
        if colon:
            raise PartitionError(f"partition {spec!r}: {name} takes no number; write {name!r}")
        return Scheme(name, 0.0)
    whole = name in _PATHOLOGICAL
    try:
        value = float(int(text)) if whole else float(text)
    except (ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        wanted = "a whole number of classes a peer, 1 or more" if whole else "a positive concentration"
        raise PartitionError(f"partition {spec!r}: {name} takes {wanted}, such as {_EXAMPLES[name]!r}")
    return Scheme(name, value)


def owners(labels: Indices, scheme: Scheme, classes: int, size: int, rng: np.random.Generator) -> Indices:
    """Each sample's owner; -1 where no peer gets it."""
    if scheme.name == "iid":
        return rng.permutation(np.arange(len(labels)) % size)
    if scheme.name == "dirichlet-equal":
        return _equal(labels, rng.dirichlet(np.full(classes, scheme.value), size=size), rng)
    return deal(labels, _shares(scheme, classes, size, rng), rng)


def _shares(scheme: Scheme, classes: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The peers' shares of each class, up to a factor per class; shape (classes, size)."""
    if scheme.name == "dirichlet":
        return rng.dirichlet(np.full(size, scheme.value), size=classes)
    shares = np.zeros((classes, size))
    if scheme.name == "pathological-sampled":
        # Whatever the others have drawn: a class may go to many more peers than another, or to none.
        drawn = rng.permuted(np.tile(np.arange(classes), (size, 1)), axis=1)[:, : int(scheme.value)]
        shares[drawn, np.arange(size)[:, np.newaxis]] = 1
        return shares
    for rank in range(size):
        # The classes that the fewest peers hold so far, at random among equals.
        chosen = np.lexsort((rng.random(classes), shares.sum(axis=1)))[: int(scheme.value)]
        shares[chosen, rank] = 1
    return shares[:, rng.permutation(size)]


def deal(labels: Indices, shares: NDArray[np.float64], rng: np.random.Generator) -> Indices:
    """Each sample's owner, or -1 where no peer holds its class.

    Boundaries are rounded with one random offset per class, so that no rank is favoured and a peer without a share
    gets nothing.
    """
    owners = np.full(len(labels), -1, np.int64)
    for number, row in enumerate(shares):
        members = rng.permutation(np.flatnonzero(labels == number))
        total = row.sum()
        if not total > 0:
            continue
        bounds = np.floor(np.cumsum(row) / total * len(members) + rng.random()).astype(np.int64)
        bounds[row.nonzero()[0][-1] :] = len(members)
        for rank, (start, stop) in enumerate(zip([0, *bounds[:-1]], bounds, strict=True)):
            owners[members[start:stop]] = rank
    return owners


def _equal(labels: Indices, wanted: NDArray[np.float64], rng: np.random.Generator) -> Indices:
    """Each sample's owner, in parts of equal size; samples that are left over have none.

    The peers take turns in random order; the peer of a turn takes a sample of a class drawn from its own proportions
    among the classes that are not used up (as the code that DisPFL and FedDyn published does). `wanted` are each peer's
    proportions, shape (peers, classes).
    """
    size, classes = wanted.shape
    queues = [rng.permutation(np.flatnonzero(labels == number)).tolist() for number in range(classes)]
    each = len(labels) // size
    turns = rng.permutation(np.repeat(np.arange(size), each))
    chances = rng.random(len(turns))
    found = np.full(len(labels), -1, np.int64)
    bounds = _bounds(wanted, queues)
    for peer, chance in zip(turns.tolist(), chances.tolist(), strict=True):
        row = bounds[peer]
        number = int(np.searchsorted(row, chance * row[-1], side="right"))
        found[queues[number].pop()] = peer
        if not queues[number]:
            bounds = _bounds(wanted, queues)
    return found


def _bounds(wanted: NDArray[np.float64], queues: list[list[int]]) -> NDArray[np.float64]:
    """Cumulated proportions over the classes that are not used up; equal ones where a peer wants none of them."""
    there = np.array([bool(queue) for queue in queues])
    left = np.where(there, wanted, 0.0)
    left[left.sum(axis=1) < np.finfo(float).tiny] = there  # below it, sums times a chance would round back to sums
    return np.cumsum(left, axis=1)


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
        UnknownName: The scheme does not exist.
    """
    return partition_pools(labels, None, size, spec, seed, minimum_train=minimum)[0]


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

    Returns:
        The peers' training indices and their test indices, by rank; the second empty without a test pool.

    Raises:
        PartitionError, UnknownName: As in `partition`.
    """
    scheme, count = parse(spec), len(np.asarray(train_labels))
    if scheme.name in (*NATURAL, OWN):
        raise PartitionError(
            f"partition {spec!r} is for built-in tasks, whose data say whom a sample is from; for groups of your own "
            "use dpeer.training.data.partitions.deal_groups"
        )
    if not 1 <= size <= count:
        raise PartitionError(f"size {size}: {count} samples can be divided among 1 to {count} peers")
    both = _classes(train_labels if test_labels is None else np.concatenate([train_labels, test_labels]))
    train, test = both[:count], None if test_labels is None else both[count:]
    classes = int(train.max()) + 1 if len(train) else 0
    if scheme.name in _PATHOLOGICAL and scheme.value > classes:
        raise PartitionError(f"partition {spec!r}: the data has only {classes} classes, so C can be 1 to {classes}")
    rng = stream(seed, Purpose.PARTITION)
    for _ in range(_DRAWS):
        owner = owners(train, scheme, classes, size, rng)
        if scheme.name == "dirichlet" and (owner < 0).any():  # proportions that underflowed
            continue
        counts = np.zeros((classes, size))
        np.add.at(counts, (train[owner >= 0], owner[owner >= 0]), 1)
        parts = [np.flatnonzero(owner == rank) for rank in range(size)]
        tests = [] if test is None else _tests(test, counts, len(train), test_split, rng)
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


def _classes(labels: Any) -> Indices:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise PartitionError(f"labels must be one per sample, shape (samples,); these have shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def deal_groups(groups: Any, size: int, spec: str, seed: int) -> list[Indices]:
    """Give whole groups of samples to peers: one each, or nearly equal numbers of them.

    Args:
        groups: The group of each sample, shape (samples,): numbers or strings.
        size: Number of peers.
        spec: What a group is called ("writer", ...), for messages.
        seed: Decides which groups come together; not negative.

    Returns:
        One sorted index array per rank; every sample occurs once.

    Raises:
        PartitionError: The data have fewer groups than peers.
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
