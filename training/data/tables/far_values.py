"""Values of a column far from all others, such as 999 and 9999-12-31, which often stand for a gap; no torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date, datetime
from itertools import product

_FEWEST = 10
"""Of fewer other values nothing is concluded."""

MOST = 3
"""The most such values on a side."""

_FAR, _FAR_STAND_IN = 3.0, 0.25
"""How far such values are from all others, in the distance of these from one another."""

_NEGATIVE = re.compile(r"-(1|7+|8+|9+)")
_NINES = re.compile(r"-?9{3,}(\.9+|\.0+)?")
_DAYS = {
    date(1, 1, 1),
    date(1753, 1, 1),
    date(1899, 12, 30),
    date(1900, 1, 1),
    date(1970, 1, 1),
    date(2099, 12, 31),
    date(9999, 12, 31),
}


def written_as_nines(cell: str) -> bool:
    """Whether a number is written as stand-ins for a gap often are."""
    return _NINES.fullmatch(cell) is not None


def far_off(counts: Mapping[float, int], stand_ins: Collection[float]) -> set[float]:
    """The values that lie far from all others, as these lie apart, and occur more than once.

    Where all others are not negative, -1, -9, -99 and such are among them, too.

    Args:
        counts: By value, its number of rows.
        stand_ins: Values that often stand for a gap: one row is enough, and they need not be as far.
    """
    ordered = sorted(counts)
    found: set[float] = set()
    for low, high in product(range(MOST + 1), repeat=2):
        first, last = low, len(ordered) - high - 1
        removed = {*ordered[:low], *ordered[last + 1 :]}
        if len(removed) <= len(found) or last - first + 1 < _FEWEST:
            continue
        far = (_FAR_STAND_IN if removed <= {*stand_ins} else _FAR) * (ordered[last] - ordered[first])
        is_far = (not low or ordered[first] - ordered[first - 1] > far) and (
            not high or ordered[last + 1] - ordered[last] > far
        )
        if is_far and all(counts[value] > 1 or value in stand_ins for value in removed):
            found = removed
    negative = [value for value in ordered if value < 0 and value not in found]
    others = len(ordered) - len(negative) - len(found)
    stands_in = all(counts[value] > 1 and _NEGATIVE.fullmatch(f"{value:g}") for value in negative)
    return found | {*negative} if stands_in and len(negative) <= MOST and others >= _FEWEST else found


def days_far_off(moments: Mapping[str, datetime], counts: Mapping[str, int]) -> set[str]:
    """The cells of dates that lie far from all others.

    Args:
        moments: By cell, its date.
        counts: By cell, its number of rows.
    """
    by_day: dict[float, int] = {}
    for cell, moment in moments.items():
        by_day[float(moment.toordinal())] = by_day.get(float(moment.toordinal()), 0) + counts[cell]
    stand_ins = {float(day.toordinal()) for day in _DAYS}
    found = far_off(by_day, stand_ins)
    return {cell for cell, moment in moments.items() if float(moment.toordinal()) in found}
