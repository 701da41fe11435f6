"""One schema of several sites' proposals: what is united, and what is asked."""

from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.tables.merge import merge
from dpeer.training.data.tables.schema import Schema
from tests.error_texts import refused


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
