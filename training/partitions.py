"""Dividing one pool of labelled samples among peers, unevenly on purpose."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import PartitionError, UnknownName
from dpeer.training.randomness import Purpose, stream

Indices = NDArray[np.int64]

MINIMUM_TRAIN, MINIMUM_TEST = 10, 2
_DRAWS = 100
_SCHEMES = {"dirichlet": "dirichlet:0.3", "pathological": "pathological:2", "iid": "iid"}


class Scheme(NamedTuple):
    """A partition spec, parsed.

    Attributes:
        name: "dirichlet", "pathological" or "iid".
        value: The concentration A, or the number of classes C a peer; 0 for "iid".
    """

    name: str
    value: float


def parse(spec: str) -> Scheme:
    """Parse ``dirichlet:A``, ``pathological:C`` or ``iid``.

    Raises:
        UnknownName: No such scheme; the error names the nearest.
        PartitionError: The number is missing or makes no sense.
    """
    name, colon, text = spec.partition(":")
    if name not in _SCHEMES:
        raise UnknownName("partition", name, _SCHEMES.values())
    if name == "iid":
        if colon:
            raise PartitionError(f"partition {spec!r}: iid takes no number; write 'iid'")
        return Scheme(name, 0.0)
    try:
        value = float(text) if name == "dirichlet" else int(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        wanted = "a positive concentration" if name == "dirichlet" else "a whole number of classes a peer, 1 or more"
        raise PartitionError(f"partition {spec!r}: {name} takes {wanted}, such as {_SCHEMES[name]!r}")
    return Scheme(name, float(value))


def partition(labels: Any, size: int, spec: str, seed: int, *, minimum: int = MINIMUM_TRAIN) -> list[Indices]:
    """Divide samples among peers; the same arguments give the same parts on every machine.

    - ``dirichlet:A``: each class is divided by proportions drawn from a symmetric Dirichlet distribution with
      concentration A (the smaller, the more unequal), so sizes differ too (Hsu et al., 2019).
    - ``pathological:C``: each peer holds C classes; classes go to nearly equally many peers each, so all of them
      occur when ``size * C`` is at least their number (in the manner of McMahan et al., 2017).
    - ``iid``: a random division into equal parts.

    Args:
        labels: The label of each sample, shape (samples,): numbers or strings.
        size: Number of peers.
        spec: One of the three above.
        seed: Not negative; nothing else is random, and global generators are not touched.
        minimum: The fewest samples that a peer may get; a division that leaves one below is drawn again.

    Returns:
        One sorted index array per rank. No sample occurs twice; each occurs once, except that ``pathological``
        leaves out the classes that no peer holds.

    Raises:
        PartitionError: The spec makes no sense, or the samples do not suffice.
        UnknownName: There is no such scheme.
    """
    return _divide(_classes(labels), None, size, spec, seed, minimum, 0)[0]


def partition_pools(
    train_labels: Any,
    test_labels: Any,
    size: int,
    spec: str,
    seed: int,
    *,
    minimum_train: int = MINIMUM_TRAIN,
    minimum_test: int = MINIMUM_TEST,
) -> tuple[list[Indices], list[Indices]]:
    """Divide a training and a test pool together: each peer's test labels follow its training labels.

    A class's test samples are divided in the very proportions of its training samples, so a peer is tested on what
    it learns from.

    Args:
        train_labels: As in `partition`.
        test_labels: As in `partition`.
        size: As in `partition`.
        spec: As in `partition`.
        seed: As in `partition`.
        minimum_train: The fewest training samples a peer may get.
        minimum_test: The fewest test samples a peer may get.

    Returns:
        The peers' training indices and their test indices, by rank.

    Raises:
        PartitionError: As in `partition`.
        UnknownName: As in `partition`.
    """
    both = _classes(np.concatenate([np.asarray(train_labels), np.asarray(test_labels)]))
    count = len(np.asarray(train_labels))
    return _divide(both[:count], both[count:], size, spec, seed, minimum_train, minimum_test)


def _classes(labels: Any) -> Indices:
    """Labels as class numbers 0, 1, ..."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise PartitionError(f"labels must be one per sample, shape (samples,); these have shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _divide(
    train: Indices, test: Indices | None, size: int, spec: str, seed: int, minimum_train: int, minimum_test: int
) -> tuple[list[Indices], list[Indices]]:
    scheme = parse(spec)
    if size < 1:
        raise PartitionError(f"size {size}: samples can be divided among 1 or more peers")
    _check_enough("training samples" if test is not None else "samples", len(train), size, minimum_train)
    if test is not None:
        _check_enough("test samples", len(test), size, minimum_test)
    classes = int(train.max()) + 1 if len(train) else 0
    if scheme.name == "pathological" and scheme.value > classes:
        raise PartitionError(f"partition {spec!r}: the data has only {classes} classes, so C can be 1 to {classes}")
    rng = stream(seed, Purpose.PARTITION)
    for _ in range(_DRAWS):
        owners = _iid(len(train), size, rng) if scheme.name == "iid" else None
        if owners is None:
            owners = _deal(train, _shares(scheme, classes, size, rng), rng)
        if scheme.name == "dirichlet" and (owners < 0).any():  # proportions that underflowed
            continue
        counts = np.zeros((classes, size))
        np.add.at(counts, (train[owners >= 0], owners[owners >= 0]), 1)
        parts = [np.flatnonzero(owners == rank) for rank in range(size)]
        held_out = np.empty(0, np.int64) if test is None else _deal(test, counts, rng)
        tests = [np.flatnonzero(held_out == rank) for rank in range(size)]
        if min(map(len, parts)) >= minimum_train and (test is None or min(map(len, tests)) >= minimum_test):
            return parts, tests
    least = f"{minimum_train} training and {minimum_test} test samples" if test is not None else f"{minimum_train}"
    more = "a larger A, " if scheme.name == "dirichlet" else ""
    raise PartitionError(
        f"partition {spec!r} with size {size}: in {_DRAWS} draws some peer always got fewer than {least} of the "
        f"{len(train)} samples; try {more}fewer peers, or 'iid'"
    )


def _check_enough(what: str, count: int, size: int, minimum: int) -> None:
    if count < size:
        raise PartitionError(f"more peers than samples: {count} {what} cannot be divided among {size} peers")
    if count < size * minimum:
        raise PartitionError(
            f"too few samples: {count} {what} for {size} peers, each of which needs at least {minimum}; "
            f"at most {count // minimum} peers"
        )


def _shares(scheme: Scheme, classes: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How much of each class each peer gets, up to a factor per class; shape (classes, size)."""
    if scheme.name == "dirichlet":
        return rng.dirichlet(np.full(size, scheme.value), size=classes)
    shares = np.zeros((classes, size))
    for rank in range(size):
        # The classes that the fewest peers hold so far, at random among equals.
        chosen = np.lexsort((rng.random(classes), shares.sum(axis=1)))[: int(scheme.value)]
        shares[chosen, rank] = 1
    return shares[:, rng.permutation(size)]


def _iid(count: int, size: int, rng: np.random.Generator) -> Indices:
    """Each sample's owner, in parts whose sizes differ by at most one."""
    return rng.permutation(np.arange(count, dtype=np.int64) % size)


def _deal(labels: Indices, shares: NDArray[np.float64], rng: np.random.Generator) -> Indices:
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
