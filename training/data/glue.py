"""Sentences of GLUE (Wang et al., 2018) in the tsv files that it gives: SST-2, QQP, QNLI and MNLI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field

from dpeer.exceptions import TaskError
from dpeer.training.data.files import Source
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import LONGEST, SHORTEST, TextColumns, TextRows, Tokens, read_texts, read_tokens

_SOURCE = Source("glue", "https://gluebenchmark.com/tasks")
Name = Literal["sst2", "qqp", "qnli", "mnli"]


class Files(NamedTuple):
    """How the files of one of the tasks are; `folder` is what GLUE's archive calls theirs."""

    folder: str
    columns: TextColumns
    classes: tuple[str, ...]
    test: str = "dev.tsv"
    """The file that is tested on: the labels of test.tsv are not public."""


_NLI = ("entailment", "neutral", "contradiction")
_QNLI = ("entailment", "not_entailment")
FILES: Mapping[Name, Files] = {
    "sst2": Files("SST-2", TextColumns(("sentence",), "label", ("0", "1")), ("negative", "positive")),
    "qqp": Files(
        "QQP", TextColumns(("question1", "question2"), "is_duplicate", ("0", "1")), ("not_duplicate", "duplicate")
    ),
    "qnli": Files("QNLI", TextColumns(("question", "sentence"), "label", _QNLI), _QNLI),
    "mnli": Files("MNLI", TextColumns(("sentence1", "sentence2"), "gold_label", _NLI), _NLI, "dev_matched.tsv"),
}
"""The tasks that can be read, by the value of the option ``name``."""


def glue(
    *,
    data: str | None = None,
    name: Name,
    tokenizer: str | None = None,
    length: Annotated[int, Field(ge=SHORTEST, le=LONGEST)] = 128,
    malformed: Literal["refuse", "skip"] = "refuse",
) -> Data:
    """Examples of token numbers, shape (length,), with their classes; the published dev file is the test pool.

    Args:
        data: The folder with train.tsv, or the one around the folders of all tasks.
        name: One of `FILES`.
        tokenizer: A tokenizer.json; None for bytes.
        length: How many tokens an example has, padding included.
        malformed: Whether lines that are not as they must be are left out, or an error.

    Raises:
        TaskError: A file is missing or damaged, or a line is not as it must be; the message names file and line.
    """
    files = FILES[name]
    where = _SOURCE.folder(data, f"train.tsv and {files.test} of {files.folder}", files.folder)
    _SOURCE.need(where / "train.tsv", f", where it is in the folder {files.folder}")
    tokens = read_tokens(_SOURCE.task, tokenizer)
    pools: list[Pool] = []
    remarks: list[str] = []
    for file in ("train.tsv", files.test):
        path = _SOURCE.need(where / file)
        rows = _read(path, files.columns, skip=malformed == "skip")
        pools.append(_pool(rows, tokens, length))
        if skipped := rows.left_out:
            remarks.append(
                f"{len(skipped)} of {len(skipped) + len(rows.lines)} lines of {path.name} are left out, since they are "
                f"not as they must be: {', '.join(map(str, skipped[:8]))}{', ...' if len(skipped) > 8 else ''}"
            )
    return Data(
        pools[0],
        pools[1],
        len(files.classes),
        names={"classes": files.classes, "tokenizer": (tokens.label,)},
        tokens=tokens,
        texts=files.columns,
        remarks=tuple(remarks),
    )


def _pool(rows: TextRows, tokens: Tokens, length: int) -> Pool:
    texts = rows.texts
    found = tokens.examples(texts[0], texts[1] if len(texts) > 1 else None, length)
    return Pool(torch.from_numpy(found), torch.tensor(rows.labels))


def _read(path: Path, columns: TextColumns, *, skip: bool) -> TextRows:
    where, advice = f"task {_SOURCE.task!r}: {path}", "; --task-option malformed=skip leaves such lines out"
    with _SOURCE.reading(path):
        rows = read_texts(where, path.read_bytes(), columns, skip=skip, advice=advice)
    if rows.labels is None:
        raise TaskError(f"{where}, line 1: the column {columns.label!r} is missing")
    if not rows.labels:
        raise TaskError(f"{where} has no examples; get it anew from {_SOURCE.place}")
    return rows
