"""Text files of users: UTF-8, or the encoding of their byte order mark, in any locale."""

from __future__ import annotations

import codecs
from pathlib import Path

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def encoding_of(path: Path) -> str:
    """The encoding that a file's first bytes name, and UTF-8 if they name none.

    Windows' programs begin files with a byte order mark, and save "Unicode" as UTF-16.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        first = file.read(3)
    return next((encoding for mark, encoding in _MARKS if first.startswith(mark)), "utf-8")


def read_text(path: Path) -> str:
    """The text of a file, with its lines as they are.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: It is not in its encoding.
    """
    return path.read_text(encoding=encoding_of(path))
