"""Sentences of GLUE (Wang et al., 2018) in the tsv files that it gives: SST-2, QQP, QNLI and MNLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from dpeer.exceptions import TaskError
from dpeer.training.data.files import folder, need, reading
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import TextColumns, TextRows, Tokens, read_texts, read_tokens

TASK = "glue"
SOURCE = "https://gluebenchmark.com/tasks"


class Layout(NamedTuple):
    """How the files of one of the tasks are.

    Attributes:
        folder: What GLUE's archive calls the folder.
        columns: What their columns are.
        classes: What the classes are called.
        test: The file that is tested on: the labels of test.tsv are not public.
    """

    folder: str
    columns: TextColumns
    classes: tuple[str, ...]
    test: str = "dev.tsv"


_NLI = ("entailment", "neutral", "contradiction")
_QNLI = ("entailment", "not_entailment")
LAYOUTS: Mapping[str, Layout] = {
    "sst2": Layout("SST-2", TextColumns(("sentence",), "label", ("0", "1")), ("negative", "positive")),
    "qqp": Layout(
        "QQP", TextColumns(("question1", "question2"), "is_duplicate", ("0", "1")), ("not_duplicate", "duplicate")
    ),
    "qnli": Layout("QNLI", TextColumns(("question", "sentence"), "label", _QNLI), _QNLI),
    "mnli": Layout("MNLI", TextColumns(("sentence1", "sentence2"), "gold_label", _NLI), _NLI, "dev_matched.tsv"),
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
        rows = _read(path, layout.columns, skip=asked.skip)
        pools.append(_pool(rows, tokens, asked.length))
        if skipped := rows.left_out:
            remarks.append(
                f"{len(skipped)} of {len(skipped) + len(rows.lines)} lines of {path.name} are left out, since they are "
                f"not as they must be: {', '.join(map(str, skipped[:8]))}{', ...' if len(skipped) > 8 else ''}"
            )
    return Data(
        pools[0],
        pools[1],
        len(layout.classes),
        names={"classes": layout.classes, "tokenizer": (tokens.label,)},
        tokens=tokens,
        texts=layout.columns,
        remarks=tuple(remarks),
    )


def _pool(rows: TextRows, tokens: Tokens, length: int) -> Pool:
    texts = rows.texts
    found = tokens.examples(texts[0], texts[1] if len(texts) > 1 else None, length)
    return Pool(torch.from_numpy(found), torch.tensor(rows.labels))


def _read(path: Path, columns: TextColumns, *, skip: bool) -> TextRows:
    where, advice = f"task {TASK!r}: {path}", "; --task-option malformed=skip leaves such lines out"
    with reading(TASK, path, SOURCE):
        rows = read_texts(where, path.read_bytes(), columns, skip=skip, advice=advice)
    if rows.labels is None:
        raise TaskError(f"{where}, line 1: the column {columns.label!r} is missing")
    if not rows.labels:
        raise TaskError(f"{where} has no examples; get it anew from {SOURCE}")
    return rows
