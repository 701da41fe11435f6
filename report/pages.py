"""Pages as HTML, made of the files in templates/, and the folder that one is written to with its pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import dpeer
from dpeer.exceptions import OutputError, not_written

PAGE = "index.html"
MARK = '<meta name="generator" content="dpeer report'
"""The beginning of the head of every page, and of no other."""


def render(template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any) -> str:
    """A page as HTML; text is escaped, and a value that is missing is an error."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= filters or {}
    return environment.get_template(template).render(version=dpeer.__version__, **values)


def check_out(out: Path) -> None:
    """Check that a report may be written there.

    Raises:
        OutputError: The folder holds something else, or is a file.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(f"--out {str(out)!r} is a file: name a folder")
    if not out.exists() or not any(out.iterdir()):
        return
    page = out / PAGE
    if not page.is_file() or MARK not in page.read_text(errors="replace")[:1000]:
        raise OutputError(f"--out {str(out)!r} holds something that is no report: name another folder")


def write(out: Path, page: str, pictures: Mapping[str, bytes | None]) -> list[Path]:
    """Write a page and its pictures, PNG files by name; None removes one of an earlier report.

    Returns:
        The page's path, then the pictures'.

    Raises:
        OutputError: They cannot be written.
    """
    paths = {out / f"{name}.png": png for name, png in pictures.items()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, png in paths.items():
            if png is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(png)
        (out / PAGE).write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise not_written(f"--out {str(out)!r}", error) from error
    return [out / PAGE, *(path for path, png in paths.items() if png is not None)]
