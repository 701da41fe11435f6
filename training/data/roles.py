"""Next-token data of the roles of plays: LEAF's Shakespeare, or a file of speakers and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.files import check, read_npz, reading
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import read_tokens

TASK = "roles"
LEAF = "https://github.com/TalwalkarLab/leaf (data/shakespeare/preprocess.sh)"
OWN = "its author"
_HOLDS = "LEAF's all_data/*.json, or a file .npz or .jsonl of speakers and texts"
_PLACES = ("data/shakespeare/data", "shakespeare/data", "data")

Texts = dict[str, str]
"""All that each role says, by its name."""


def read_texts(data: Any) -> Texts:
    """The text of each role.

    Args:
        data: A folder with LEAF's ``all_data/*.json``, or the one around it; one of its files; an ``.npz`` file of
            ``speakers`` (n,), ``text`` (bytes of UTF-8, uint8) and ``offsets`` (n + 1,), where each one's text begins;
            or a ``.jsonl`` file with ``{"speaker": ..., "text": ...}`` on each line, any number of them a speaker.

    Raises:
        TaskError: It is missing or damaged.
    """
    if data is None:
        raise TaskError(f"task {TASK!r} needs --task-option data=PATH, a folder that holds {_HOLDS}")
    if not isinstance(data, str) or not data:
        raise TaskError(f"task {TASK!r}: data = {data!r}: expected the name of a folder that holds {_HOLDS}")
    path = Path(data).expanduser()
    if path.is_dir():
        found = _folder(next((path / place for place in _PLACES if (path / place).is_dir()), path))
    elif not path.is_file():
        raise TaskError(f"task {TASK!r}: data = {data!r} does not exist; expected a folder that holds {_HOLDS}")
    elif path.suffix == ".npz":
        found = _npz(path)
    elif path.suffix == ".jsonl":
        found = _jsonl(path)
    elif path.suffix == ".json":
        found = _leaf(path)
    else:
        raise TaskError(f"task {TASK!r}: data = {data!r}: expected a folder that holds {_HOLDS}")
    found = {role: text for role, text in found.items() if text}
    check(TASK, path, bool(found), "at least one role that says something")
    return found


def _folder(where: Path) -> Texts:
    """LEAF's folder: everything that was read from the plays, or else what it has divided by role."""
    places = [where / "all_data"] if (where / "all_data").is_dir() else [where, where / "train", where / "test"]
    paths = [path for place in places for path in sorted(place.glob("*.json"))]
    if not paths:
        raise TaskError(f"task {TASK!r}: expected json files in {where / 'all_data'}, or in {where}; from {LEAF}")
    found: Texts = {}
    for path in paths:
        more = _leaf(path)
        if both := sorted(found.keys() & more.keys()):
            raise TaskError(
                f"task {TASK!r}: {path} has samples of {both[0]!r}, of which another file has some, too: LEAF divides "
                "a role's samples at random, so that nearly every character that is tested on is trained on, too; give "
                "the folder all_data, of which whole stretches are held out"
            )
        found |= more
    return found


def _leaf(path: Path) -> Texts:
    with reading(TASK, path, LEAF):
        content = json.loads(path.read_bytes())
        samples: Mapping[str, Any] = content["user_data"]
        return {str(role): _joined(str(role), samples[role]["x"], samples[role]["y"]) for role in content["users"]}


def _joined(role: str, x: list[str], y: list[str]) -> str:
    """The text whose characters are `y`, each of them after those in `x`.

    LEAF begins every line of a play with a sample of blanks alone. So where a sample does not follow the one before, it
    must begin a line.
    """
    if len(x) != len(y) or any(len(one) != 1 for one in y):
        raise ValueError(f"role {role!r} has {len(x)} x and {len(y)} y; expected a character y after each x")
    if x and x[0].strip():
        raise ValueError(f"role {role!r}, sample 0 does not begin a line: use LEAF's all_data")
    for number, ((before, character), after) in enumerate(pairwise(zip(x, y, strict=True)), 1):
        if after[0] != before[1:] + character and after[0].strip():
            raise ValueError(f"role {role!r}, sample {number} does not follow the one before it: use LEAF's all_data")
    return "".join(y)


def _npz(path: Path) -> Texts:
    arrays = read_npz(TASK, path, OWN, ("speakers", "text", "offsets"))
    speakers, text, offsets = (arrays[name] for name in ("speakers", "text", "offsets"))
    fits = text.ndim == 1 and text.dtype == np.uint8 and speakers.ndim == 1 and speakers.dtype.kind == "U"
    fits = fits and offsets.shape == (len(speakers) + 1,) and offsets.dtype.kind in "iu"
    fits = fits and len(set(speakers.tolist())) == len(speakers)
    check(TASK, path, fits, "speakers (n,) that differ, text (bytes, uint8) and offsets (n + 1,)")
    starts = [int(offset) for offset in offsets]
    inside = starts[0] >= 0 and starts[-1] <= len(text) and all(one <= other for one, other in pairwise(starts))
    check(TASK, path, inside, f"offsets that rise from 0 to at most {len(text)}")
    content = text.tobytes()
    with reading(TASK, path, OWN):
        parts = [content[start:stop].decode() for start, stop in pairwise(starts)]
    return dict(zip(speakers.tolist(), parts, strict=True))


def _jsonl(path: Path) -> Texts:
    with reading(TASK, path, OWN):
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        speaker, text = (entry.get(key) if isinstance(entry, dict) else None for key in ("speaker", "text"))
        if not isinstance(speaker, str) or not isinstance(text, str):
            raise TaskError(
                f'task {TASK!r}: {path}, line {number}: expected {{"speaker": "...", "text": "..."}}, both of them text'
            )
        found.setdefault(speaker, []).append(text)
    return {speaker: "\n".join(texts) for speaker, texts in found.items()}


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
            f"task {TASK!r}: task option roles = {count}: expected 1 to {len(texts)}, the number of roles in the data"
        )
    chosen = sorted(texts, key=lambda name: (-len(texts[name]), name))[:count]
    return {name: texts[name] for name in chosen}
