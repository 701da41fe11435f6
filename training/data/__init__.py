"""Reading data sets from the files that people download."""

from __future__ import annotations

from dpeer.training.data.pool import Data, Pool

__all__ = ["Data", "Pool"]
