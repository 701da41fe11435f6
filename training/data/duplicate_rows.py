"""Duplicate rows: equal inputs have one digest; numbered and counted; no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH = 16
"""Bytes of a digest."""


def digests(rows: NDArray[Any]) -> list[bytes]:
    """A digest of each row's content; equal rows have one, and others differ.

    Args:
        rows: Shape (rows, ...).
    """
    if np.issubdtype(rows.dtype, np.floating):
        rows = rows + 0.0  # -0.0 equals 0.0 and has other bytes
    return [blake2b(np.ascontiguousarray(row).tobytes(), digest_size=WIDTH).digest() for row in rows]


def numbered(found: Sequence[Hashable], known: dict[Any, int] | None = None) -> NDArray[np.int64]:
    """A number for each digest or name, counted from 0 in the order in which they come; equal ones have the same.

    Args:
        found: The digests or names.
        known: The numbers of others, to which new ones are added.
    """
    numbers = {} if known is None else known
    return np.array([numbers.setdefault(one, len(numbers)) for one in found], np.int64)


def count_equal(found: Sequence[bytes]) -> int:
    """How many rows equal another one."""
    return sum(count for count in Counter(found).values() if count > 1)


def in_words(count: int, rows: int, what: str = "row") -> str:
    """How many rows equal another one, as a sentence begins."""
    return f"{count:,} of {rows:,} {what}s equal another {what} in inputs"
