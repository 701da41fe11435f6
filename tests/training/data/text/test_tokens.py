"""Text as token numbers, by bytes and by a tokenizer.json."""

import hashlib
import itertools
import json
from pathlib import Path

import pytest

from dpeer.exceptions import TaskError
from dpeer.training.data.text import BYTES, read_tokens
from tests.training.conftest import WORDS


def test_bytes_are_utf_8_from_3_on() -> None:
    (found,) = BYTES.numbers(["für"])
    assert found.tolist() == [number + 3 for number in "für".encode()]
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


def test_a_file_says_the_tokens_and_the_task_the_length(tokenizer: Path) -> None:
    tokens = read_tokens("glue", str(tokenizer))
    assert tokens.examples(["a good film", "badly"], None, 7).tolist() == [[1, 4, 5, 6, 2, 0, 0], [1, 7, 8, 2, 0, 0, 0]]
    assert tokens.examples(["a good film"], ["bad film"], 7).tolist() == [[1, 4, 5, 2, 7, 6, 2]]
    assert [one.tolist() for one in tokens.numbers(["a good film x", "bad"])] == [[4, 5, 6, 3], [7]]
    assert (tokens.vocabulary, tokens.padding, tokens.separator) == (len(WORDS), 0, 2)


def test_what_peers_compare_is_the_files_hash(tokenizer: Path) -> None:
    one = read_tokens("glue", str(tokenizer)).label
    assert hashlib.sha256(tokenizer.read_bytes()).hexdigest()[:16] in one
    content = json.loads(tokenizer.read_text())
    content["model"]["vocab"] |= {"good": 6, "film": 5}
    tokenizer.write_text(json.dumps(content))
    assert read_tokens("glue", str(tokenizer)).label not in (one, BYTES.label)


def test_without_padding_only_running_text_can_be_had(tokenizer: Path) -> None:
    content = json.loads(tokenizer.read_text())
    del content["model"]["vocab"]["[PAD]"]
    content["padding"] = None
    tokenizer.write_text(json.dumps(content))
    tokens = read_tokens("roles", str(tokenizer))
    assert tokens.numbers(["bad film"])[0].tolist() == [7, 6]
    with pytest.raises(TaskError, match=r"no token for padding, such as \[PAD\] or <pad>.*give the tokenizer of"):
        tokens.examples(["bad"], None, 8)


def test_files_that_are_none(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    with pytest.raises(TaskError, match=r"^task 'glue': there is no file tokenizer = '.*'; expected a tokenizer.json$"):
        read_tokens("glue", str(path))
    for content in (b"", b"{}", b"[1", b"\xff\xfe\x00", b'{"version": "1.0"}'):
        path.write_bytes(content)
        with pytest.raises(TaskError, match=r"^task 'glue': tokenizer = '.*' is no tokenizer.json, as the library"):
            read_tokens("glue", str(path))
