"""The table of readings on the page of tasks: what `init`, `check`, a start and `predict` do with each cell."""

import csv
import datetime
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpeer.exceptions import TaskError
from dpeer.training.data.tables.check import check
from dpeer.training.data.tables.guess import guess
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.data.tables.readings import LARGEST, all_numbers, as_number, dates, is_code, numbers
from dpeer.training.data.tables.schema import MISSING, read_schema
from dpeer.training.data.tables.sheet import read_sheet
from dpeer.training.data.tables.table_data import table
from dpeer.training.use.new_data import read_rows
from tests.error_texts import refused

PAGE = (Path(__file__).parents[4] / "docs" / "tasks.md").read_text(encoding="utf-8")
ROWS = [
    tuple(part.strip() for part in line.strip("|").split("|"))
    for line in PAGE.partition("|cell|")[2].partition("\n\n")[0].splitlines()[2:]
]
"""Cell, column, and what each of the four does with the cell."""

PLAIN = {
    "number": [f"{50 * n}.5" for n in range(30)],
    "date": [f"2024-01-{n:02d}" for n in range(1, 31)],
    "yes-no": ["yes", "no"] * 15,
    "category": ["A", "B"] * 15,
}


def plain(column: str) -> list[str]:
    """The cells that stand beside the one that is tried."""
    kind, _, more = column.partition(" ")
    cells = PLAIN[kind.strip(",")]
    if kind == "date":
        return [datetime.date.fromisoformat(cell).strftime(more.split()[0]) for cell in cells]
    return [cell.replace(".", ",") for cell in cells] if "commas" in more else cells


def keys(column: str) -> str:
    kind, _, more = column.partition(" ")
    said = {"limits": "limits = true", "missing -999": "missing = [-999]", "decimal commas": "", "": ""}
    return (
        f"kind = {kind.strip(',')!r}\n"
        + {
            "number": "range = [-500, 40000]\n" + said.get(more, f"unit = {more!r}"),
            "date": f"format = {more.split()}\nrange = [2015-01-01, 2030-12-31]",
            "yes-no": "yes = ['yes', 'ja']\nno = ['no']",
            "category": "values = ['A', 'B']",
        }[kind.strip(",")]
    )


def by_init(cell: str, column: str) -> str:
    cells = [*plain(column), *([] if cell in MISSING else [cell.removesuffix("\u200b")] * 2)]
    found = guess("x", cells, decimal="," if "commas" in column else ".")
    if cell in found.strange:
        return "named"
    if cell in MISSING:
        return "gap"
    return "asked" if re.search(r"codes|\?", found.remark.replace("in which unit?", "")) else found.keys["kind"]


def shown(schema: Any, value: float, bound: float = 0.0) -> str:
    column = schema.columns["x"]
    if value != value:
        return "gap"
    if column.kind == "date":
        return str(column.since + datetime.timedelta(int(value - (value == int(value) and value > 11322))))
    if column.kind == "yes-no":
        return "yes" if value > 0 else "no"
    if column.kind == "category":
        return ("A", "B", "other")[int(value)]
    return f"{'<' if bound < 0 else '>' if bound else ''}{round(value, 3):g}"


def by_start(path: Path, schema: Any, file: Path) -> str:
    if check(schema, read_sheet(str(path))).problems:
        with refused(TaskError, "of 31 cells"):
            table(path=str(path), schema=str(file))
        return "refused"
    data = table(path=str(path), schema=str(file))
    return shown(schema, *data.train.inputs[-1].tolist())


def by_predict(path: Path, schema: Any) -> str:
    preparation = Preparation(schema, {"x": {"filling": 0.0, "mean": 0.0, "scale": 1.0}})
    found = read_rows(preparation, path, labels=False, leave_out=True)
    assert len(found) + found.left_out == 31
    if found.left_out:
        return "left out"
    inputs = dict(zip(preparation.names, found.inputs[-1].tolist(), strict=True))
    words = {"gap": "x is missing", "unknown": "x = other", "bound": "x is a bound"}
    expected = [f"x: {word}" for word, name in words.items() if inputs.get(name)]
    assert found.flags[-1] in (*expected, "x: cut", "")
    if inputs.get("x is missing"):
        return "gap"
    if schema.columns["x"].kind == "category":
        return next(word for word in ("A", "B", "other") if inputs[f"x = {word}"])
    return shown(schema, inputs["x"], inputs.get("x is a bound", 0.0))


@pytest.mark.parametrize(("cell", "column", "init", "start", "predict"), ROWS)
def test_the_table_of_readings(cell: str, column: str, init: str, start: str, predict: str, tmp_path: Path) -> None:
    cell = cell.strip("`").replace("\\u200b", "\u200b")
    path, file = tmp_path / "x.csv", tmp_path / "schema.toml"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, delimiter=";" if "commas" in column else ",")
        writer.writerows([("x", "y"), *((one, "ab"[n % 2]) for n, one in enumerate([*plain(column), cell]))])
    file.write_text(f"format = 1\n[target]\ncolumn = 'y'\nclasses = ['a', 'b']\n[columns.x]\n{keys(column)}\n")
    schema = read_schema(file)
    assert (by_init(cell, column), by_start(path, schema, file), by_predict(path, schema)) == (init, start, predict)


def test_the_table_has_forty_cells() -> None:
    assert len(ROWS) >= 40


@pytest.mark.parametrize(
    ("cell", "unit", "values"),
    [
        ("4.5 ×10^3/µl", "×10³/μl", [4.5]),  # noqa: RUF001
        ("4.5 ×10^3/µl", "/μl", [4500.0]),  # noqa: RUF001
        ("4.5 ×10^3/µl", "", [4500.0, 4.5]),  # noqa: RUF001
        ("1:30:00", "min", [90.0]),
        ("-0:00:30", "s", [-30.0]),
        ("10^3", "", [1000.0]),
        ("< 5 mg", "mg", [5.0]),
        ("-$5", "$", [-5.0]),
        ("$5 kg", "kg", []),
        ("9x10^99", "", []),
        ("1.5.", "", []),
        ("1e5 kg", "kg", []),
        ("", "", []),
    ],
)
def test_numbers_in_other_dress(cell: str, unit: str, values: list[float]) -> None:
    assert [one.value for one in numbers(cell, unit=unit)] == values


@given(
    st.text("0123456789.,-+<>()/:x\u00d7^*1 kge%$\u2212\u00b3\uff11\u2019", max_size=12) | st.text(max_size=8),
    st.sampled_from([".", ",", ""]),
    st.sampled_from(["", "kg", "h", "%"]),
)
def test_whatever_stands_in_a_cell_has_finite_readings(cell: str, decimal: str, unit: str) -> None:
    values = [one.value for one in numbers(cell, decimal, unit)]
    assert len(values) <= 4
    assert all(abs(value) <= LARGEST for value in values)
    dates(cell, ["%Y%m%d", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S%z"])


def test_dates_with_digits_that_touch_have_all_of_them() -> None:
    assert not dates("2020111", ["%Y%m%d"])
    assert [*dates("20200101 8:05", ["%Y%m%d %H:%M"])] == [datetime.datetime(2020, 1, 1, 8, 5)]
    assert [*dates("2020-1-1", ["%Y-%m-%d"])] == [datetime.datetime(2020, 1, 1)]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("120/80", "two readings (120 and 80 or 1.5): make two columns of it, or write one number: "),
        ("03:27", "two readings (3 h 27 min or 3 min 27 s): write times as h:mm:ss: "),
        ("1,789", "two readings (1.789 or 1789): write numbers without marks for thousands: "),
        ("72 kg", "a number in another unit than the column's, '': "),
        ("<5", "a bound, not a value: limits = true reads it: "),
    ],
)
def test_check_names_the_readings_and_the_way_out(cell: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "format = 1\n[target]\ncolumn = 'y'\nclasses = ['a', 'b']\n[columns.x]\nkind = 'number'\n"
    )
    (tmp_path / "x.csv").write_text(f'x,y\n1.5,a\n"{cell}",b\n')
    (problem,) = check(read_schema(tmp_path / "s.toml"), read_sheet(str(tmp_path / "x.csv"))).problems
    assert problem.line() == f"column 'x', 1 of 2 cells: {said}row 3: {cell!r}"


CELLS = st.from_regex(r"-?[0-9]{0,3}(\.[0-9]{0,3})?", fullmatch=True) | st.text("0123456789.-, e+", max_size=20)


@given(st.lists(CELLS, max_size=4), st.sampled_from([".", ",", ""]), st.booleans())
@example(["0.5", "-.5", "7.", "-0"], ".", False)
@example(["-007"], ".", False)
@example(["1" * 16], ".", False)
@example(["9" * 40], ".", True)
def test_numbers_at_once_are_those_of_the_cells(cells: list[str], decimal: str, codes: bool) -> None:
    found = all_numbers(cells, decimal, codes=codes)
    one_by_one = [None if not codes and is_code(cell, decimal) else as_number(cell, decimal) for cell in cells]
    if found is not None:
        assert found.tolist() == one_by_one
    elif decimal == "." and all(set(cell) <= set("0123456789.-") for cell in cells):
        assert None in one_by_one
