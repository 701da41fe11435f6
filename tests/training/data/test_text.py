"""Texts as token numbers, by bytes and by a tokenizer.json; sentences of GLUE."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from dpeer.exceptions import TaskError
from dpeer.training.data.glue import FILES, glue
from dpeer.training.data.text import BYTES, read_tokens
from tests.error_texts import refused
from tests.training.conftest import WORDS


def test_bytes_are_utf_8_from_3_on() -> None:
    assert BYTES.examples(["für"], None, 6).tolist() == [[0, *(number + 3 for number in "für".encode()), 2]]
    assert BYTES.examples(["ab", "für dich", ""], None, 6).tolist() == [
        [0, 100, 101, 2, 1, 1],
        [0, 105, 198, 191, 117, 2],
        [0, 2, 1, 1, 1, 1],
    ]
    assert BYTES.vocabulary == 3 + 256


def test_of_two_texts_the_longer_one_is_cut_first() -> None:
    for first, second, length in itertools.product(range(12), range(12), range(8, 16)):
        (row,) = BYTES.examples(["x" * first], ["y" * second], length).tolist()
        a, b = first, second
        while a + b > length - 4:  # one byte after the other, of the longer text; of equal ones, the second
            a, b = (a, b - 1) if b >= a else (a - 1, b)
        x, y = 3 + ord("x"), 3 + ord("y")
        expected = [0, *[x] * a, 2, 2, *[y] * b, 2]
        assert row == expected + [1] * (length - len(expected))


def test_a_file_names_the_tokens_and_the_task_the_length(tokenizer: Path) -> None:
    tokens = read_tokens("glue", str(tokenizer))
    assert tokens.examples(["a good film", "badly"], None, 7).tolist() == [[1, 4, 5, 6, 2, 0, 0], [1, 7, 8, 2, 0, 0, 0]]
    assert tokens.examples(["a good film"], ["bad film"], 7).tolist() == [[1, 4, 5, 2, 7, 6, 2]]
    assert (tokens.vocabulary, tokens.padding, tokens.separator) == (len(WORDS), 0, 2)


def test_peers_compare_the_files_hash(tokenizer: Path) -> None:
    one = read_tokens("glue", str(tokenizer)).label
    assert hashlib.sha256(tokenizer.read_bytes()).hexdigest()[:16] in one
    content = json.loads(tokenizer.read_text())
    content["model"]["vocab"] |= {"good": 6, "film": 5}
    tokenizer.write_text(json.dumps(content))
    assert read_tokens("glue", str(tokenizer)).label not in (one, BYTES.label)


def test_a_tokenizer_without_padding_is_refused(tokenizer: Path) -> None:
    content = json.loads(tokenizer.read_text())
    del content["model"]["vocab"]["[PAD]"]
    content["padding"] = None
    tokenizer.write_text(json.dumps(content))
    with pytest.raises(TaskError):
        read_tokens("glue", str(tokenizer)).examples(["bad"], None, 8)


PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
MNLI = ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", "label1"]
HEADERS = {
    "sst2": (["sentence", "label"],) * 2,
    "qqp": (["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],) * 2,
    "qnli": (["index", "question", "sentence", "label"],) * 2,
    "mnli": ([*MNLI, "gold_label"], [*MNLI, *(f"label{n}" for n in range(2, 6)), "gold_label"]),
}
"""The columns of train.tsv and of the file that is tested on, as they are distributed."""


def sentence(part: str, column: int, number: int) -> str:
    """It has a quotation mark, and a character at which `str.splitlines` would part it."""
    return f'{part[:2]}{column} "{number}\u2028'


def write_glue(folder: Path, name: str, end: str = "\n") -> Path:
    files = FILES[name]
    where = folder / files.folder
    where.mkdir(parents=True)
    for header, part, count in zip(HEADERS[name], ("train", "dev"), (90, 30), strict=True):
        lines = [header]
        for number in range(count):
            cells = dict.fromkeys(header, "-")
            cells |= {column: sentence(part, place, number) for place, column in enumerate(files.columns.texts)}
            cells[files.columns.label] = files.columns.labels[number % len(files.classes)]
            lines.append([*cells.values()])
        text = "".join("\t".join(one) + end for one in lines)
        (where / ("train.tsv" if part == "train" else files.test)).write_bytes(text.encode())
    return folder


def texts_of(row: list[int]) -> list[str]:
    """The texts of an example of bytes."""
    content = bytes(number - 3 for number in row if number > 2)
    ends = [place for place, number in enumerate(row) if number == 2]
    first = bytes(number - 3 for number in row[1 : ends[0]])
    return [first.decode(), content[len(first) :].decode()][: 1 if len(ends) == 1 else 2]


@pytest.mark.parametrize(("name", "end"), [("sst2", "\r\n"), *((name, "\n") for name in FILES)])
def test_glue_is_read_as_it_is_distributed(name: str, end: str, tmp_path: Path) -> None:
    files = FILES[name]
    data = glue(data=str(write_glue(tmp_path, name, end)), name=name, length=48)
    assert data.test is not None
    for pool, part, count in ((data.train, "train", 90), (data.test, "dev", 30)):
        inputs, targets = pool.rows(np.arange(count))
        assert inputs.shape == (count, 48)
        assert targets.tolist() == [number % len(files.classes) for number in range(count)]
        columns = range(len(files.columns.texts))
        expected = [[sentence(part, place, number) for place in columns] for number in range(count)]
        assert [texts_of(row) for row in inputs.tolist()] == expected
    assert data.classes == len(files.classes)
    assert data.names == {"classes": files.classes, "tokenizer": ("bytes",)}
    inner = glue(data=str(tmp_path / files.folder), name=name, length=48)
    assert inner.train.inputs.equal(data.train.inputs)


def test_lines_that_do_not_fit_can_be_left_out(tmp_path: Path) -> None:
    """A question in QQP's train.tsv may go over a line's end."""
    path = write_glue(tmp_path, "qqp") / "QQP" / "train.tsv"
    lines = path.read_text().split("\n")
    lines[6:8] = ["5\t-\t-\twhat\tis", "it?\t0"]
    path.write_text("\n".join(lines))
    data = glue(data=str(tmp_path), name="qqp", length=32, malformed="skip")
    labels = [number % 2 for number in range(90)]
    assert data.train.targets.tolist() == labels[:5] + labels[7:]
    assert data.remarks == ("2 of 90 lines of train.tsv are left out, since they are not as they must be: 7, 8",)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with refused(TaskError, "task 'glue': tokenizer = 't.json' does not exist"):
        read_tokens("glue", "t.json")
    (tmp_path / "t.json").write_text('{"version": "1.0"}')
    with refused(TaskError, f"task 'glue': tokenizer = '{tmp_path}/t.json' is no tokenizer.json"):
        read_tokens("glue", str(tmp_path / "t.json"))
