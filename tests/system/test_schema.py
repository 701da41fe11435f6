"""Sites with tables of their own and one schema."""

import json

import pytest

pytestmark = pytest.mark.slow

SCHEMA = """
format = 1
[target]
column = "outcome"
classes = ["well", "ill"]
[columns.age]
kind = "number"
range = [0, 120]
[columns.ward]
kind = "category"
values = ["A", "B"]
[columns.smoker]
kind = "yes-no"
yes = ["yes"]
no = ["no"]
"""


def test_sites_with_other_categories_and_without_a_class_train_together(simulate, tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for rank, (wards, outcomes) in enumerate((("AB", ("well", "ill", "well")), ("XYZ", ("ill",) * 3))):
        rows = [
            f"{'NA' if n % 6 == 0 else 20 + 3 * n},{wards[n % len(wards)]},{'yes' if n % 2 else 'no'},{outcomes[n % 3]}"
            for n in range(30)
        ]
        (tmp_path / f"site-{rank}.csv").write_text("\n".join(["age,ward,smoker,outcome", *rows]) + "\n")
    simulate(
        "--size", 2, "--schema", "schema.toml", "--task", "csv", "--task-option", "path=site-{rank}.csv", "--rounds", 2,
        "--body-epochs", 1, "--algorithm", "dfedavgm", "--out", "run",
    )  # fmt: skip
    found = [json.loads((tmp_path / "run" / f"rank-{rank}" / "preparation.json").read_text()) for rank in range(2)]
    assert found[0]["inputs"] == found[1]["inputs"]
    assert found[0]["statistics"] != found[1]["statistics"]
    summary = json.loads((tmp_path / "run" / "rank-1" / "summary.json").read_text())
    assert summary["class_counts"] == [0, 20]  # of 24, without those held out
