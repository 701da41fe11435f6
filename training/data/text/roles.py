"""What each role of a play says, in windows of which a model predicts every next token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import read_tokens
from dpeer.training.data.text.roles_files import TASK, Texts, read_texts

STRETCHES = 20
"""Into so many stretches a role's windows are divided; some are held out, each as a whole."""


@dataclass(frozen=True)
class Roles:
    """What is read.

    Attributes:
        data: As `read_texts` takes it.
        tokenizer: A tokenizer.json; None for bytes.
        length: How many tokens a window predicts.
        roles: How many roles: those that say most; None for all.
    """

    data: Any
    tokenizer: str | None
    length: int
    roles: int | None


def roles(asked: Roles) -> Data:
    """Windows of token numbers, shape (length,), and for each place the token behind it, by role.

    Windows have no token in common, the last target included, so that no token is in two examples. What is left at a
    role's end, shorter than a window, is not used.

    Raises:
        TaskError: A file is missing or damaged, or no role says enough for a window.
    """
    texts = read_texts(asked.data)
    if asked.roles is not None:
        texts = _longest(texts, asked.roles)
    tokens = read_tokens(TASK, asked.tokenizer)
    names = sorted(texts)
    windows: list[NDArray[np.int32]] = []
    owners: list[str] = []
    stretches: list[int] = []
    for name, numbers in zip(names, tokens.numbers([texts[name] for name in names]), strict=True):
        count = len(numbers) // (asked.length + 1)
        windows.append(numbers[: count * (asked.length + 1)].reshape(count, asked.length + 1))
        owners += [name] * count
        # A twentieth each, in their order; of few windows each is a stretch by itself.
        first = stretches[-1] + 1 if stretches else 0
        stretches += (first + np.arange(count) * min(count, STRETCHES) // max(count, 1)).tolist()
    if not owners:
        raise TaskError(
            f"task {TASK!r}: no role says {asked.length + 1} tokens, as many as a window with length = {asked.length} "
            "needs: choose a smaller length"
        )
    found = torch.from_numpy(np.concatenate(windows))
    pool = Pool(found[:, :-1].contiguous(), found[:, 1:].long(), np.array(owners), np.array(stretches, dtype=np.int64))
    return Data(pool, None, tokens.vocabulary, "role", names={"tokenizer": (tokens.label,)}, tokens=tokens)


def _longest(texts: Texts, count: int) -> Texts:
    if not 1 <= count <= len(texts):
        raise TaskError(
            f"task {TASK!r}: task option roles = {count}: expected 1 to {len(texts)}, the roles that there are"
        )
    chosen = sorted(texts, key=lambda name: (-len(texts[name]), name))[:count]
    return {name: texts[name] for name in chosen}
