"""A schema proposed from a table, and one of several sites' proposals: kinds, what is asked, and no rare value."""

import datetime
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training.data.tables.check import check
from dpeer.training.data.tables.guess import guess, outward
from dpeer.training.data.tables.propose import as_toml, merge, propose
from dpeer.training.data.tables.schema import Schema, parsed
from dpeer.training.data.tables.sheet import Sheet
from tests.error_texts import refused


def kinds_of(name: str, *cells: str, times: int = 1) -> dict[str, Any]:
    return guess(name, [*cells] * times, decimal=".").keys


@pytest.mark.parametrize(
    ("name", "cells", "times", "expected"),
    [
        ("age", [str(n) for n in range(20, 80, 3)], 1, {"kind": "number", "unit": "", "range": [10.0, 90.0]}),
        ("weight_kg", ["61.5", "70.2", "88.1"], 5, {"kind": "number", "unit": "kg", "range": [50.0, 100.0]}),
        ("creatinine (mg/dl)", ["0.7", "1.25", "2.5"], 5, {"kind": "number", "unit": "mg/dl", "range": [0.0, 4.0]}),
        ("raucht", ["ja", "nein"], 5, {"kind": "yes-no", "yes": ["ja"], "no": ["nein"]}),
        ("dead", ["0", "1"], 5, {"kind": "yes-no", "yes": ["1"], "no": ["0"]}),
        ("ward", ["A1", "B2"], 5, {"kind": "category", "values": ["A1", "B2"]}),
        ("stage", ["1", "2", "3"], 20, {"kind": "category", "values": ["1", "2", "3"]}),
        ("patient", [f"p{n}" for n in range(9)], 2, {"kind": "group"}),
        ("patient_id", [str(n) for n in range(9)], 2, {"kind": "group"}),
        ("", [str(n) for n in range(30)], 1, {"kind": "ignore"}),
        ("row", [str(n) for n in range(30)], 1, {"kind": "ignore"}),
        ("name", [f"Person {n}" for n in range(30)], 1, {"kind": "ignore"}),
        ("complaint", [f"pain {n}" for n in range(20)], 4, {"kind": "text"}),
        ("empty", [], 1, {"kind": "ignore"}),
    ],
)
def test_kinds(name: str, cells: list[str], times: int, expected: dict[str, Any]) -> None:
    assert kinds_of(name, *cells, times=times) == expected


@pytest.mark.parametrize(
    ("cells", "format_"),
    [
        (["2024-02-29", "2023-12-31"], "%Y-%m-%d"),
        (["29.02.2024"], "%d.%m.%Y"),
        (["29/02/2024", "01/02/2024"], "%d/%m/%Y"),
        (["02/29/2024"], "%m/%d/%Y"),
        (["20240229", "20231231"], "%Y%m%d"),
        (["2024-02-29 10:30:00"], "%Y-%m-%d %H:%M:%S"),
        (["2024-02-29 10:30:00", "2024-02-28"], ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S"]),
    ],
)
def test_dates(cells: list[str], format_: Any) -> None:
    message = kinds_of("day", *cells)
    assert (message["kind"], message["format"]) == ("date", format_)
    assert str(message["range"][0]) in ("2022-01-01", "2023-01-01")
    assert str(message["range"][1]) == "2025-12-31"


def test_what_is_unsure_is_asked() -> None:
    assert "both" in guess("day", ["01/02/2024", "03/04/2024"], decimal=".").remark
    found = guess("grade", ["1", "2", "3", "4"] * 10, decimal=".")
    assert 'write kind = "number" and range = [0, 5]' in found.remark
    assert guess("age", ["20", "31.5"], decimal=".").remark == "in which unit?"


def test_rare_values_and_extremes_are_not_given_away() -> None:
    found = guess("disease", [*["flu"] * 20, *["cold"] * 9, "Creutzfeldt", "Creutzfeldt"], decimal=".")
    assert found.keys == {"kind": "category", "values": ["cold", "flu"]}
    assert found.remark == "1 rare value left out, which become other"


@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30))
@example(9.99999999999999e29, 1e30)
@example(0.0, 5e-324)
@example(-1e30, -9.99999999999999e29)
def test_a_range_is_beyond_the_numbers(one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, last = outward(low, high)
    assert first < low or first == 0
    assert last > high


WORDS = st.text(min_size=1, max_size=12).map(str.strip).filter(bool)


@pytest.mark.slow
@given(
    st.lists(WORDS, min_size=2, max_size=5, unique=True), st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=2)
)
def test_whatever_stands_in_a_table_gives_a_file_that_can_be_read(header: list[str], cells: list[list[str]]) -> None:
    columns = {name: [row[number % 3] for row in cells] for number, name in enumerate(header)}
    sheet = Sheet("x.csv", tuple(header), columns, range(2, len(cells) + 2))
    content = tomllib.loads(as_toml(propose(sheet, header[0])))
    assert content["target"]["column"] == header[0]
    assert [*content["columns"]] == header[1:]
    for name in header[1:]:
        for word in content["columns"][name].get("values", ()):
            assert word in columns[name]


def test_a_table_fits_what_was_proposed_from_it(tmp_path: Path) -> None:
    header = ("patient", "age", "ward", "smoker", "day", "blood", "outcome")
    rows = [
        (f"p{n // 2}", str(20 + 7 * n % 50), "A" if n % 3 else "B", "ja" if n % 2 else "nein",
         f"2024-01-{1 + n % 28:02d}", "NA" if n % 5 == 0 else "AB", "ill" if n % 4 else "well")
        for n in range(60)
    ]  # fmt: skip
    sheet = Sheet("x.csv", header, dict(zip(header, zip(*rows, strict=True), strict=True)), range(2, 62))
    schema = parsed(tomllib.loads(as_toml(propose(sheet))), "schema.toml")
    result = check(schema, sheet)
    assert (result.problems, result.gaps, result.others) == ((), {"blood": 12}, {})
    kinds = {name: column.kind for name, column in schema.columns.items()}
    assert kinds == {"patient": "group", "age": "number", "ward": "category", "smoker": "yes-no", "day": "date",
                     "blood": "category"}  # fmt: skip
    assert (schema.target.column, schema.target.classes) == ("outcome", ("ill", "well"))


def test_many_numbers_are_a_regression() -> None:
    sheet = Sheet("x.csv", ("a", "cost_g"), {"a": ["1.5"] * 30, "cost_g": [str(n / 4) for n in range(30)]}, range(30))
    assert propose(sheet).target.keys == {"column": "cost_g", "kind": "regression", "unit": "g", "range": [0.0, 9.0]}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["38341003", "44054006"] * 20, {"kind": "category", "values": ["38341003", "44054006"]}),
        (["900000000000012004", "900000000000012005"] * 20,
         {"kind": "category", "values": ["900000000000012004", "900000000000012005"]}),
        (["007", "07", "7"] * 20, {"kind": "category", "values": ["007", "07", "7"]}),
        (["1E2", "100", "200"] * 20, {"kind": "category", "values": ["100", "1E2", "200"]}),
        (["00990", "01067", "10115"] * 20, {"kind": "category", "values": ["00990", "01067", "10115"]}),
        (["1.0", "2", "2.0"] * 20, {"kind": "category", "values": ["1", "2"]}),
    ],
)  # fmt: skip
def test_codes_are_proposed_as_they_are_written(cells: list[str], expected: dict[str, Any]) -> None:
    assert guess("code", cells, decimal=".").keys == expected


NUMBERS = [str(n) for n in range(20, 90)]
DAYS = [str(datetime.date(2023, 1, 1) + datetime.timedelta(n)) for n in range(300)]


@pytest.mark.parametrize(
    ("cells", "kind", "strange"),
    [
        ([*DAYS, "2024-02-30"], "date", ("2024-02-30",)),
        ([*DAYS, *["unknown"] * 30], "date", ("unknown",)),
        ([*["yes", "no"] * 30, "maybe"], "yes-no", ("maybe",)),
        ([*["0", "1"] * 30, "maybe"], "yes-no", ("maybe",)),
        ([*NUMBERS, "5-10"], "number", ("5-10",)),
        ([*[f"ward{n}" for n in range(40)] * 15, *[f"typo{n}" for n in range(20)]], "category",
         tuple(f"typo{n}" for n in range(20))),
    ],
)  # fmt: skip
def test_a_tenth_of_strangers_does_not_make_another_column(cells: list[str], kind: str, strange: tuple[str]) -> None:
    found = guess("x", cells, decimal=".")
    assert (found.keys["kind"], found.strange) == (kind, strange)
    assert found.remark


@pytest.mark.parametrize(
    ("cells", "gaps", "last"),
    [
        ([*NUMBERS, "999"], '"999"', 100),
        ([*NUMBERS, "500", "500"], '"500"', 100),
        ([*NUMBERS, "-1", "-1"], '"-1"', 100),
        ([*NUMBERS, "-9", "-9", "999", "998", "998"], '"-9", "998", "999"', 100),
        ([*DAYS, "9999-12-31"], '"9999-12-31"', datetime.date(2024, 12, 31)),
        ([*DAYS, "1900-01-01", "9999-12-31"], '"1900-01-01", "9999-12-31"', datetime.date(2024, 12, 31)),
    ],
)  # fmt: skip
def test_values_far_from_all_others_are_asked_and_are_not_in_the_range(cells: list[str], gaps: str, last: Any) -> None:
    found = guess("x", cells, decimal=".")
    assert found.keys["range"][1] == last
    assert found.remark.startswith(f"{gaps} ")
    assert f"missing = [{gaps}]" in found.remark


def test_a_unit_behind_all_numbers_is_proposed() -> None:
    found = guess("weight", [f"{cell}.5 kg" for cell in NUMBERS], decimal=".")
    assert (found.keys["kind"], found.keys["unit"]) == ("number", "kg")
    assert found.remark == "70 of 70 cells read with the unit 'kg'"
    mixed = guess("weight", [*(f"{cell}.5 kg" for cell in NUMBERS), "70"], decimal=".")
    assert mixed.remark.endswith("is '70' in kg, too?")
    assert guess("bed", [f"{n}A" for n in range(9)] * 4, decimal=".").keys["kind"] == "category"
    assert guess("x", [f"<{cell}.5" for cell in NUMBERS], decimal=".").keys["limits"]
    for few in (4, 40):  # a few of them would be a category without a word
        cells = [f"{20 + n % few},{n % few}" for n in range(40)]
        assert guess("x", cells, decimal=".").remark.startswith("is '20,0' 20.0? The file has commas between its")
        assert guess("x", cells, decimal=",").keys["kind"] == "number"
    assert "begins as a number does" in guess("x", [f"{n}-{n + 5}" for n in range(40)], decimal=".").remark
    assert guess("gene", ["0/0", "0/1", "1/1"] * 20, decimal=".").keys["kind"] == "category"


def test_day_and_month_the_other_way_round_are_asked() -> None:
    found = guess("x", ["13/04/2020", "04/13/2020", "03/04/2020"] * 9, decimal=".")
    assert found.keys["format"] == ["%d/%m/%Y", "%m/%d/%Y"]
    assert "'03/04/2020' fit %d/%m/%Y and %m/%d/%Y" in found.remark
    assert guess("x", [*["13/04/2020"] * 30, "04/13/2020"], decimal=".").strange == ("04/13/2020",)


def test_a_number_that_may_be_two_is_asked() -> None:
    found = guess("platelets", ["436", "1.789", "2.320"] * 10, decimal=",")
    assert found.keys["kind"] == "number"
    assert found.remark.startswith("is '1.789' 1.789 or 1789?")
    assert guess("lactate", ["1.789", "0.5"] * 10, decimal=".").keys["range"][1] < 10


def test_years_of_two_digits_are_not_in_the_future() -> None:
    found = guess("born", ["29.03.47", "01.12.12", "30.06.68"] * 10, decimal=".")
    assert found.keys["format"] == "%d.%m.%y"
    assert found.keys["range"] == [datetime.date(1946, 1, 1), datetime.date(2013, 12, 31)]
    assert "two digits" in found.remark


def test_one_column_is_no_table() -> None:
    with refused(TaskError, "'x.csv' has one column"):
        propose(Sheet("x.csv", ("a",), {"a": ["1", "2"]}, (2, 3)))


# One schema of several sites' proposals: what is united, and what is asked.


def schema(columns: dict[str, Any], **target: Any) -> Schema:
    predicted = {"column": "y", "classes": ["a", "b"]} | target
    return Schema.model_validate({"format": 1, "target": predicted, "columns": columns, "missing": ["NA"]})


def test_ranges_are_widened_and_words_united() -> None:
    one = schema({
        "n": {"kind": "number", "unit": "kg", "range": [1, 5]},
        "d": {"kind": "date", "format": "%Y-%m-%d", "range": ["2020-01-01", "2021-01-01"]},
        "q": {"kind": "yes-no", "yes": ["yes"], "no": ["no"]},
        "g": {"kind": "group"},
    })  # fmt: skip
    other = schema({
        "n": {"kind": "number", "unit": "kg", "range": [0, 4], "limits": True, "missing": [-1]},
        "d": {"kind": "date", "format": "%d.%m.%Y", "range": ["2019-01-01", "2020-01-01"]},
        "q": {"kind": "yes-no", "yes": ["ja"], "no": ["nein"]},
        "g": {"kind": "group"},
    })  # fmt: skip
    found = merge({"a.toml": one, "b.toml": other})
    n, d, q = (found.columns[name] for name in "ndq")
    assert n.keys == {"kind": "number", "unit": "kg", "range": [0.0, 5.0], "limits": True, "missing": ["-1"]}
    assert d.keys["format"] == ["%Y-%m-%d", "%d.%m.%Y"]
    assert [end.year for end in d.keys["range"]] == [2019, 2021]
    assert (q.keys["yes"], q.keys["no"]) == (["yes", "ja"], ["no", "nein"])
    assert [one.remark for one in (n, d, q, found.columns["g"])] == [""] * 4
    assert found.missing == ["NA"]


def test_what_differs_is_asked() -> None:
    words = {"kind": "yes-no", "yes": "1", "no": "2"}
    one = schema({"n": {"kind": "number", "unit": "kg"}, "m": {"kind": "ignore"}, "q": words})
    swapped = words | {"yes": "2", "no": "1"}
    columns = {"n": {"kind": "category", "values": ["1"]}, "m": {"kind": "text"}, "q": swapped}
    other = schema(columns, classes=["b", "a"])
    found = merge({"a.toml": one, "b.toml": other})
    assert found.columns["n"].keys == {"kind": "number", "unit": "kg"}
    assert found.columns["n"].remark == "which kind? 'number' in a.toml, 'category' in b.toml"
    assert found.columns["m"].keys["kind"] == "text"
    assert found.columns["q"].remark == "is '1' yes or no?"
    assert found.target.keys["classes"] == ["a", "b"]
    assert found.target.remark == "are these all classes, in the right order?"
    found = merge({"a.toml": one, "b.toml": schema({"k": {"kind": "number"}})})
    assert found.columns["k"].remark == "only in b.toml: do the others have it?"


def test_other_targets_are_refused() -> None:
    one = schema({"n": {"kind": "number"}})
    with refused(ConfigurationError, "target.column is 'y' in a.toml and 'z' in b.toml"):
        merge({"a.toml": one, "b.toml": schema({"n": {"kind": "number"}}, column="z")})
