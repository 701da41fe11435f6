"""The page that opens the package states where each sentence of the promise is tested."""

import re
from pathlib import Path

from dpeer import privacy

TESTS = Path(__file__).parents[1]


def test_the_promise_names_tests_that_exist() -> None:
    assert privacy.__doc__ is not None
    named = re.findall(r"[\w/]+/test_\w+\.py", privacy.__doc__)
    assert len(named) == len(set(named)) > 15
    assert [name for name in named if not (TESTS / name).is_file()] == []
    attacks = {"training/test_sample_leak.py", "training/test_sample_sensitivity.py", "training/test_sample_attacks.py"}
    assert attacks | {"federation/test_canary_attacks.py", "privacy/test_last_digits.py"} <= set(named)
