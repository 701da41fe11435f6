"""The share of a round that waits for the line."""

from typing import Any

import pytest

from dpeer.results.records import line_share

ROUND = {
    "train_seconds": 5.0, "exchange_seconds": 4.5, "mix_seconds": 0.5, "receive_seconds": 3.0, "hidden_seconds": 1.0
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "share"),
    [({}, 0.2), ({"hidden_seconds": 3.0}, 0.0), ({"receive_seconds": 100.0}, 0.45), ({"receive_seconds": None}, None),
     ({"mix_seconds": "x"}, None), (dict.fromkeys(("train_seconds", "exchange_seconds", "mix_seconds"), 0.0), None)],
)  # fmt: skip
def test_it_is_what_comes_in_while_nothing_else_is_done(change: dict[str, Any], share: float | None) -> None:
    assert line_share({**ROUND, **change}) == share


def test_of_lines_of_earlier_versions_it_is_not_known() -> None:
    assert line_share({name: value for name, value in ROUND.items() if name != "receive_seconds"}) is None
    assert line_share({}) is None
