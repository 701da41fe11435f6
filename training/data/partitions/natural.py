"""Dividing data by the groups that they have: writers, persons, sites."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpeer.exceptions import PartitionError
from dpeer.training.data.partitions.assign import Indices
from dpeer.training.randomness import Purpose, stream


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
