"""SFC64's state word c from two of its outputs, of 64 bits each, that are next but one to each other.

SFC64 has the words a, b, c and a counter w. A draw gives T = a + b + w and replaces a by b ^ (b >> 11), b by 9 c, c by
rotl(c, 24) + T and w by w + 1, all modulo 2^64. Two draws later, with c and w as they were before the first,

    T3 - 9 T1 - 2 = f(c) + w,        f(c) = (9c ^ (9c >> 11)) + 9 rotl(c, 24)

so c is one of the few solutions of an equation, and a tenth of a second finds them all. With v = 9c and
c = lo + 2^40 hi, 9 rotl(c, 24) is rotl(v, 24) - over + 2^24 more, where `over` is what 9 lo has beyond 40 bits and
`more` what 9 hi + over has beyond 24: at most 8 each. For every pair of these remains

    (v ^ (v >> 11)) + rotl(v, 24) = a known number

Bit i of that has to do with bits i, i + 11 and i + 40 (modulo 64) of v only, and with a carry. In three rows (A: bits 0
to 23, B: 24 to 47, C: 48 to 63), each worked on from its bit 0 and from its bit 11 at the same time, 13 bits of B and
the carries into bits 35, 48 and 59 are guessed, and from each of these 2^16 guesses all of v follows, a few bits at a
time. Right are those whose carries come out as guessed and with which the bits of row A from 11 on are as they must be.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

WORD = 2**64
NINTH = np.uint64(pow(9, -1, WORD))

Words = NDArray[np.uint64]
Bits = NDArray[np.uint8]


def _guess(axis: int, count: int) -> Bits:
    """All values of some bits, along an axis of their own of six."""
    return np.arange(count, dtype=np.uint16).astype(np.uint8).reshape([count if axis == at else 1 for at in range(6)])


_B21, _CARRY35, _B22_23, _CARRY48, _CARRY59 = (_guess(axis, count) for axis, count in enumerate((2, 2, 4, 2, 2)))
_B0, _B11 = np.tile(_guess(5, 32), 32), np.repeat(_guess(5, 32), 32, axis=5)  # what comes last is long: numpy likes it
_B22, _B23 = _B22_23 & 1, _B22_23 >> 1


def f(c: Words) -> Words:
    """The sum that tells c."""
    v = c * np.uint64(9)
    return (v ^ v >> np.uint64(11)) + np.uint64(9) * (c << np.uint64(24) | c >> np.uint64(40))


def solutions(total: int, counters: Collection[int]) -> list[tuple[int, int]]:
    """All pairs of c and a counter w among these with f(c) + w = total (modulo 2^64)."""
    allowed = np.array(sorted(counters), dtype=np.uint64)
    found = set()
    for shift in sorted({over - counter for over in range(9) for counter in counters}):
        for carry in range(10):  # from row A to row B, and `more`
            c = _columns((total + shift) % WORD, carry) * NINTH
            left = np.uint64(total) - f(c)
            right = np.isin(left, allowed)
            found |= set(zip(c[right].tolist(), left[right].tolist(), strict=True))
    return sorted(found)


def _columns(total: int, carry: int) -> Words:
    """Solutions v of (v ^ (v >> 11)) + rotl(v, 24) = total, if row B gets that much less than it has in the total.

    Names say where bits begin: B16 are bits 16 and on of row B. What is not right in full, the caller finds out.
    """
    row_a, upper = total % 2**24, ((total >> 24) - carry) % 2**40
    row_b, row_c = upper % 2**24, upper >> 24

    def other(row: int, start: int, width: int, one: Bits, carry: Bits | int) -> tuple[Bits, Bits]:
        """What is added to one number to give these bits of a row, and the carry beyond them."""
        wanted, one = row >> start & 2**width - 1, one + carry
        return wanted - one & 2**width - 1, (one > wanted).view(np.uint8)

    # Five bits at both beginnings of each row, solved for what is not guessed. v >> 11 is what begins at 11.
    C11, _ = other(row_c, 11, 5, _B11, _CARRY59)
    mixed, in_c = other(row_c, 0, 5, _B0, _CARRY48)
    C0 = mixed ^ C11
    A0, in_b = other(row_b, 0, 5, _B0 ^ _B11, 0)
    A11, in_b11 = other(row_b, 11, 5, _B11 ^ (_B22_23 | (C0 & 7) << 2), _CARRY35)
    B16, in_a = other(row_a, 0, 5, A0 ^ A11, 0)
    # Then two at a time.
    A, B, C, high = [A0], [_B0], [C0], [A11]
    b16, c3 = B16 & 3, C0 >> 3
    for start, next_b16, added in (
        (5, B16 >> 2 & 3, _B21 | _B22 << 1),
        (7, B16 >> 4 | _B21 << 1, _B23 | (C0 & 1) << 1),
        (9, _B22_23, C0 >> 1 & 3),
    ):
        A16, in_b11 = other(row_b, start + 11, 2, b16 ^ c3, in_b11)
        mixed, in_a = other(row_a, start, 2, added, in_a)
        A.append(mixed ^ A16)
        mixed, in_b = other(row_b, start, 2, A[-1], in_b)
        B.append(mixed ^ b16)
        c3, in_c = other(row_c, start, 2, B[-1], in_c)
        C.append(c3)
        high.append(A16)
        b16 = next_b16
    # What has not been needed yet tells which guesses are right: the carries, and two bits of row A.
    A22, in_c0 = other(row_b, 22, 2, b16 ^ c3, in_b11)
    low_a11 = (A11 & 3) ^ A22
    right = (in_b == _CARRY35) & (in_c == _CARRY59) & (in_c0 == _CARRY48)
    right &= (low_a11 + (C0 >> 3) + in_a) & 3 == (row_a >> 11) & 3

    places = (0, 5, 7, 9)
    parts = [
        *zip(places, A, strict=True),
        *((11 + place, bits) for place, bits in zip(places, high, strict=True)),
        (22, A22),
        *((24 + place, bits) for place, bits in zip(places, B, strict=True)),
        (35, _B11),
        (40, B16),
        (45, _B21),
        (46, _B22_23),
        *((48 + place, bits) for place, bits in zip(places, C, strict=True)),
        (59, C11),
    ]
    those = np.flatnonzero(right)
    v = np.zeros(those.size, dtype=np.uint64)
    for start, bits in parts:
        v |= np.broadcast_to(bits, right.shape).reshape(-1)[those].astype(np.uint64) << np.uint64(start)
    return v
