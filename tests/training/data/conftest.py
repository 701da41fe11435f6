"""Real data sets, where this checkout lies beside them."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "../shared/data"


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("there are no real data sets in ../shared/data")
    return SHARED.resolve()
