"""Files that are no table are refused in one line; parquet's kinds of values become text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import TaskError
from dpeer.training.data.tables.sheet import read_sheet


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04aaaa\n", "is a zip archive, as .xlsx files are"),
        (b"\x1f\x8b\x08\x00\n", "is packed by gzip"),
        (b"%PDF-1.4\na,b\n1,2\n", "is a PDF"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html>\nx\n", "is a web page"),
        (b'{"a": 1}\n{"a": 2}\n', "is JSON"),
        (b"PAR1\x15\x04", "is parquet: name it .parquet"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(TaskError, match=message):
        read_sheet(str(tmp_path / "x.csv"))


def test_a_header_may_begin_with_pk(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("PK,b\n1,2\n", encoding="utf-8")
    assert read_sheet(str(tmp_path / "x.csv")).header == ("PK", "b")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_folder_of_spark_is_refused(tmp_path: Path, name: str) -> None:
    if name == "x.parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / name).mkdir()
    (tmp_path / name / "part-00000").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(TaskError, match="is a folder of 1 part files, as Spark writes them"):
        read_sheet(str(tmp_path / name))


def parquet(path: Path, **columns: Any) -> str:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(arrow.table(columns), path / "x.parquet")
    return str(path / "x.parquet")


def test_times_and_bytes_of_parquet_are_text(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    midnight = 1_577_836_800_000_000_000
    path = parquet(
        tmp_path,
        ns=arrow.array([midnight, midnight + 1000], arrow.timestamp("ns")),
        zone=arrow.array([midnight, midnight + 10**9], arrow.timestamp("ns", "UTC")),
        code=arrow.array([b"yes", None]),
    )
    assert {name: list(cells) for name, cells in read_sheet(path).cells.items()} == {
        "ns": ["2020-01-01", "2020-01-01 00:00:00.000001"],
        "zone": ["2020-01-01 00:00:00+00:00", "2020-01-01 00:00:01+00:00"],
        "code": ["yes", ""],
    }


def test_values_of_parquet_that_are_no_cells_are_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    for values, message in (
        (arrow.array([[1], [2]]), "column 'a' holds list"),
        (arrow.array([b"\xff"]), "column 'a' holds bytes that are no UTF-8 text"),
        (arrow.array([1], arrow.timestamp("ns")), "column 'a' has times finer than microseconds"),
    ):
        with pytest.raises(TaskError, match=message):
            read_sheet(parquet(tmp_path, a=values))
