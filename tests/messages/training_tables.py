"""Error messages of training/data/tables/: tables, schemas and preparations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpeer.exceptions import CheckpointError, ConfigurationError, TaskError, UnknownName
from dpeer.training import Choices, forget, load_task
from dpeer.training.data.tables.inputs import TableInputs, as_targets
from dpeer.training.data.tables.propose import propose
from dpeer.training.data.tables.schema import read_schema
from dpeer.training.data.tables.sheet import Sheet, read_sheet
from dpeer.training.data.tables.table_data import Table, table
from tests.messages.message import Message, file
from tests.training.data.tables.conftest import HEADER, SCHEMA, as_csv, rows

Cause = Callable[[Path], Any]
X = "'{folder}/x.csv'"
GOOD = "a,b,y\n1,2,u\n3,4,v\n"
INIT = "; a schema reads {} (`dpeer schema init`); or leave it out with ignore={}"
PARQUET = "expected a csv or parquet file"


def sheet(content: bytes | None, text: str, name: str = "x.csv", **changes: Any) -> Message:
    """A table is read that the file holds; without content there is no file."""

    def cause(folder: Path) -> Any:
        if content is not None:
            (folder / name).write_bytes(content)
        return table(Table(**{"path": str(folder / name), "target": "y"} | changes))

    return Message(cause, UnknownName if text.startswith("unknown") else TaskError, text)


def csv(content: str, text: str, **changes: Any) -> Message:
    return sheet(content.encode(), text, **changes)


def mistake(old: str, new: str, text: str, error: type[Exception] = ConfigurationError) -> Message:
    """A schema is read in which something stands in the place of something else."""
    assert old in SCHEMA
    text = text if text.startswith("unknown") else f"schema '{{folder}}/s.toml': {text}"
    return Message(file("s.toml", SCHEMA.replace(old, new, 1), read_schema), error, text)


def cell(changes: dict[str, str], text: str) -> Message:
    """A table is read by the schema, with other cells in row 3."""

    def cause(folder: Path) -> Any:
        forget()
        found = rows(40)
        found[1] |= changes
        (folder / "x.csv").write_text(as_csv(found))
        (folder / "s.toml").write_text(SCHEMA)
        return load_task("csv", 0, 2, 0, {"path": str(folder / "x.csv")}, Choices(schema=folder / "s.toml"))

    return Message(cause, TaskError, f"{X}, row 3, column {text}")


def by_schema(text: str, error: type[Exception], *, header: Any = HEADER, schema: str = SCHEMA, **more: Any) -> Message:
    """A task is loaded by the schema."""

    def cause(folder: Path) -> Any:
        forget()
        (folder / "x.csv").write_text(as_csv([{**row, "Age": row["age"]} for row in rows(40)], header))
        (folder / "s.toml").write_text(schema)
        standardize = more.pop("standardize", None)
        choices = Choices(schema=folder / "s.toml", standardize=standardize)
        return load_task("csv", 0, 2, 0, {"path": str(folder / "x.csv"), **more}, choices)

    return Message(cause, error, text)


def parquet(values: Callable[[Any], Any], text: str) -> Message:
    def cause(folder: Path) -> Any:
        import pyarrow
        from pyarrow.parquet import write_table

        write_table(pyarrow.table({"a": values(pyarrow)}), folder / "x.parquet")
        return read_sheet(str(folder / "x.parquet"))

    return Message(cause, TaskError, f"'{{folder}}/x.parquet', column 'a' {text}")


def preparation(content: dict[str, Any], text: str) -> Message:
    return Message(lambda folder: TableInputs.from_json(content), CheckpointError, text)


FORMAT = "the preparation has format {}, this dpeer reads 1: use the version that wrote it"
ONCE = "task 'csv': column {!r} can be one of target=, group=, ignore= and columns= only, and once"

MESSAGES = {
    "a word for a number": csv("a,b,y\n1,2,u\n3,x,v\n",
        f"{X}, row 3, column 'b': expected a finite number, not 'x'{INIT.format('words and dates', 'b')}"),
    "a gap": csv("a,b,y\n1,2,u\n\n3,,v\n",
        f"{X}, row 4, column 'b' is empty: fill it or drop the row{INIT.format('gaps', 'b')}"),
    "a word for a gap": csv("a,b,y\n1,2,u\n3,nan,v\n",
        f"{X}, row 3, column 'b' is a gap ('nan'): fill it or drop the row{INIT.format('gaps', 'b')}"),
    "no finite number": csv("a,b,y\ninf,2,u\n3,4,v\n",
        f"{X}, row 2, column 'a': expected a finite number, not 'inf'; or leave it out with ignore=a"),
    "a number beyond float32": csv("a,b,y\n1e99,2,u\n3,4,v\n",
        f"{X}, row 2, column 'a': '1e99' does not fit float32, which ends at 3.4e+38: give the column in another "
        "unit; or leave it out with ignore=a"),
    "a target beyond float32": csv("a,b,y\n1,2,3\n3,4,-1e300\n",
        f"{X}, row 3, column 'y': '-1e300' does not fit float32, which ends at 3.4e+38: give the column in another "
        "unit",
        regression=True),
    "a decimal comma": csv('a,b,y\n"1,5",2,u\n3,4,v\n',
        f"{X}, row 2, column 'a': expected a finite number, not '1,5'…"),
    "no label": csv("a,b,y\n1,2,\n3,4,v\n", f"{X}, row 2, column 'y' is empty: fill it or drop the row"),
    "a gap for a label": csv("a,b,y\n1,2,NA\n3,4,v\n",
        f"{X}, row 2, column 'y' is a gap ('NA'): fill it or drop the row"),
    "no group": csv("a,b,y\n1,2,u\n,4,v\n", f"{X}, row 3, column 'a' is empty: fill it or drop the row", group="a"),
    "a NUL in a group": csv("a,p,y\n1,a,u\n2,a\0,v\n",
        f"{X}, row 3, column 'p': 'a\\x00' has a NUL character: leave it out", group="p"),
    "a nearby target": csv(GOOD, f"unknown column of target= 'yy' in {X}: did you mean 'y'? valid: a, b, y",
        target="yy"),
    "an unknown group": csv(GOOD, f"unknown column of group= 'c' in {X}: valid: a, b, y", group="c"),
    "an unknown column to ignore": csv(GOOD, f"unknown column of ignore= 'Y' in {X}: …valid: a, b, y", ignore=("Y",)),
    "an unknown column to learn from": csv(GOOD, f"unknown column of columns= 'c' in {X}: valid: a, b, y",
        columns=("a", "c")),
    "a target that is a group": csv(GOOD, ONCE.format("y"), group="y"),
    "a column that is ignored and used": csv(GOOD, ONCE.format("a"), columns=("a",), ignore=("a",)),
    "a word in a column that is named": csv("a,b,y\n1,x,u\n2,3,v\n",
        f"{X}, row 2, column 'b': expected a finite number, not 'x'; a schema reads words and dates (`dpeer schema "
        "init`); or leave out of columns= the column b",
        columns=("b",)),
    "nothing to learn from": csv(GOOD, f"task 'csv': {X} has no column to learn from besides y, a, b",
        ignore=("a", "b")),
    "an unknown class": csv(GOOD, f"{X}, row 3, column 'y': 'v' is none of the classes u, w", classes=("u", "w")),
    "a class for a number": csv(GOOD, f"{X}, row 2, column 'y': expected a finite number, not 'u'", regression=True),
    "two columns of a name": csv("a,b,a,y\n1,2,3,u\n", f"{X} has two columns 'a': name one otherwise"),
    "a column without a name": csv(",b,y\n1,2,u\n3,4,v\n",
        f"task 'csv': {X}, column 1 has no name: name it, or leave it out with ignore=['']"),
    "a short row": csv("a,b,y\n1,2,u\n3,v\n",
        f"{X}, row 3 has 2 cells, the header 3; text with a comma in it needs quotes"),
    "one class": csv("a,b,y\n1,2,u\n3,4,u\n",
        f"task 'csv': {X} shows one class only ('u' in column 'y'): name all with classes=A,B"),
    "numbers for classes": csv("a,y\n" + "".join(f"1,{n}.5\n" for n in range(30)),
        f"task 'csv': {X}, column 'y' has 30 classes in 30 rows: is it a number to predict? then kind=regression"),
    "semicolons": csv("a;b;y\n1;2;u\n", f"{X} is divided by ';': save it with commas (and points in numbers)"),
    "a header alone": csv("a,b,y\n", f"{X} has no rows; expected a header and rows under it"),
    "a code": csv("a,b,y\n1E2,2,u\n7,4,v\n",
        f"{X}, row 2, column 'a': '1E2' is a code and would become 100: a schema reads codes (`dpeer schema init`); "
        "or leave it out with ignore=a"),
    "numbers that float32 does not tell apart": csv("a,b,y\n1700000000001,2,u\n1700000000002,4,v\n",
        f"{X}, column 'a': its numbers are about 1.7e+12 and differ by about 0.5, too little to tell them apart in 32 "
        "bits: subtract a constant from all of them, the same at every site"),
    "targets that float32 does not tell apart": Message(lambda folder: as_targets(1e9 + np.arange(20.0), "column 'y'"),
        TaskError,
        "column 'y': its numbers are about 1e+09 and differ by about 5.77, too little to tell them apart in 32 bits: "
        "subtract a constant from all of them, the same at every site"),
    "Latin 1": sheet(b"a,b,y\n1,2,\xe4\n", f"{X} is not UTF-8 text: save it as 'CSV UTF-8'"),
    "an open quote": csv('a,b,y\n1,"2,u\n3,4,v\n', f"{X} is no valid csv after row 1: …"),
    "an empty file": csv("", f"{X} is empty: it has no rows"),
    "no file": sheet(None, f"{X} does not exist"),
    "a folder for a table": Message(lambda folder: read_sheet(str(folder)), TaskError,
        f"'{{folder}}' is a folder; {PARQUET}"),
    "a folder of Spark": Message(file("x.csv/part-0", "a,b\n1,2\n", lambda path: read_sheet(str(path.parent))),
        TaskError, f"{X} is a folder of 1 part files, as Spark writes them: save it as one file"),
    "xlsx": sheet(b"PK\x03\x04a\xff\n", f"{X} is a zip archive, as .xlsx files are: save it as 'CSV UTF-8'"),
    "gzip": sheet(b"\x1f\x8b\x08\x00\n", f"{X} is packed by gzip: unpack it"),
    "PDF": sheet(b"%PDF-1.4\xff\na,b\n", f"{X} is a PDF; {PARQUET}"),
    "a web page": sheet(b"\xef\xbb\xbf\n<!DOCTYPE html>\nx\n",
        f"{X} is a web page: was a login page saved in place of the file?"),
    "JSON": sheet(b'{"a": 1}\n', f"{X} is JSON; {PARQUET}"),
    "parquet as csv": sheet(b"PAR1\x15\x04", f"{X} is parquet: name it .parquet"),
    "text as parquet": Message(file("x.parquet", "no parquet", lambda path: read_sheet(str(path))), TaskError,
        "'{folder}/x.parquet' cannot be read as parquet: it begins otherwise"),
    "lists in parquet": parquet(lambda arrow: arrow.array([[1], [2]]),
        "holds list<…>: a cell holds one value; leave the column out"),
    "bytes in parquet": parquet(lambda arrow: arrow.array([b"\xff"]), "holds bytes that are no UTF-8 text"),
    "nanoseconds in parquet": parquet(lambda arrow: arrow.array([1], arrow.timestamp("ns")),
        "has times finer than microseconds, or of no year from 1 to 9999: round them"),
    "one column": Message(lambda folder: propose(Sheet("x.csv", ("a",), {"a": ["1", "2"]}, (2, 3))), TaskError,
        "'x.csv' has one column: one to predict and one or more to learn from are needed"),
    "an unknown --group": Message(lambda folder:
        propose(Sheet("x.csv", ("patient", "y"), {"patient": [], "y": []}, ()), None, "patients"), UnknownName,
        "unknown column of --group 'patients' in 'x.csv': did you mean 'patient'? valid: patient, y"),
    "a preparation of nothing": preparation({}, FORMAT.format(None)),
    "a later preparation": preparation({"format": 2}, FORMAT.format(2)),
    "a preparation without a kind": preparation({"format": 1}, "the preparation is damaged: KeyError('kind')"),
    "a preparation without classes": preparation({"format": 1, "kind": "plain", "target": "y"},
        "the preparation is damaged: KeyError('classes')"),
    "a preparation of a later version in a file": Message(file("p.json", '{"format": 2}', TableInputs.load),
        CheckpointError, FORMAT.format(2)),
    "another format of a schema": mistake("format = 1", "format = 2", "format = 2: input should be 1"),
    "a schema without a format": mistake("format = 1", "", "format is missing"),
    "an unknown key": mistake("format = 1", "format = 1\ncolours = 3",
        "unknown key 'colours' in the top of {folder}/s.toml: did you mean 'columns'? valid: format, missing, target, "
        "columns",
        UnknownName),
    "a falling range": mistake("[0, 120]", "[120, 0]",
        "columns.age.range = [120, 0]: the first must be below the second; expected two of them, such as [0, 120]"),
    "an endless range": mistake("[0, 120]", "[0, inf]",
        "columns.age.range = [0, inf]: both ends must be finite numbers; …"),
    "a range of words": mistake("[0, 120]", '"0 to 120"',
        "columns.age.range = '0 to 120': …; expected two of them, such as [0, 120]"),
    "an unknown key of a column": mistake("range = [0, 120]", "rnge = [0, 120]",
        "unknown key 'rnge' in columns.age of {folder}/s.toml: did you mean 'range'? valid: missing, kind, unit, "
        "range, filling",
        UnknownName),
    "an unknown kind": mistake('kind = "ignore"', 'kind = "ignor"',
        "unknown kind 'ignor' in columns.note of {folder}/s.toml: did you mean 'ignore'? valid: number, category, …",
        UnknownName),
    "no kind": mistake('kind = "ignore"', 'unit = "x"',
        'columns.note has no kind: write kind = "number" (or category, yes-no, date, text, group, ignore)'),
    "no values": mistake('["B", "A", "AB", 0]', "[]",
        'columns.blood.values = []: …; expected a list of words, such as ["A", "B"]'),
    "a value twice": mistake('["B", "A", "AB", 0]', '["B", "A", "B"]',
        "columns.blood.values = ['B', 'A', 'B']: 'B' stands there twice; expected …"),
    "yes for no": mistake('["no", "nein", 0]', '["YES"]', "columns.smoker: 'yes' is a word for yes and for no"),
    "a filling beyond the range": mistake("filling = 70", "filling = 0.5",
        "columns.weight kg: filling = 0.5 is outside range = [1.0, 301.0]"),
    "a number for a day": mistake("since = 2020-01-01", "since = 5.5",
        "columns.admitted.since = 5.5: …; expected a day without quotes, such as 2000-01-01"),
    "a small text": mistake("size = 16", "size = 3",
        "columns.complaint.size = 3: input should be greater than or equal to 8"),
    "the target among the columns": mistake('column = "outcome"', 'column = "age"',
        "column 'age' is the target: leave out [columns.age]"),
    "no target": mistake('column = "outcome"', "", "target.column is missing"),
    "a schema's one class": mistake('classes = ["well", "ill"]', 'classes = ["well"]',
        'target: a classification needs two classes or more, such as classes = ["no", "yes"]'),
    "classes of a number": mistake('classes = ["well", "ill"]', 'kind = "regression"\nclasses = [1, 2]',
        'target: classes are for kind = "classification"'),
    "an unknown kind of target": mistake('classes = ["well", "ill"]', 'kind = "regresion"',
        "target.kind = 'regresion': input should be 'classification' or 'regression'"),
    "a range of classes": mistake('classes = ["well", "ill"]', "classes = [1, 2]\nrange = [0, 2]",
        'target: range and unit are for kind = "regression"'),
    "two groups": mistake('kind = "ignore"', 'kind = "group"',
        "columns patient, note are of kind group: one column can say what belongs together"),
    "no TOML": Message(file("s.toml", "[target", read_schema), ConfigurationError,
        "schema '{folder}/s.toml' is not valid TOML: …"),
    "a schema of nothing":
        Message(file("s.toml", SCHEMA[: SCHEMA.index("[columns.age]")] + '[columns.a]\nkind = "ignore"\n', read_schema),
        ConfigurationError,
        "schema '{folder}/s.toml': no column to learn from: at least one must be no group and not ignored"),
    "no schema": Message(lambda folder: read_schema(folder / "s.toml"), ConfigurationError,
        "schema '{folder}/s.toml': No such file or directory; `dpeer schema init FILE.csv` proposes one"),
    "a word for an age": cell({"age": "old"},
        "'age': expected a number, 0 to 120 years, not 'old' (`dpeer schema check` lists all)"),
    "digits with an underscore": cell({"age": "1_0"}, "'age': expected a number, 0 to 120 years, not '1_0' (…)"),
    "an endless age": cell({"age": "inf"}, "'age': expected a number, 0 to 120 years, not 'inf' (…)"),
    "neither yes nor no": cell({"smoker": "maybe"},
        "'smoker': expected yes (yes, ja, 1) or no (no, nein, 0), not 'maybe' (…)"),
    "no such day": cell({"admitted": "31.02.2020"},
        "'admitted': expected a date as %Y-%m-%d or %d.%m.%Y, not '31.02.2020' (…)"),
    "a class beyond the schema": cell({"outcome": "dead"},
        "'outcome': expected one of the classes well, ill, not 'dead' (…)"),
    "no outcome": cell({"outcome": ""}, "'outcome': expected one of the classes well, ill, not nothing (…)"),
    "two cells": cell({"outcome": "dead", "age": "old"},
        "'age': expected a number, 0 to 120 years, not 'old'; 1 more cells do not fit (…)"),
    "no patient": cell({"patient": ""}, "'patient' is empty: fill it or drop the row"),
    "columns that are called otherwise":
        by_schema(f"{X} does not fit the schema: column 'age' is not in the file (is it the column 'Age'?); column "
        "'weight kg' is …",
        TaskError, header=("Age", *HEADER[2:])),
    "no column of targets": by_schema(f"unknown target column 'outcome' in {X}: …valid: …", UnknownName,
        header=HEADER[:-1]),
    "no column of groups": by_schema(f"unknown column of kind group 'patient' in {X}: …valid: …", UnknownName,
        header=(*HEADER[:6], "outcome")),
    "no range":
        by_schema("the schema gives no range for 'age': with --privacy or --no-standardize numbers are scaled by "
        "their ranges alone; add range = [LOW, HIGH] to each",
        ConfigurationError, schema=SCHEMA.replace("range = [0, 120]\n", ""), standardize=False),
    "an option beside a schema":
        by_schema("task 'csv': the schema '{folder}/s.toml' says it: leave out --task-option target", TaskError,
        target="outcome"),
    "a schema of digits": Message(lambda folder: load_task("digits", 0, 2, 0, {}, Choices(schema=folder / "s.toml")),
        ConfigurationError, "--schema {folder}/s.toml is for --task csv: task 'digits' reads no table"),
}  # fmt: skip
