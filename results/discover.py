"""Finding the runs in folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.results.reading import read_run
from dpeer.results.runs import Run

_DEEP = 2


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """All runs in the folders, each once, in the order in which the folders are named.

    Raises:
        ConfigurationError: a folder is not there, or holds no run.
    """
    found: dict[Path, Run] = {}
    for source, folder in enumerate(folders):
        if not folder.is_dir():
            raise ConfigurationError(f"{str(folder)!r} is no folder: name the --out of a run, or a folder of such")
        here = list(_search(folder, _DEEP))
        if not here:
            raise ConfigurationError(
                f"{str(folder)!r} holds no run: expected {folder / 'summary.json'}, or folders that hold one"
            )
        for run in here:
            found.setdefault(run.folder.resolve(), replace(run, source=source))
    return list(found.values())


def _search(folder: Path, deep: int) -> Iterator[Run]:
    run = read_run(folder)
    if run is not None:
        yield run
    if deep == 0:
        return
    for inner in sorted((path for path in folder.iterdir() if path.is_dir()), key=_natural):
        # What a run was compared with stands in its folder; everything else there is its own.
        # The trials that `dpeer compare` tunes with are means to an end: shown only when they are asked for.
        aside = inner.name.startswith((".", "rank-")) or inner.name == "tune"
        wanted = inner.name.startswith("baseline-") if run else not aside
        if wanted:
            yield from _search(inner, deep - 1)


def _natural(path: Path) -> list[tuple[int, str]]:
    """A sort key by which cell-2 comes before cell-10."""
    spaced = "".join(c if c.isascii() and c.isdigit() else f" {c} " for c in path.name)
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in spaced.split()]
