"""Hooks of the documentation site: the README is its first page, and files that pages link to are part of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

PAGES = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md", "LICENSE": "LICENSE", "examples/deploy/README.md": "deploy.md",
    "examples/papers/README.md": "papers.md",
}  # fmt: skip
"""Pages that lie outside of docs/, and their place in the site."""

_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_SOURCE = "source"
"""In the site: files of the project that pages link to, as they are."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside of docs/, and the files that any page links to."""
    texts = {}
    for name, place in PAGES.items():
        if (ROOT / name).exists():
            texts[place] = rewritten((ROOT / name).read_text(encoding="utf-8"), (ROOT / name).parent)
    for path in sorted((ROOT / "docs").glob("*.md")):
        texts[path.name] = rewritten(path.read_text(encoding="utf-8"), path.parent)
    for place, text in texts.items():
        if (known := files.get_file_from_path(place)) is not None:
            files.remove(known)
        files.append(File.generated(config, place, content=text))
    linked = {link for text in texts.values() for _, link, _ in _LINK.findall(text)}
    for link in sorted(link for link in linked if link.startswith(f"{_SOURCE}/")):
        source = ROOT / link.removeprefix(f"{_SOURCE}/")
        files.append(File.generated(config, link, abs_src_path=str(source)))
    return files


def rewritten(text: str, folder: Path) -> str:
    """A page with its links as they are in the site: files of the project are beside it, folders are named alone.

    Args:
        text: The page.
        folder: Where it lies, from which its links count.
    """

    def replaced(match: re.Match[str]) -> str:
        words, link, anchor = match[1], match[2], match[3] or ""
        if "://" in link or link.startswith("mailto:"):
            return match[0]
        path = (folder / link).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return match[0]  # a broken one, which the build names
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            return f"`{name}`" if words.strip("`") == name else f"{words} (`{name}`)"
        if path.parent == ROOT / "docs":
            return f"[{words}]({path.name}{anchor})"
        return f"[{words}]({PAGES.get(name, f'{_SOURCE}/{name}')}{anchor})"

    return _LINK.sub(replaced, text)
