"""A tokenizer in the tokenizer.json of the library `tokenizers`, as it comes with most pretrained models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpeer.exceptions import TaskError, describe
from dpeer.extras import check_libraries
from dpeer.training.data.text.tokens import Ids, Tokens

_PADDING = ("<pad>", "[PAD]", "<|pad|>")
_AT_ONCE = 4096  # texts whose encodings, which are large, are in memory together


class FileTokens(Tokens):
    """What a tokenizer.json says, but for its cutting and padding, which are the task's.

    Args:
        tokenizer: A `tokenizers.Tokenizer`; it is changed.
        digest: SHA-256 (hex) of its file.
    """

    def __init__(self, tokenizer: Any, digest: str) -> None:
        said = tokenizer.padding or {}
        named = (tokenizer.token_to_id(name) for name in _PADDING)
        self.padding = said.get("pad_id", next((number for number in named if number is not None), None))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.label = f"tokenizer.json with SHA-256 {digest[:16]}"
        # Numbers may have gaps, and the highest one counts.
        self.vocabulary = 1 + max([*tokenizer.get_vocab(with_added_tokens=True).values(), self.padding or 0])
        pair = tokenizer.encode("a", "b")
        ends_alone = bool(pair.ids) and pair.special_tokens_mask[-1] == 1
        self.separator = int(pair.ids[-1]) if ends_alone else None

    @classmethod
    def read(cls, task: str, path: str) -> FileTokens:
        """Read a file.

        Args:
            task: The task's name, for messages.
            path: The file.

        Raises:
            TaskError: It is not there, or no tokenizer.json.
            ConfigurationError: The library `tokenizers` is not installed.
        """
        where = Path(path).expanduser()
        if not where.is_file():
            raise TaskError(f"task {task!r}: there is no file tokenizer = {path!r}; expected a tokenizer.json")
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
        return cls(tokenizer, hashlib.sha256(content).hexdigest())

    def numbers(self, texts: Sequence[str]) -> list[Ids]:
        """See `Tokens`."""
        self._tokenizer.no_truncation()
        return [
            np.asarray(one.ids, np.int32)
            for some in _some(texts)
            for one in self._tokenizer.encode_batch(some, add_special_tokens=False)
        ]

    def _examples(self, firsts: Sequence[str], seconds: Sequence[str] | None, length: int) -> list[Sequence[int]]:
        self._tokenizer.enable_truncation(length)
        texts: Sequence[Any] = firsts if seconds is None else list(zip(firsts, seconds, strict=True))
        return [one.ids for some in _some(texts) for one in self._tokenizer.encode_batch(some)]


def _some(texts: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(texts), _AT_ONCE):
        yield list(texts[start : start + _AT_ONCE])
