"""Reading the data sets that people download, as they come."""

from __future__ import annotations

from dpeer.training.datasets.pool import Data, Pool

__all__ = ["Data", "Pool"]
