"""Which coordinates of an update are released.

`top-k` chooses after the noise, so it is post-processing: it changes neither epsilon nor the noise (as DP-FedSAM-top_k
should; choosing by the private update before the noise is unsound). `random` chooses without the data, before clipping,
so that the clip norm is spent on the kept coordinates alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError


@dataclass(frozen=True)
class Sparsifier:
    """A rule for the coordinates that are kept.

    Attributes:
        rule: "none", "top-k" or "random".
        keep: Share of the coordinates that is kept, in (0, 1].
    """

    rule: Literal["none", "top-k", "random"] = "none"
    keep: float = 1.0

    @classmethod
    def parse(cls, text: str | None) -> Sparsifier:
        """Read `top-k:0.4` or `random:0.4`; None keeps everything.

        Raises:
            ConfigurationError: It is something else.
        """
        if text is None:
            return cls()
        rule, _, share = text.partition(":")
        try:
            keep = float(share)
        except ValueError:
            keep = 0.0
        if rule == "top-k" and 0 < keep <= 1:
            return cls("top-k", keep)
        if rule == "random" and 0 < keep <= 1:
            return cls("random", keep)
        raise ConfigurationError(
            f"--sparsify {text!r}: write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4"
        )

    def count(self, size: int) -> int:
        """The number of coordinates that are kept of `size`, at least one."""
        return min(size, max(1, round(self.keep * size)))

    def drop(self, update: NDArray[np.float32]) -> None:
        """`top-k`: set all but the largest coordinates (by magnitude) of a noised update to zero, in place."""
        if self.rule != "top-k" or self.count(update.size) == update.size:
            return
        dropped = update.size - self.count(update.size)
        update[np.argpartition(np.abs(update), dropped)[:dropped]] = 0

    def mask(self, size: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
        """`random`: which coordinates are kept, shape (size,), drawn with a generator that knows no data; else None."""
        if self.rule != "random" or self.count(size) == size:
            return None
        mask = np.zeros(size, dtype=np.bool_)
        mask[generator.permutation(size)[: self.count(size)]] = True
        return mask
