from pathlib import Path

import numpy as np
import pytest

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training import Choices, load_task
from dpeer.training.data.text.glue import LAYOUTS, Glue, glue

PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
HEADERS = {
    "sst2": (["sentence", "label"],) * 2,
    "qqp": (["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],) * 2,
    "qnli": (["index", "question", "sentence", "label"],) * 2,
    "mnli": (
        ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", "label1", "gold_label"],
        ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", *(f"label{n}" for n in range(1, 6)),
         "gold_label"],
    ),
}  # fmt: skip
"""The columns of train.tsv and of the file that is tested on, as they are distributed."""


def sentence(part: str, column: int, number: int) -> str:
    """It has a quotation mark, and a character at which `str.splitlines` would part it."""
    return f'{part[:2]}{column} "{number}\u2028'


def line(name: str, part: str, number: int) -> list[str]:
    layout = LAYOUTS[name]
    cells = dict.fromkeys(HEADERS[name][part != "train"], "-")
    cells |= {column: sentence(part, place, number) for place, column in enumerate(layout.columns.texts)}
    return list((cells | {layout.columns.label: layout.columns.labels[number % len(layout.classes)]}).values())


def write(folder: Path, name: str, *, end: str = "\n") -> Path:
    where = folder / LAYOUTS[name].folder
    where.mkdir(parents=True)
    for place, (part, count) in enumerate({"train": 90, "dev": 30}.items()):
        lines = [HEADERS[name][place], *(line(name, part, number) for number in range(count))]
        text = "".join("\t".join(one) + end for one in lines)
        (where / ("train.tsv" if part == "train" else LAYOUTS[name].test)).write_bytes(text.encode())
    return folder


def said(row: list[int]) -> list[str]:
    """The texts of an example of bytes."""
    content = bytes(number - 3 for number in row if number > 2)
    ends = [place for place, number in enumerate(row) if number == 2]
    first = bytes(number - 3 for number in row[1 : ends[0]])
    return [first.decode(), content[len(first) :].decode()][: 1 if len(ends) == 1 else 2]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", list(LAYOUTS))
def test_reads_the_files_as_they_are_distributed(name: str, end: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    data = glue(Glue(str(write(tmp_path, name, end=end)), name, None, 48, skip=False))
    assert data.test is not None
    for pool, part, count in ((data.train, "train", 90), (data.test, "dev", 30)):
        inputs, targets = pool.rows(np.arange(count))
        assert inputs.shape == (count, 48)
        assert targets.tolist() == [number % len(layout.classes) for number in range(count)]
        expected = [
            [sentence(part, place, number) for place in range(len(layout.columns.texts))] for number in range(count)
        ]
        assert [said(row) for row in inputs.tolist()] == expected
    assert data.classes == len(layout.classes)
    assert data.names == {"classes": layout.classes, "tokenizer": ("bytes",)}
    inner = glue(Glue(str(tmp_path / layout.folder), name, None, 48, skip=False))
    assert inner.train.inputs.equal(data.train.inputs)


@pytest.mark.slow
def test_peers_divide_both_files(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write(tmp_path, "mnli")
    options = {"data": str(tmp_path), "name": "mnli", "length": 32}
    tasks = [load_task("glue", rank, 3, 0, options, Choices(partition="iid")) for rank in range(3)]
    for part, count in (("train", 90), ("test", 30)):
        held = [task.indices[part] for task in tasks]
        assert sorted(np.concatenate(held).tolist()) == list(range(count))
    inputs, label = tasks[1].train[0]
    assert (inputs.shape, tasks[1].names["classes"][label]) == ((32,), LAYOUTS["mnli"].classes[label])
    assert tasks[1].model(inputs[None]).shape == (1, 3)


def broken(folder: Path, name: str, number: int, cells: list[str]) -> None:
    path = folder / LAYOUTS[name].folder / "train.tsv"
    lines = path.read_text().split("\n")
    lines[number - 1] = "\t".join(cells)
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("number", "cells", "message"),
    [
        (7, ["1", "2", "3", "what", "is"], r"train.tsv, line 7: 5 columns, and the header has 6; --task-option malf"),
        (9, ["1", "2", "3", "a", "b", "2"], r"train.tsv, line 9: is_duplicate = '2'; expected one of 0, 1;"),
        (3, [""], r"train.tsv, line 3: 1 columns"),
        (1, ["id", "question1"], r"train.tsv, line 1: there is no column 'question2'; it has id, question1"),
    ],
)
def test_a_line_that_does_not_fit_is_named(number: int, cells: list[str], message: str, tmp_path: Path) -> None:
    broken(write(tmp_path, "qqp"), "qqp", number, cells)
    with pytest.raises(TaskError, match=message):
        glue(Glue(str(tmp_path), "qqp", None, 32, skip=False))


def test_lines_that_do_not_fit_can_be_left_out(tmp_path: Path) -> None:
    """A question in QQP's train.tsv may go over a line's end."""
    write(tmp_path, "qqp")
    broken(tmp_path, "qqp", 7, ["5", "-", "-", "what", "is"])
    broken(tmp_path, "qqp", 8, ["it?", "0"])
    data = glue(Glue(str(tmp_path), "qqp", None, 32, skip=True))
    labels = [number % 2 for number in range(90)]
    assert data.train.targets.tolist() == labels[:5] + labels[7:]
    assert data.remarks == ("2 of 90 lines of train.tsv are left out, since they are not as they must be: 7, 8",)


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"expected the file train.tsv in .*; from https://gluebenchmark.com"):
        glue(Glue(str(tmp_path), "sst2", None, 32, skip=False))
    write(tmp_path, "sst2")
    path = tmp_path / "SST-2" / "dev.tsv"
    path.write_text("sentence\tlabel\n")
    with pytest.raises(TaskError, match=r"dev.tsv has no examples; get it anew"):
        glue(Glue(str(tmp_path), "sst2", None, 32, skip=False))
    path.write_bytes(b"sentence\tlabel\n\xff\xfe\t1\n")
    with pytest.raises(TaskError, match=r"dev.tsv is damaged"):
        glue(Glue(str(tmp_path), "sst2", None, 32, skip=False))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TaskError, r"task 'glue' needs --task-option data=DIR"),
        ({"data": "x"}, TaskError, r"task 'glue' needs --task-option name=sst2"),
        ({"data": "x", "name": "cola"}, UnknownName, r"'cola'.*sst2, qqp, qnli, mnli"),
        ({"data": "x", "name": "sst2"}, TaskError, r"data = 'x' is not a folder; expected one that holds train.tsv"),
        ({"data": "x", "name": "sst2", "length": 4}, TaskError, r"length = 4: expected 8 to 4096 tokens"),
        ({"data": "x", "name": "sst2", "malformed": "no"}, UnknownName, r"'no'.*refuse, skip"),
    ],
)
def test_wrong_options(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_task("glue", 0, 2, 0, options, Choices())
