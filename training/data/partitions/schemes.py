"""Parser of ``--partition``: the schemes by which data are divided."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpeer.exceptions import PartitionError, UnknownName

_EXAMPLES = {
    "dirichlet": "dirichlet:0.3", "dirichlet-equal": "dirichlet-equal:0.3", "pathological": "pathological:2",
    "pathological-sampled": "pathological-sampled:2", "iid": "iid",
}  # fmt: skip
_PATHOLOGICAL = ("pathological", "pathological-sampled")
NATURAL = ("writer", "subject", "role", "group")
"""Schemes that follow what the data say about who they are from."""
OWN = "own"
"""Every rank reads data of its own and keeps all of them."""


class Scheme(NamedTuple):
    """A partition spec, parsed.

    Attributes:
        name: "dirichlet", "dirichlet-equal", "pathological", "pathological-sampled" or "iid".
        value: The concentration A, or the number of classes C a peer; 0 for "iid".
    """

    name: str
    value: float

    @property
    def pathological(self) -> bool:
        """Whether each peer holds so many classes."""
        return self.name in _PATHOLOGICAL


def check_spec(spec: str) -> None:
    """Refuse what ``--partition`` does not take. Whether the data have groups such as writers is checked later.

    Raises:
        UnknownName: No such scheme; the error names the nearest.
        PartitionError: The number is missing, or makes no sense.
    """
    name, colon, _ = spec.partition(":")
    if name not in (*NATURAL, OWN):
        if name not in _EXAMPLES:
            raise UnknownName("partition", name, (*_EXAMPLES.values(), *NATURAL, OWN))
        parse(spec)
    elif colon:
        raise PartitionError(f"partition {spec!r}: {name} takes no number; write {name!r}")


def parse(spec: str) -> Scheme:
    """Parse ``dirichlet:A``, ``dirichlet-equal:A``, ``pathological:C``, ``pathological-sampled:C`` or ``iid``.

    Raises:
        UnknownName: No such scheme; the error names the nearest.
        PartitionError: The number is missing or makes no sense, or labels do not suffice for it.
    """
    name, colon, text = spec.partition(":")
    if name in (*NATURAL, OWN):
        raise PartitionError(
            f"partition {spec!r} is for built-in tasks, whose data say whom a sample is from: labels alone are divided "
            f"by {', '.join(_EXAMPLES.values())}; for groups of your own use dpeer.training.data.partitions.deal_groups"
        )
    if name not in _EXAMPLES:
        raise UnknownName("partition", name, _EXAMPLES.values())
    if name == "iid":
        if colon:
            raise PartitionError(f"partition {spec!r}: iid takes no number; write 'iid'")
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
