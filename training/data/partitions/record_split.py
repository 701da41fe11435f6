"""Holding samples out so that each one's fate is its own: what privacy for single records is about.

A random choice among all samples depends on how many there are. With one record more, others would be trained on, and
the sum of a step would change by more than that record's term.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from dpeer.training.data.partitions.assign import Indices


def hold_out_apart(names: Sequence[bytes], share: float, key: bytes) -> Indices:
    """Choose samples to hold out, each by a keyed hash of its name alone, whatever the others are.

    Samples of one name are held out together, and one more of them changes nothing for the others.

    Args:
        names: What each sample goes by, in bytes: its content, or what it must not be parted from.
        share: The probability that a name is held out, above 0 and below 1.
        key: Where chance comes from, at most 64 bytes.

    Returns:
        Sorted indices of what is held out. How many they are is random; none and all are possible.
    """
    drawn = (int.from_bytes(blake2b(name, key=key, digest_size=8).digest(), "little") for name in names)
    return np.flatnonzero(np.fromiter((number < share * 2**64 for number in drawn), bool, len(names)))
