"""Tokenizers, and readers of tab-separated rows and of lines of text.

No vocabulary is made from the data that peers train on: it would be a fact about them, and reach neighbors by its size.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TaskError, describe
from dpeer.optional_libraries import check_libraries

Ids = NDArray[np.int32]

SHORTEST, LONGEST = 8, 4096
"""The fewest and the most tokens of an example."""


class Tokens(ABC):
    """How text becomes token numbers.

    Attributes:
        label: A text that is equal on two peers only if their numbers mean the same.
        vocabulary: The number of tokens; their numbers are 0 to `vocabulary` - 1.
        padding: The token behind the end of a text that is shorter than others; None without one.
        separator: The token behind each text of an example; None without one.
    """

    label: str
    vocabulary: int
    padding: int | None
    separator: int | None

    @abstractmethod
    def _examples(self, firsts: Sequence[str], seconds: Sequence[str] | None, length: int) -> list[Sequence[int]]:
        """The tokens of each example, at most `length`, with those that mark its beginning and the end of a text."""

    def examples(self, firsts: Sequence[str], seconds: Sequence[str] | None, length: int) -> Ids:
        """Examples of one or two texts each, cut or padded to one length; shape (examples, length).

        Raises:
            TaskError: The tokenizer has no token for padding.
        """
        if self.padding is None:
            raise TaskError(
                f"the tokenizer ({self.label}) has no token for padding, such as [PAD] or <pad>, with which short "
                "texts are filled up: give the tokenizer of an encoder, such as BERT or RoBERTa"
            )
        found = np.full((len(firsts), length), self.padding, np.int32)
        for row, tokens in zip(found, self._examples(firsts, seconds, length), strict=True):
            row[: len(tokens)] = tokens
        return found


class Bytes(Tokens):
    """The bytes of UTF-8, from 3 on, behind three tokens: the beginning of an example, padding, the end of a text.

    These are where RoBERTa's tokenizer has them. An example is written as RoBERTa's: the beginning, a text, its end;
    and for a second text, an end once more, the text, its end.
    """

    label = "bytes"
    vocabulary = 259
    padding = 1
    separator = 2
    _BEGINNING, _FIRST = 0, 3

    def _numbers(self, texts: Sequence[str]) -> list[Ids]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) + self._FIRST for text in texts]

    def _examples(self, firsts: Sequence[str], seconds: Sequence[str] | None, length: int) -> list[Sequence[int]]:
        mine = self._numbers(firsts)
        if seconds is None:
            return [[self._BEGINNING, *one[: length - 2], self.separator] for one in mine]
        found: list[Sequence[int]] = []
        left = length - 4
        for one, other in zip(mine, self._numbers(seconds), strict=True):
            # The longer one is cut first: as much as is left over by the shorter one, but at least half.
            first = max(left - len(other), left - left // 2)
            kept = one[:first]
            rest = other[: left - len(kept)]
            found.append([self._BEGINNING, *kept, self.separator, self.separator, *rest, self.separator])
        return found


BYTES = Bytes()


def read_tokens(task: str, path: str | None) -> Tokens:
    """The tokenizer of a tokenizer.json; bytes without one.

    Raises:
        TaskError: It is not there, or no tokenizer.json.
        ConfigurationError: The library `tokenizers` is not installed.
    """
    if path is None:
        return BYTES
    where = Path(path).expanduser()
    if not where.is_file():
        raise TaskError(f"task {task!r}: tokenizer = {path!r} does not exist; expected a tokenizer.json")
    check_libraries(f"task {task!r} with tokenizer = {path!r}", "transformers", tokenizers="tokenizers")
    from tokenizers import Tokenizer

    try:
        content = where.read_bytes()
        tokenizer = Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises nothing more exact
        raise TaskError(
            f"task {task!r}: tokenizer = {path!r} is no tokenizer.json, as the library tokenizers writes it: "
            f"{describe(error)}"
        ) from error
    return FileTokens(tokenizer, hashlib.sha256(content).hexdigest())


_PADDING = ("<pad>", "[PAD]", "<|pad|>")
_AT_ONCE = 4096  # texts whose encodings, which are large, are in memory together


class FileTokens(Tokens):
    """What a tokenizer.json says, but for its cutting and padding, which are the task's.

    Args:
        tokenizer: A `tokenizers.Tokenizer`; it is changed.
        digest: SHA-256 (hex) of its file.
    """

    def __init__(self, tokenizer: Any, digest: str) -> None:
        padding = tokenizer.padding or {}
        named = (tokenizer.token_to_id(name) for name in _PADDING)
        self.padding = padding.get("pad_id", next((number for number in named if number is not None), None))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.label = f"tokenizer.json with SHA-256 {digest[:16]}"
        # Numbers may have gaps, and the highest one counts.
        self.vocabulary = 1 + max([*tokenizer.get_vocab(with_added_tokens=True).values(), self.padding or 0])
        pair = tokenizer.encode("a", "b")
        ends_alone = bool(pair.ids) and pair.special_tokens_mask[-1] == 1
        self.separator = int(pair.ids[-1]) if ends_alone else None

    def _examples(self, firsts: Sequence[str], seconds: Sequence[str] | None, length: int) -> list[Sequence[int]]:
        self._tokenizer.enable_truncation(length)
        texts: list[Any] = [*firsts] if seconds is None else list(zip(firsts, seconds, strict=True))
        batches = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
        return [one.ids for some in batches for one in self._tokenizer.encode_batch(some)]


class TextColumns(NamedTuple):
    """The columns of such a file: those of the one or two texts, that of the label, and what stands there by class."""

    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]


class TextRows(NamedTuple):
    """What was read.

    Attributes:
        texts: A list for each column of texts, in the same order of rows.
        labels: The class number of each row; None without such a column.
        lines: The number of each row's line.
        others: The other columns' cells, by name.
        left_out: The numbers of lines that are not as they must be.
    """

    texts: list[list[str]]
    labels: list[int] | None
    lines: list[int]
    others: dict[str, tuple[str, ...]]
    left_out: list[int]


def read_texts(where: str, content: bytes, columns: TextColumns, *, skip: bool = False, advice: str = "") -> TextRows:
    """The rows of a file; its first line names the columns, of which that of the label may be missing.

    Raises:
        TaskError: A column is missing, or without `skip` a line is not as it must be; the message names the line.
        UnicodeDecodeError: It is no UTF-8.
    """
    # Not by `splitlines`, which parts at more characters, nor by `csv`: quotation marks are part of the sentences.
    lines = content.decode("utf-8-sig").split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if missing := next((name for name in columns.texts if name not in header), None):
        raise TaskError(f"{where}, line 1: the column {missing!r} is missing; it has {', '.join(header[:12])}")
    at = header.index(columns.label) if columns.label in header else None
    rows: list[list[str]] = []
    numbers: list[int] = []
    left_out: list[int] = []
    for number, line in enumerate(lines[1:], 2):
        if not line and number == len(lines):  # what is behind the last line's end
            break
        cells = line.rstrip("\r").split("\t")
        problem = _problem(cells, header, at, columns)
        if not problem:
            rows.append(cells)
            numbers.append(number)
        elif skip:
            left_out.append(number)
        else:
            raise TaskError(f"{where}, line {number}: {problem}{advice}")
    known = {*columns.texts, columns.label}
    return TextRows(
        [[cells[header.index(name)] for cells in rows] for name in columns.texts],
        None if at is None else [columns.labels.index(cells[at]) for cells in rows],
        numbers,
        {name: tuple(cells[place] for cells in rows) for place, name in enumerate(header) if name not in known},
        left_out,
    )


def read_lines(where: Path) -> list[str]:
    """The texts of a file with one in each line."""
    lines = where.read_bytes().decode("utf-8-sig").split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _problem(cells: list[str], header: list[str], at: int | None, columns: TextColumns) -> str:
    """What is wrong with a line; empty if nothing is."""
    if len(cells) != len(header):
        return f"{len(cells)} columns, and the header has {len(header)}"
    if at is not None and cells[at] not in columns.labels:
        return f"{columns.label} = {cells[at]!r}; expected one of {', '.join(columns.labels)}"
    return ""
