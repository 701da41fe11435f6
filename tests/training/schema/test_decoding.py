"""Cells as a schema reads them, however they are written."""

from pathlib import Path

import numpy as np
import pytest

from dpeer.exceptions import TaskError
from dpeer.training.inputs import as_targets
from dpeer.training.schema.decoding import Verdict, decode
from dpeer.training.schema.kinds import Category, Number
from dpeer.training.schema.sheet import read_sheet


def test_a_gap_that_is_a_number_is_one_however_it_is_written() -> None:
    column = Number.model_validate({"kind": "number", "range": [0, 30], "missing": [-1]})
    cells = ("-1", "-1.0", "-1,0", "-01", "1", "-1.5")
    found = decode(column, cells, comma=True)
    assert [*found.verdicts] == [Verdict.GAP] * 4 + [Verdict.FITS, Verdict.BEYOND]


def test_a_code_may_have_a_decimal_comma_where_numbers_do() -> None:
    column = Category.model_validate({"kind": "category", "values": ["1", "2"]})
    assert [*decode(column, ("1,0", "2", "1.0"), comma=True).verdicts] == [Verdict.FITS] * 3
    assert decode(column, ("1,0",)).verdicts[0] == Verdict.OTHER


def test_a_row_of_gaps_is_a_row_but_not_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n,\na,b\n1,2\n,\n  \n3,4\n,\n,\n")
    sheet = read_sheet(str(tmp_path / "t.csv"))
    assert sheet.cells == {"a": ("1", "", "3"), "b": ("2", "", "4")}
    assert [*sheet.places] == [4, 5, 7]


def test_numbers_that_32_bits_do_not_tell_apart_are_refused() -> None:
    with pytest.raises(
        TaskError, match=r"column 'y': its numbers are about 1e.09 and differ by about 5.77, .* subtract a constant"
    ):
        as_targets(1e9 + np.arange(20.0), "column 'y'")
    assert as_targets(1e9 + np.arange(20.0) * 1e5, "y").shape == (20, 1)
    assert as_targets(np.array([1e9, 1e9]), "y").flatten().tolist() == [1e9, 1e9]
