"""Sites with tables of their own, each a process: one schema, and what is said where there are two."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCHEMA = """
format = 1

[target]
column = "outcome"
classes = ["well", "ill"]

[columns.age]
kind = "number"
unit = "years"
range = [0, 120]

[columns.ward]
kind = "category"
values = ["A", "B"]

[columns.smoker]
kind = "yes-no"
yes = ["yes"]
no = ["no"]
"""
TRAINS = ("--task", "csv", "--rounds", 2, "--body-epochs", 1, "--head-epochs", 1)


def write(folder: Path, rank: int, *, wards: str = "AB", outcomes: tuple[str, ...] = ("well", "ill")) -> None:
    rows = [
        f"{'NA' if n % 6 == 0 else 20 + 3 * n},{wards[n % len(wards)]},{'yes' if n % 2 else 'no'},"
        f"{outcomes[n % 3 % len(outcomes)]}"
        for n in range(30)
    ]
    (folder / f"site-{rank}.csv").write_text("\n".join(["age,ward,smoker,outcome", *rows]) + "\n")


def test_sites_with_other_categories_and_without_a_class_train_together(
    dpeer: Callable[..., Any], simulate: Callable[..., None], results: Callable[..., Any], tmp_path: Path
) -> None:
    """In processes as in one, and to the same bits; with algorithms that share the whole model, too."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    write(tmp_path, 0)
    write(tmp_path, 1, wards="XYZ", outcomes=("ill",))
    common = ("--size", 2, "--schema", "schema.toml", "--task-option", "path=site-{rank}.csv", *TRAINS)
    run = dpeer("cluster", *common, "--algorithm", "dfedavgm", "--out", "run")
    assert "mean" in run.succeed()
    simulate(*common, "--algorithm", "dfedavgm", "--out", "simulated")
    assert results("run", 2) == results("simulated", 2)
    found = [json.loads((tmp_path / "run" / f"rank-{rank}" / "preparation.json").read_text()) for rank in range(2)]
    assert found[0]["inputs"] == found[1]["inputs"]
    assert found[0]["statistics"] != found[1]["statistics"]
    summary = json.loads((tmp_path / "run" / "rank-1" / "summary.json").read_text())
    assert summary["class_counts"] == [0, 20]  # of 24, without those held out


def started(dpeer: Callable[..., Any], base: int, *options: tuple[object, ...]) -> list[str]:
    """What two peers say that refuse each other."""
    common = ("--size", 2, "--base-port", base, "--threads", 1, "--out", "run")
    peers = [dpeer("start", "--rank", rank, *common, *TRAINS, *option) for rank, option in enumerate(options)]
    assert [peer.wait() for peer in peers] == [4, 4]
    return [peer.output.splitlines()[-1] for peer in peers]


def test_a_difference_of_schemas_names_the_columns(
    dpeer: Callable[..., Any], free_ports: Callable[[int], int], tmp_path: Path
) -> None:
    (tmp_path / "one.toml").write_text(SCHEMA)
    (tmp_path / "other.toml").write_text(SCHEMA.replace("years", "months").replace("columns.smoker", "columns.tobacco"))
    for rank in range(2):
        write(tmp_path, rank)
    (tmp_path / "site-1.csv").write_text((tmp_path / "site-1.csv").read_text().replace("smoker", "tobacco"))
    message = started(
        dpeer, free_ports(2),
        ("--task-option", "path=site-0.csv", "--schema", "one.toml"),
        ("--task-option", "path=site-1.csv", "--schema", "other.toml"),
    )  # fmt: skip
    advice = "use the same schema.toml on both"
    for rank, own in enumerate(("smoker", "tobacco")):
        them = f"rank {1 - rank}"
        assert message[rank] == (
            f"dpeer: schema: 'age' is not defined alike here and at {them}, {own!r} is here and not at {them}, {them} "
            f"has 1 that is not here: {advice}"
        )
    assert "tobacco" not in message[0]
