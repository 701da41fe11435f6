"""Sentences of GLUE (Wang et al., 2018) in the tsv files that it gives: SST-2, QQP, QNLI and MNLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from dpeer.exceptions import TaskError
from dpeer.training.datasets.files import folder, need, reading
from dpeer.training.datasets.pool import Data, Pool
from dpeer.training.text import Tokens, read_tokens

TASK = "glue"
SOURCE = "https://gluebenchmark.com/tasks"


class Layout(NamedTuple):
    """How the files of one of the tasks are.

    Attributes:
        folder: What GLUE's archive calls the folder.
        texts: The columns of the one or two texts.
        label: The column of the label.
        labels: What stands there, in the order of the classes' numbers.
        classes: What the classes are called.
        test: The file that is tested on: the labels of test.tsv are not public.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    classes: tuple[str, ...]
    test: str = "dev.tsv"


_NLI = ("entailment", "neutral", "contradiction")
_QNLI = ("entailment", "not_entailment")
LAYOUTS: Mapping[str, Layout] = {
    "sst2": Layout("SST-2", ("sentence",), "label", ("0", "1"), ("negative", "positive")),
    "qqp": Layout("QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), ("not_duplicate", "duplicate")),
    "qnli": Layout("QNLI", ("question", "sentence"), "label", _QNLI, _QNLI),
    "mnli": Layout("MNLI", ("sentence1", "sentence2"), "gold_label", _NLI, _NLI, "dev_matched.tsv"),
}
"""The tasks that can be read, by the value of the option ``name``."""


@dataclass(frozen=True)
class Glue:
    """What of GLUE is read.

    Attributes:
        data: The folder with train.tsv, or the one around the folders of all tasks.
        name: One of `LAYOUTS`.
        tokenizer: A tokenizer.json; None for bytes.
        length: How many tokens an example has, padding included.
        skip: Whether lines that are not as they must be are left out; they are an error otherwise.
    """

    data: str
    name: str
    tokenizer: str | None
    length: int
    skip: bool


def glue(asked: Glue) -> Data:
    """Examples of token numbers, shape (length,), with their classes; the published dev file is the test pool.

    Raises:
        TaskError: A file is missing or damaged, or a line is not as it must be; the message names file and line.
    """
    layout = LAYOUTS[asked.name]
    where = folder(TASK, asked.data, f"train.tsv and {layout.test} of {layout.folder}", SOURCE, layout.folder)
    need(TASK, where / "train.tsv", f"{SOURCE}, where it is in the folder {layout.folder}")
    tokens = read_tokens(TASK, asked.tokenizer)
    pools: list[Pool] = []
    remarks: list[str] = []
    for file in ("train.tsv", layout.test):
        path = need(TASK, where / file, SOURCE)
        texts, labels, skipped = _read(path, layout, skip=asked.skip)
        pools.append(_pool(texts, labels, tokens, asked.length))
        if skipped:
            remarks.append(
                f"{len(skipped)} of {len(skipped) + len(labels)} lines of {path.name} are left out, since they are not "
                f"as they must be: {', '.join(map(str, skipped[:8]))}{', ...' if len(skipped) > 8 else ''}"
            )
    return Data(
        pools[0],
        pools[1],
        len(layout.classes),
        names={"classes": layout.classes, "tokenizer": (tokens.label,)},
        tokens=tokens,
        remarks=tuple(remarks),
    )


def _pool(texts: list[list[str]], labels: list[int], tokens: Tokens, length: int) -> Pool:
    found = tokens.examples(texts[0], texts[1] if len(texts) > 1 else None, length)
    return Pool(torch.from_numpy(found), torch.tensor(labels))


def _read(path: Path, layout: Layout, *, skip: bool) -> tuple[list[list[str]], list[int], list[int]]:
    """A column of texts for each that there is, the class numbers, and the numbers of lines that are left out."""
    with reading(TASK, path, SOURCE):
        # Not by `splitlines`, which parts at more characters, nor by `csv`: quotation marks are part of the sentences.
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if missing := [name for name in (*layout.texts, layout.label) if name not in header]:
        raise TaskError(
            f"task {TASK!r}: {path}, line 1: there is no column {missing[0]!r}; it has {', '.join(header[:12])}"
        )
    columns, at = [header.index(name) for name in layout.texts], header.index(layout.label)
    texts: list[list[str]] = [[] for _ in columns]
    labels: list[int] = []
    skipped: list[int] = []
    for number, line in enumerate(lines[1:], 2):
        if not line and number == len(lines):  # what is behind the last line's end
            break
        cells = line.rstrip("\r").split("\t")
        problem = _problem(cells, header, at, layout)
        if not problem:
            for column, place in zip(texts, columns, strict=True):
                column.append(cells[place])
            labels.append(layout.labels.index(cells[at]))
        elif skip:
            skipped.append(number)
        else:
            raise TaskError(
                f"task {TASK!r}: {path}, line {number}: {problem}; --task-option malformed=skip leaves such lines out"
            )
    if not labels:
        raise TaskError(f"task {TASK!r}: {path} has no examples; get it anew from {SOURCE}")
    return texts, labels, skipped


def _problem(cells: list[str], header: list[str], at: int, layout: Layout) -> str:
    """What is wrong with a line; empty if nothing is."""
    if len(cells) != len(header):
        return f"{len(cells)} columns, and the header has {len(header)}"
    if cells[at] not in layout.labels:
        return f"{layout.label} = {cells[at]!r}; expected one of {', '.join(layout.labels)}"
    return ""
