"""The spectral gaps that the papers' Table 1 gives for these graphs, beside which ours are shown.

The table (in DFedMDC, DFedSAM and the works before them) assumes its own weights for each graph and for most
gives an order only, so that it is a guide, not a prediction; docs/topologies.md says where it differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PaperFormula:
    """A spectral gap as the papers give it.

    Attributes:
        name: The formula, m being the number of peers.
        value: The formula at this m; None where only an order is given.
    """

    name: str
    value: float | None


_EXPONENTIAL = "2 / (1 + log2 m)"

_FORMULAS: dict[str, tuple[str, Callable[[int], float] | None]] = {
    "ring": ("16 pi^2 / (3 m^2)", lambda m: 16.0 * math.pi**2 / (3.0 * m**2)),
    "grid": ("O(1 / (m log2 m))", None),
    "torus": ("O(1 / m)", None),
    "exponential": (_EXPONENTIAL, lambda m: 2.0 / (1.0 + math.log2(m))),
    "exponential-directed": (_EXPONENTIAL, lambda m: 2.0 / (1.0 + math.log2(m))),
    "full": ("1", lambda _: 1.0),
    "star": ("O(1 / m^2)", None),
    "random-regular": ("O(1)", None),
}


def paper_formula(topology: str, size: int) -> PaperFormula | None:
    """The papers' spectral gap of `topology` with `size` peers; None for a graph they do not treat."""
    if topology not in _FORMULAS:
        return None
    name, formula = _FORMULAS[topology]
    return PaperFormula(name, None if formula is None else formula(size))
