"""Private bits of these tests are fixed: their statistics come out the same each time."""

from collections.abc import Iterator

import pytest

from tests.conftest import private_bits_fixed


@pytest.fixture(autouse=True, scope="module")
def fixed_for_the_module() -> Iterator[None]:
    """For fixtures of the module, which come before those of a test."""
    with private_bits_fixed():
        yield


@pytest.fixture(autouse=True)
def fixed_for_the_test(fixed_private_bits: None) -> None:
    """From the same keys in whatever order tests run."""
