"""Which of many cases alike `make test` leaves to `make test-all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """All cases of one parameter, of which `make test` takes the first of each `step`, and `make test-all` all."""
    return [case if at % step == 0 else pytest.param(case, marks=pytest.mark.long) for at, case in enumerate(cases)]


def only(taken: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases of one parameter, of which `make test` takes those that are named, and `make test-all` all."""
    here = list(taken)
    return [case if case in here else pytest.param(case, marks=pytest.mark.long) for case in cases]
