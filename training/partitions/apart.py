"""Holding samples out so that each one's fate is its own: what privacy for single records is about.

A random choice among all samples depends on how many there are. With one record more, others would be trained on, and
the sum of a step would change by more than that record's term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from dpeer.training.partitions.dealing import Indices


def hold_out_apart(names: Sequence[bytes], stretches: Indices | None, share: float, key: bytes) -> Indices:
    """Choose samples to hold out, each by a keyed hash of what it is, whatever the others are.

    Of equal samples the first, the second and so on are chosen or not one by one, so one more changes no other's fate.

    Args:
        names: What each sample is, in bytes; where there are stretches the same for all of a stretch.
        stretches: Which samples must not be parted, by a number each, shape (samples,); None where every sample stands
            alone.
        share: The probability that one is held out, above 0 and below 1.
        key: Where chance comes from, at most 64 bytes.

    Returns:
        Sorted indices of what is held out. How many they are is random; none and all are possible.
    """
    first = number = np.arange(len(names))
    if stretches is not None:
        _, first, number = np.unique(stretches, return_index=True, return_inverse=True)
    seen: Counter[bytes] = Counter()
    held = np.zeros(len(first), dtype=bool)
    for place, row in enumerate(first.tolist()):
        name = blake2b(names[row], key=key, digest_size=32).digest()
        drawn = blake2b(name + seen[name].to_bytes(8, "little"), key=key, digest_size=8).digest()
        held[place] = int.from_bytes(drawn, "little") < share * 2**64
        seen[name] += 1
    return np.flatnonzero(held[number])
