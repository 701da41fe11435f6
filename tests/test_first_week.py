"""docs/first-week.md, from the tables of eight sites to predictions."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "first-week.md").read_text(encoding="utf-8")
SITES = range(8)

pytestmark = pytest.mark.slow


@pytest.fixture
def tables(tmp_path, run_program):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_program(ROOT / "examples" / "tables.py", "visits", "first-week/tables")
    return tmp_path / "first-week" / "tables"


def printed_after(command: str) -> str:
    """The block that follows a command on the page."""
    _, _, rest = PAGE.partition(f"    {command}\n")
    return re.findall(r"```\n(.*?)```", rest, flags=re.DOTALL)[0]


def test_the_page_shows_what_is_printed_says_how_the_sites_differ_and_comes_to_a_prediction_of_every_row(
    tables, dpeer, monkeypatch, tmp_path
):
    monkeypatch.setenv("COLUMNS", "80")
    for command, code in (
        ("schema init first-week/tables/site-0.csv --target outcome --out first-week/schema.toml", 0),
        ("schema check first-week/tables/site-3.csv --schema first-week/schema.toml", 2),
        ("schema check first-week/tables/site-5.csv --schema examples/visits-schema.toml", 0),
    ):
        ended = dpeer(*command.split())
        assert ended.code == code, ended.err
        lines = [line.rstrip() for line in (ended.out + ended.err).splitlines()]
        assert lines == printed_after(f"dpeer {command}").splitlines()

    # The reviewed schema is the proposed one with what the page says.
    reviewed = (ROOT / "examples" / "visits-schema.toml").read_text()
    (changes,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    message = {line.partition("  ")[0].strip() for line in changes.splitlines() if " = " in line}

    def keys(text: str) -> set[str]:
        return {line for line in text.splitlines() if " = " in line and not line.startswith("#")}

    new = keys(reviewed) - keys((tmp_path / "first-week" / "schema.toml").read_text())
    assert {line for line in new if not line.startswith("unit")} == message
    for rank in SITES:
        assert (
            dpeer("schema", "check", tables / f"site-{rank}.csv", "--schema", "examples/visits-schema.toml").code == 0
        )

    small = ("--rounds", 2, "--body-epochs", 1)
    assert dpeer("simulate", "--federation", "examples/eight-hospitals.toml", *small).code == 0
    for rank in SITES:
        run = tmp_path / "first-week" / "run" / f"rank-{rank}"
        counts = json.loads((run / "summary.json").read_text())["class_counts"]
        assert (counts[1] == 0) == (rank == 5), "no intensive care"
        out = tmp_path / f"predictions-{rank}.csv"
        assert dpeer("predict", "--run", run, "--input", tables / f"new-{rank}.csv", "--output", out).code == 0
        with out.open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == 400
        assert {row["predicted"] for row in found} <= {"home", "icu", "ward"}


@pytest.mark.parametrize("kind", ["income", "biopsies"])
def test_the_other_tables_have_the_classes_that_they_say(kind, tmp_path, run_program):
    run_program(ROOT / "examples" / "tables.py", kind, "tables")
    lacking = {"income": (6, "high"), "biopsies": (7, "malignant")}[kind]
    for rank in SITES:
        with (tmp_path / "tables" / f"site-{rank}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        classes = {list(row.values())[-1] for row in rows}
        assert (lacking[1] not in classes) == (rank == lacking[0])
        with (tmp_path / "tables" / f"new-{rank}.csv").open(newline="") as file:
            assert list(rows[0])[:-1] == next(csv.reader(file))
