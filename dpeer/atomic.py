"""Atomic replacement of a file: readers see the old content or the new, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty draft beside `path`, which takes its place when the block ends, and is removed where the block raises.

    The draft is made anew: a planted link under its name is removed and not followed.

    Raises:
        OSError: The draft cannot be made, or cannot take the place.
    """
    draft = path.with_name(f".{path.name}.tmp")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
