"""`dpeer schema`: the commands as people type them."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

HEADER = "patient,age,ward,smoker,admitted,outcome"


def table(path: Path, *, ward: str = "A", rows: int = 40, **last: str) -> Path:
    """Rows of twenty patients; the cells of the last row may be others."""
    lines = [HEADER]
    for n in range(rows):
        row = {
            "patient": f"p{n // 2}", "age": "" if n % 7 == 0 else str(20 + 3 * n % 61), "ward": ward if n % 3 else "B",
            "smoker": "ja" if n % 2 else "nein", "admitted": f"2024-02-{1 + n % 28:02d}",
            "outcome": "ill" if n % 4 else "well",
        }  # fmt: skip
        lines.append(",".join((row | (last if n == rows - 1 else {})).values()))
    path.write_text("\n".join(lines) + "\n")
    return path


YES_NO = 'kind = "yes-no", yes = ["ja"], no = ["nein"]'


@pytest.fixture
def proposed(dpeer: Command, in_tmp_path: Path) -> Any:
    """The schema that is proposed from visits.csv, and what was printed."""
    table(in_tmp_path / "visits.csv")
    return dpeer("schema", "init", "visits.csv", "--target", "outcome")


def test_init_proposes_and_check_fits(proposed: Any, dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (proposed.code, proposed.err) == (0, "")
    content = tomllib.loads(Path("schema.toml").read_text())
    assert {name: column["kind"] for name, column in content["columns"].items()} == {
        "patient": "group", "age": "number", "ward": "category", "smoker": "yes-no", "admitted": "date",
    }  # fmt: skip
    assert content["target"] == {"column": "outcome", "kind": "classification", "classes": ["ill", "well"]}
    assert "age: in which unit?" in proposed.out
    assert "Review it before you share it" in proposed.out
    ended = dpeer("schema", "check", "visits.csv")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "visits.csv fits schema.toml: 40 rows, 20 groups, 4 columns to learn from",
        "classes: ill 30, well 10",
        "missing: age 6",
        "2 of 40 rows equal another row in inputs: equal ones are all trained on, or all held out",
    ]


def test_check_lists_what_does_not_fit(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    table(in_tmp_path / "other.csv", age="150", smoker="perhaps", ward="rare", admitted="yesterday")
    ended = dpeer("schema", "check", "other.csv", "--schema", "schema.toml")
    assert ended.code == 2
    assert ended.err == "dpeer: other.csv: 3 cells in 3 columns do not fit schema.toml\n"
    low, high = tomllib.loads(Path("schema.toml").read_text())["columns"]["age"]["range"]
    assert ended.out.splitlines() == [
        'column \'admitted\', 1 of 40 cells: expected kind = "date", format = ["%Y-%m-%d"], '
        "range = [2023-01-01, 2025-12-31]: row 41: 'yesterday'",
        f"column 'age', 1 of 40 cells: outside the range [{low}, {high}]: row 41: '150'",
        f"column 'smoker', 1 of 40 cells: expected {YES_NO}: row 41: 'perhaps'",
    ]


def test_thousands_are_counted_and_shown_if_wanted(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    content = table(in_tmp_path / "visits.csv", rows=3000).read_text().replace("ja", "X")
    for n in range(9):
        content = content.replace("X,2024-02-28", f"X{n},2024-02-28", 1)
    (in_tmp_path / "many.csv").write_text(content.replace("X,2024-02-28", "Y,2024-02-28"))
    ended = dpeer("schema", "check", "many.csv")
    assert ended.code == 2
    (line,) = ended.out.splitlines()
    assert line.startswith(
        f"column 'smoker', 1500 of 3000 cells: expected {YES_NO}: 'X' 1393 times, first in row 3, "
        "row 29: 'X0', row 57: 'X1', "
    )
    assert line.endswith("row 253: 'X8', and 98 more (--all shows them)")
    (line,) = dpeer("schema", "check", "many.csv", "--all").out.splitlines()
    assert line.count("row ") == 1500


def test_other_and_classes_without_rows_are_said(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    content = table(in_tmp_path / "other.csv", ward="rare").read_text().replace("well", "ill")
    (in_tmp_path / "other.csv").write_text(content.replace(HEADER, HEADER + ",note").replace("ill\n", "ill,x\n"))
    ended = dpeer("schema", "check", "other.csv")
    assert ended.code == 0
    assert ended.out.splitlines()[1:] == [
        "classes: ill 40, well 0",
        "no row is of class 'well': this site learns of it from the others",
        "missing: age 6",
        "other: ward 26 ('rare' 26)",
        "2 of 40 rows equal another row in inputs: equal ones are all trained on, or all held out",
        "not in the schema, and left out: note",
    ]


def test_strangers_are_named_with_their_rows_and_not_written_down(dpeer: Command, in_tmp_path: Path) -> None:
    table(in_tmp_path / "visits.csv", admitted="2024-02-30", smoker="perhaps", ward="A\u200b")
    ended = dpeer("schema", "init", "visits.csv", "--target", "outcome")
    asked = "1 of 40 cells is no date: correct it, or is it a word for a gap (missing = [...])?"
    assert f"admitted: {asked} (row 41: '2024-02-30')\n" in ended.out
    assert "smoker: 1 of 40 cells is no yes or no: " in ended.out
    assert "(row 41: 'perhaps')" in ended.out
    assert "ward: invisible signs were taken off 26 cells" in ended.out
    content = Path("schema.toml").read_text()
    assert f'# {asked}\nkind = "date"' in content
    assert not any(word in content for word in ("2024-02-30", "perhaps"))
    ended = dpeer("schema", "check", "visits.csv")
    assert "column 'admitted', 1 of 40 cells: expected kind = " in ended.out


def test_a_start_refuses_a_site_in_another_unit_as_check_does(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    lines = table(in_tmp_path / "site-0.csv").read_text().splitlines()
    moved = [
        ",".join([row[0], str(int(row[1] or 20) + 500), *row[2:]]) for row in (line.split(",") for line in lines[1:])
    ]
    (in_tmp_path / "site-0.csv").write_text("\n".join([lines[0], *moved]) + "\n")
    table(in_tmp_path / "site-1.csv")
    ended = simulate(dpeer, "--schema", "schema.toml")
    assert ended.code == 2
    said = "column 'age', 40 of 40 cells: outside the range [10, 90]: '520' 6 times, first in row 2, row 3: '523', "
    assert said in ended.err
    assert said in dpeer("schema", "check", "site-0.csv").out


def test_proposals_of_several_sites_are_merged(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    content = Path("schema.toml").read_text()
    Path("a.toml").write_text(content)
    Path("b.toml").write_text(
        content.replace('unit = ""', 'unit = "months"')
        .replace('["A", "B"]', '["B", "C"]')
        .replace("range = [10", "range = [5")
    )
    ended = dpeer("schema", "merge", "a.toml", "b.toml", "--out", "all.toml")
    assert ended.code == 0
    asked = "which unit? '' in a.toml, 'months' in b.toml"
    assert f"age: {asked}\n" in ended.out
    merged = tomllib.loads(Path("all.toml").read_text())["columns"]
    assert merged["ward"]["values"] == ["A", "B", "C"]
    assert merged["age"]["range"][0] == 5
    assert f"# {asked}\n" in Path("all.toml").read_text()
    assert dpeer("schema", "check", "visits.csv", "--schema", "all.toml").code == 0
    assert "exists, maybe with edits" in dpeer("schema", "merge", "a.toml", "b.toml", "--out", "all.toml").err
    assert (
        "schema merge a.toml: expected two files or more" in dpeer("schema", "merge", "a.toml", "--out", "c.toml").err
    )


def simulate(dpeer: Command, *options: object) -> Any:
    return dpeer("simulate", "--size", 2, "--task", "csv", "--rounds", 1, "--body-epochs", 1, "--head-epochs", 1,
                 "--task-option", "path=site-{rank}.csv", *options)  # fmt: skip


def preparations() -> list[Any]:
    from dpeer.training.data.tables.prepare import Preparation

    files = [Path(f"dpeer-run/rank-{rank}/preparation.json") for rank in range(2)]
    return [Preparation.from_json(json.loads(file.read_text())) for file in files]


def test_tables_without_a_schema_name_their_own_columns_and_classes(dpeer: Command, in_tmp_path: Path) -> None:
    for rank, (name, word) in enumerate((("weight", "well"), ("Weight", "fine"))):
        rows = [f"{n},{n * n},{word if n % 3 else 'ill'}" for n in range(30)]
        (in_tmp_path / f"site-{rank}.csv").write_text("\n".join([f"age,{name},outcome", *rows]) + "\n")
    target = ("--task-option", "target=outcome")
    refused = simulate(dpeer, *target)
    assert refused.code == 4
    assert refused.complaints[-1] in [
        f"dpeer: input columns: '{name}' missing or different at rank {other}: call the columns alike on both, or say "
        "with columns= which are inputs"
        for name, other in (("weight", 1), ("Weight", 0))  # whoever is the first to see it
    ]
    refused = simulate(dpeer, *target, "--task-option", "columns=age", "--algorithm", "dfedavgm")
    assert refused.code == 4
    assert refused.complaints[-1] in [
        f"dpeer: classes: '{name}' missing or different at rank {other}: name all classes on both with classes="
        for name, other in (("well", 1), ("fine", 0))
    ]
    assert simulate(dpeer, *target, "--task-option", "columns=age").code == 0, "heads stay at home"


def test_under_privacy_nothing_of_the_data_is_computed(proposed: Any, dpeer: Command, in_tmp_path: Path) -> None:
    for rank in range(2):
        table(in_tmp_path / f"site-{rank}.csv")
    private = ("--schema", "schema.toml", "--privacy", "client", "--noise-multiplier", 2)
    assert simulate(dpeer, *private).code == 0
    found = preparations()
    statistics = [preparation.to_json()["statistics"] for preparation in found]
    assert statistics[0] == statistics[1]
    assert {*statistics[0]["age"]} == {"filling"}
    refused = simulate(dpeer, *private, "--out", "other", "--standardize")
    assert refused.code == 2
    assert "--standardize: with --privacy the ranges of the schema scale numbers" in refused.err
    content = Path("schema.toml").read_text()
    Path("schema.toml").write_text("\n".join(line for line in content.splitlines() if not line.startswith("range")))
    refused = simulate(dpeer, *private, "--out", "other")
    assert refused.code == 2
    assert "the schema gives no range for 'admitted', 'age': with --privacy or --no-standardize" in refused.err
