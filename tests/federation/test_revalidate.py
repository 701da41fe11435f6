"""Settings that a script has changed since it made them."""

from pathlib import Path

import numpy as np
import pytest

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import Settings, revalidated
from tests.error_texts import refused


def test_options_that_were_changed_in_place_are_said() -> None:
    settings = Settings(size=3)
    settings.algorithm_options["mu"] = 0.2
    settings.task_options["path"] = "x.csv"
    settings.rank[1] = {"batch_size": 3}
    assert settings.model_dump(exclude_unset=True) == {"size": 3}, "pydantic does not know of them"
    again = revalidated(settings)
    assert {"algorithm_options", "task_options", "rank"} <= again.model_fields_set
    assert (again.algorithm_options, again.of_rank(1).batch_size) == ({"mu": 0.2}, 3)
    settings.algorithm_options["mu"] = 0.4
    assert again.algorithm_options == {"mu": 0.2}, "a run does not see what is changed while it goes on"
    again.rank[1].batch_size = 0
    with refused(ConfigurationError, "rank.1.batch_size = 0"):
        revalidated(again)


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("rounds", "5", "rounds = '5'"),
        ("body_lr", float("nan"), "body_lr = nan"),
        ("keep", "x", "keep = 'x'"),
        ("rank", {7: {"batch_size": 3}}, "rank.7: ranks of a federation of size 3 are 0..2"),
        ("task_options", {"shift": np.float32(1)}, "task_options.shift = np.float32(1.0)"),
        ("out", "a\0b", "--out 'a\\x00b' cannot be written"),
    ],
)
def test_what_was_assigned_is_checked_before_a_run(name: str, value: object, fragment: str, tmp_path: Path) -> None:
    made = Settings(size=3, out=tmp_path / "run")
    setattr(made, name, value)
    with refused(ConfigurationError, fragment):
        dpeer.run(made)
