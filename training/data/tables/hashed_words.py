"""Hashed parts of words as inputs, bit for bit as scikit-learn's HashingVectorizer makes them; no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_SHORTEST, _LONGEST = 2, 4
"""Letters of a part."""


def hashed(texts: Sequence[str], size: int) -> NDArray[np.float64]:
    """The parts of each text's words, hashed to signed counts and scaled to length 1; shape (texts, size)."""
    rows = np.zeros((len(texts), size))
    for row, text in zip(rows, texts, strict=True):
        for part in _parts(text.lower()):
            number = _murmur3(part)
            row[abs(number) % size] += 1 if number >= 0 else -1
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    np.divide(rows, length, out=rows, where=length > 0)
    return rows


def _parts(text: str) -> Iterator[str]:
    """Parts of two to four letters of each word, which has a blank on both sides; a shorter word is one part."""
    for word in text.split():
        padded = f" {word} "
        for size in range(_SHORTEST, _LONGEST + 1):
            yield from (padded[first : first + size] for first in range(max(len(padded) - size, 0) + 1))
            if len(padded) <= size:
                break


_MASK = 0xFFFFFFFF


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _scrambled(block: bytes) -> int:
    return _turned(int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


@lru_cache(maxsize=1 << 16)
def _murmur3(text: str) -> int:
    """MurmurHash3 (x86, 32 bits, seed 0) of a text in UTF-8, as a signed number."""
    content, found = text.encode(), 0
    whole = len(content) // 4 * 4
    for first in range(0, whole, 4):
        found = _turned(found ^ _scrambled(content[first : first + 4]), 13) * 5 + 0xE6546B64 & _MASK
    found ^= _scrambled(content[whole:]) ^ len(content)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> shift) * factor & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found
