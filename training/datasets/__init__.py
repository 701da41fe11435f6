"""Reading data sets from the files that people download."""

from __future__ import annotations

from dpeer.training.datasets.pool import Data, Pool

__all__ = ["Data", "Pool"]
