"""The threads of the dense computations."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine the threads of a small dense computation mostly wait for one another."""
    with threadpool_limits(1):
        yield
