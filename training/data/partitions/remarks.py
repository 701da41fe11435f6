"""Remarks on a pathological partition: how classes went to peers, and the classes that no peer holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpeer.training.data.partitions.assign import Indices
from dpeer.training.data.partitions.schemes import NATURAL, OWN, parse

_LISTED = 8


def remarks(
    spec: str, labels: Sequence[Indices], owned: Sequence[Sequence[Indices]], names: Sequence[str] = ()
) -> tuple[str, ...]:
    """How peers came to their classes, and what nobody holds; a line each, none for other partitions.

    Args:
        spec: The partition, as `check_spec` takes it.
        labels: The class numbers of each pool, shape (samples,): the training pool, and the test pool if there is one.
        owned: By rank, the indices of the peer's samples in each of these pools.
        names: The classes' names by number; () where nobody has named them.
    """
    if spec in (*NATURAL, OWN) or not parse(spec).pathological:
        return ()
    held = np.zeros((len(owned), int(labels[0].max()) + 1), dtype=bool)
    for row, (mine, *_) in zip(held, owned, strict=True):
        row[labels[0][mine]] = True
    there = np.unique(labels[0])
    holders = held.sum(axis=0)[there]
    name, _, count = spec.partition(":")
    if name == "pathological":
        line = (
            f"partition {spec} is balanced: a class goes to {_peers(holders)}; papers draw each peer's classes at "
            f"random: pathological-sampled:{count}"
        )
    else:
        line = f"partition {spec}: each peer's classes were drawn at random, and a class goes to {_peers(holders)}"
    missing = there[holders == 0]
    return (line, *([_unused(missing, labels, names)] if len(missing) else []))


def _peers(holders: Indices) -> str:
    least, most = int(holders.min()), int(holders.max())
    return f"{least} to {most} peers" if least < most else f"{most} peer{'s' if most > 1 else ''}"


def _unused(missing: Indices, labels: Sequence[Indices], names: Sequence[str]) -> str:
    listed = ", ".join(names[number] if names else str(number) for number in missing[:_LISTED].tolist())
    more = f" and {len(missing) - _LISTED} others" if len(missing) > _LISTED else ""
    what, whose = ("classes", "their") if len(missing) > 1 else ("class", "its")
    counts = [int(np.isin(pool, missing).sum()) for pool in labels]
    samples = f"{counts[0]:,} training and {counts[1]:,} test samples" if len(counts) > 1 else f"{counts[0]:,} samples"
    return f"no peer holds {what} {listed}{more}: {whose} {samples} are not used"
