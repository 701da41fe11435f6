"""Cells of table files as text, and as a schema reads them, however they are written."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import TaskError
from dpeer.training.data.tables.decode import Verdict, decode
from dpeer.training.data.tables.schema import Category, Date, Number
from dpeer.training.data.tables.sheet import read_sheet
from tests.error_texts import refused


def test_a_gap_that_is_a_number_is_one_however_it_is_written() -> None:
    column = Number.model_validate({"kind": "number", "range": [0, 30], "missing": [-1]})
    cells = ("-1", "-1.0", "-1,0", "-01", "1", "-1.5")
    found = decode(column, cells, decimal="")
    assert [*found.verdicts] == [Verdict.GAP] * 4 + [Verdict.FITS, Verdict.BEYOND]


@pytest.mark.parametrize(
    ("values", "cells", "known"),
    [
        (["1", "2"], ("1.0", "2"), [True, True]),
        ([1.0, 2.0], ("1", "2.0"), [True, True]),
        (["250", "401"], ("250.0", "250.01"), [False, False]),  # with 250.01 beside it the zero is a part of the code
        (["7", "10"], ("7", "07", "007", "7.0"), [True, False, False, False]),
        (["100", "1E3"], ("1E2", "100", "1000"), [False, True, False]),
        ([38341003, 44054006], ("38341003", "44054006"), [True, True]),
        (["900000000000012004"], ("900000000000012004", "900000000000012005"), [True, False]),
        (["Berlin", "Köln"], ("BERLIN", "Ko\u0308ln"), [True, False]),  # cells of a file are composed when it is read
        (["a", "A"], ("a", "A", "b"), [True, True, False]),
        (["25,3", "1.10", "7"], ("25.3", "1.10", "1.1", "7"), [True, True, False, True]),
    ],
)
def test_codes_are_text_and_only_1_equals_1_0(values: list[Any], cells: tuple[str, ...], known: list[bool]) -> None:
    column = Category.model_validate({"kind": "category", "values": values})
    assert [one == Verdict.FITS for one in decode(column, cells).verdicts] == known


def test_a_category_knows_its_numbers_with_another_decimal_mark() -> None:
    column = Category.model_validate({"kind": "category", "values": ["25.3", "1.789"]})
    found = decode(column, ("25,3", "1,789", "9,5"), decimal=",")
    assert [*found.verdicts] == [Verdict.FITS, Verdict.OTHER, Verdict.OTHER], "1.789 may be 1789"
    assert decode(column, ("25,3",)).verdicts[0] == Verdict.OTHER, "a comma is no decimal mark there"


def test_a_number_that_may_be_two_is_none() -> None:
    column = Number.model_validate({"kind": "number"})
    assert [*decode(column, ("12,5", "1.789", "1.234,5"), decimal=",").values[[0, 2]]] == [12.5, 1234.5]
    assert decode(column, ("12,5", "1.789"), decimal=",").verdicts[1] == Verdict.DOUBLE
    assert decode(column, ("1 789", "1\u202f789,5", "1\u2019789"), decimal=",").values.tolist() == [1789, 1789.5, 1789]


@pytest.mark.parametrize(
    ("ends", "year"),
    [
        (("1920-01-01", "2012-12-31"), 1947), (("1950-01-01", "2049-12-31"), 2047), (None, None),
        (("1900-01-01", "2049-12-31"), None), (("1990-01-01", "2020-12-31"), None),
    ],
)  # fmt: skip
def test_two_digits_of_a_year_take_the_one_century_of_the_range(ends: Any, year: int | None) -> None:
    column = Date.model_validate({"kind": "date", "format": ["%d.%m.%y"], "range": ends})
    found = decode(column, ("29.03.47",))
    assert found.verdicts[0] == (Verdict.WRONG if year is None else Verdict.FITS)
    if year is not None:
        assert found.values[0] == (datetime.date(year, 3, 29) - datetime.date(2000, 1, 1)).days


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("first", ["", "sep=;\n"])
def test_files_as_excel_and_macos_write_them(mark: str, first: str, tmp_path: Path) -> None:
    """A line that names the mark, a header with commas in quotes, decomposed letters, bytes that name the encoding."""
    path = tmp_path / "t.csv"
    path.write_bytes(f'{first}"Gro\u0308\u00dfe, cm, kg";"a, b"\n1,5;x\n12;y\n'.encode(mark))
    sheet = read_sheet(str(path))
    assert sheet.header == ("Gr\u00f6\u00dfe, cm, kg", "a, b")
    assert sheet.cells["a, b"] == ("x", "y")
    assert sheet.decimal == ","
    assert [*sheet.places] == ([3, 4] if first else [2, 3])


def test_a_row_of_gaps_is_a_row_but_not_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n,\nPK,b\n1,2\n,\n  \n3,4\n,\n,\n")
    sheet = read_sheet(str(tmp_path / "t.csv"))
    assert sheet.cells == {"PK": ("1", "", "3"), "b": ("2", "", "4")}
    assert [*sheet.places] == [4, 5, 7]


def test_times_and_bytes_of_parquet_are_text(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    midnight = 1_577_836_800_000_000_000
    columns = {
        "ns": arrow.array([midnight, midnight + 1000], arrow.timestamp("ns")),
        "zone": arrow.array([midnight, midnight + 10**9], arrow.timestamp("ns", "UTC")),
        "code": arrow.array([b"yes", None]),
    }
    write_table(arrow.table(columns), tmp_path / "x.parquet")
    found = read_sheet(str(tmp_path / "x.parquet")).cells
    assert {name: list(cells) for name, cells in found.items()} == {
        "ns": ["2020-01-01", "2020-01-01 00:00:00.000001"],
        "zone": ["2020-01-01 00:00:00+00:00", "2020-01-01 00:00:01+00:00"],
        "code": ["yes", ""],
    }


def test_signs_that_nobody_sees_are_taken_off_and_counted(tmp_path: Path) -> None:
    wards = ("ICU", "IC\u200bU", "I\u00adCU", "\ufeffICU", "ICU\u2060", "\u200eICU")
    rows = "".join(f"{ward},a\u00a0b,1\n" for ward in wards)
    (tmp_path / "t.csv").write_text(f"ward,n\u200bote,y\n{rows}")
    sheet = read_sheet(str(tmp_path / "t.csv"))
    assert sheet.header == ("ward", "note", "y")
    assert {*sheet.cells["ward"]} == {"ICU"}
    assert {*sheet.cells["note"]} == {"a b"}
    assert sheet.hidden == {"ward": 5, "note": 7}  # with its name


def test_text_of_parquet_is_as_that_of_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    columns = {"Gro\u0308\u00dfe": ["Ko\u0308ln", "K\u200b\u00f6ln"], "n": [1, 2]}
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), tmp_path / "x.parquet")
    sheet = read_sheet(str(tmp_path / "x.parquet"))
    assert {name: [*cells] for name, cells in sheet.cells.items()} == {
        "Gr\u00f6\u00dfe": ["K\u00f6ln", "K\u00f6ln"], "n": ["1", "2"],
    }  # fmt: skip
    assert sheet.hidden == {"Gr\u00f6\u00dfe": 1}


def test_durations_of_parquet_are_numbers(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    durations = [26 * 3_600_000 + 61_000, -1500, 0]
    columns = {"t": arrow.array(durations, arrow.duration("ms")), "s": arrow.array([1, 2, 90], arrow.time32("s"))}
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), tmp_path / "x.parquet")
    cells = read_sheet(str(tmp_path / "x.parquet")).cells
    assert cells["t"] == ["26:01:01", "-0:00:01.500000", "0:00:00"]
    column = Number.model_validate({"kind": "number", "unit": "s"})
    found = decode(column, cells["t"])
    assert found.values.tolist() == [one / 1000 for one in durations]
    assert found.dressed == {"as h:mm:ss": 3}
    assert decode(column, cells["s"]).values.tolist() == [1, 2, 90]


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (f'a,b\n1,2\n3,"{"x" * 140_000}"\n', "has a cell of more than 131,072 characters after row 2: close its quote"),
        ("# from the laboratory\na,b\n1,2\n", "begins with a comment, '# from the laboratory': the first line must"),
        ("# from the laboratory\na;b\n1;2\n", "begins with a comment"),
        ("a,b\n1,2,\n3,4,\n", "each row ends with a comma and the header does not: take it off the rows"),
        ("a;b\n1;2;\n3;4;\n", "each row ends with a semicolon"),
        ("a,b\n1,2,\n3,4,5\n", "row 2 has 3 cells, the header 2"),
    ],
)
def test_a_csv_whose_rows_do_not_fit_its_header(content: str, fragment: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content)
    with refused(TaskError, "x.csv'", fragment):
        read_sheet(str(tmp_path / "x.csv"))


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("x.csv", b"a,b,y\n1,2,\xe4\n", "is not UTF-8 text"),
        ("x.csv", b"", "is empty"),
        ("x.csv", b"PK\x03\x04a\xff\n", "is a zip archive"),
        ("x.csv", b"\x1f\x8b\x08\x00\n", "is packed by gzip"),
        ("x.csv", b"\xef\xbb\xbf\n<!DOCTYPE html>\nx\n", "is a web page"),
        ("x.csv", b"PAR1\x15\x04", "is parquet"),
        ("x.parquet", b"no parquet", "cannot be read as parquet"),
    ],
)
def test_a_file_of_another_kind_is_refused(name: str, content: bytes, fragment: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(TaskError, f"'{tmp_path}/{name}' {fragment}"):
        read_sheet(str(tmp_path / name))


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with refused(TaskError, f"'{tmp_path}' is a folder"):
        read_sheet(str(tmp_path))
    (tmp_path / "part-0").write_text("a,b\n1,2\n")
    with refused(TaskError, "is a folder of 1 part files"):
        read_sheet(str(tmp_path))


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        (lambda arrow: arrow.array([[1], [2]]), "holds list<"),
        (lambda arrow: arrow.array([b"\xff"]), "holds bytes that are no UTF-8 text"),
        (lambda arrow: arrow.array([1], arrow.timestamp("ns")), "has times finer than microseconds"),
    ],
)
def test_a_type_of_parquet_that_no_cell_has_is_refused(values: Any, fragment: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"a": values(arrow)}), tmp_path / "x.parquet")
    with refused(TaskError, "x.parquet', column 'a' ", fragment):
        read_sheet(str(tmp_path / "x.parquet"))
