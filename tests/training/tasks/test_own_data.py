"""Options of tasks with data of one's own, and shares that would leave ranks the same or nothing."""

from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, PartitionError, TaskError
from dpeer.training import Choices, forget, load_task
from dpeer.training.tasks.builtin import check_own_data
from tests.error_texts import refused

CSV: dict[str, Any] = {"path": "x.csv", "target": "y"}


@pytest.mark.parametrize(
    ("name", "options", "fragment"),
    [
        ("csv", {"path": True}, "task option path = True"),
        ("csv", CSV | {"kind": "regresion"}, "kind = 'regresion': input should be 'classification' or 'regression'"),
        ("csv", CSV | {"classes": "a"}, "task option classes = 'a'"),
        ("csv", CSV | {"classes": ["a", "a"]}, "task option classes = ['a', 'a']"),
        ("csv", CSV | {"ignore": {"a": 1}}, "task option ignore = {'a': 1}"),
        ("csv", CSV | {"kind": "regression", "classes": "a,b"}, "classes= is for kind=classification"),
        ("csv", CSV | {"path": "site-{rank}.csv"}, "'site-0.csv' does not exist: with path = 'site-{rank}.csv'"),
        ("image-folder", {"path": "x", "image_size": True}, "task option image_size = True"),
        ("image-folder", {"path": "x", "channels": 2}, "task option channels = 2"),
    ],
)
def test_an_option_that_cannot_be(name: str, options: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment, f"task '{name}'"):
        load_task(name, 0, 2, 0, options)


def test_a_share_of_data_of_ones_own() -> None:
    with refused(TaskError, "path = 's-{rank}.csv'", "--partition iid"):
        load_task("csv", 1, 4, 0, {"path": "s-{rank}.csv", "target": "y"}, Choices(partition="iid"))


@pytest.mark.parametrize(
    ("peers", "partition", "fragments"),
    [
        (
            [("csv", CSV)] * 3,
            None,
            ("--task csv: ranks 0 and 1 would hold the same", "'x.csv': divide"),
        ),
        ([("digits", {})] * 3, "own", ("--task digits: ranks 0 and 1 would hold the same data:",)),
        ([("csv", {"path": path}) for path in ("a", "site-{rank}", "site-1")], None, ("ranks 1 and 2", "site-1'")),
    ],
)
def test_ranks_that_would_hold_the_same_data(peers: Any, partition: str | None, fragments: tuple[str, ...]) -> None:
    with refused(TaskError, *fragments):
        check_own_data(peers, partition)


@pytest.mark.parametrize(
    ("groups", "choices", "fragment"),
    [
        (2, Choices(validation=0.5), "partition 'own': rank 0 gets 30 training and 30 test samples"),
        (1, Choices(), "partition 'own': rank 0 gets 60 training and 0 test samples"),
        (2, Choices(partition="iid"), "partition 'iid' would divide one group's samples"),
        (0, Choices(partition="group"), "partition 'group': the data do not say which group"),
    ],
)
def test_groups_that_cannot_be_divided(groups: int, choices: Choices, fragment: str, tmp_path: Path) -> None:
    forget()
    lines = [f"{n},p{n % (groups or 1)},{'ill' if n % 2 else 'well'}" for n in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["a,who,y", *lines]))
    options = {"path": str(tmp_path / "x.csv"), "target": "y", "group" if groups else "ignore": "who"}
    with refused(PartitionError, fragment):
        load_task("csv", 0, 2, 0, options, choices)
