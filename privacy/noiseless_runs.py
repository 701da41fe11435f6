"""Runs without noise: a note that bodies left as they were, because it lowers what later runs may promise."""

from __future__ import annotations

from pathlib import Path

from dpeer.privacy import history
from dpeer.privacy.history import FOLDER, LEDGER
from dpeer.privacy.ledger_file import Run, read_or_none


class Unprotected:
    """A run without noise, whose first release is noted in the peer's privacy folder.

    Args:
        folder: The peer's privacy folder.
        data: SHA-256 (hex) of the peer's data; None where nobody knows.
        new_data: Whether the data are others than those of earlier runs in the folder.
    """

    def __init__(self, folder: Path, *, data: str | None = None, new_data: bool = False) -> None:
        self._folder, self._data, self._new_data = folder, data, new_data
        self._noted = False

    def begin(self) -> None:
        """Begin a new run. An earlier one's ledger without noise, of the same data, stays: it says all there is."""
        there = self._path.exists() and not _says_it(read_or_none(self._path), self._data)
        # One that is stopped before its first release may be gone on with, and is to know how much was put aside.
        if there or self._new_data:
            history.begin(self._folder, None, self._data, new_data=self._new_data)

    def note(self, number: int) -> None:
        """Note that round `number` is about to be released without noise; the note is on disk when this returns.

        Raises:
            OSError: The disk refused; nothing may be sent.
        """
        if self._noted:
            return
        run = read_or_none(self._path)
        if not _says_it(run, self._data):
            history.note_plain(self._folder, self._data, new_data=self._new_data or self._said(run))
        self._noted = True

    def _said(self, run: Run | None) -> bool:
        """Whether the run is resumed before its first release, and `new_data` was said when it began."""
        if run is None or run.rounds or not run.new_data:
            return False
        return run.mechanism is None and self._data is not None and run.data == self._data

    @property
    def _path(self) -> Path:
        return self._folder / LEDGER


def notes_releases(folder: Path) -> bool:
    """Whether the ledger in a peer's folder is of a run that released something without noise."""
    run = read_or_none(folder / FOLDER / LEDGER)
    return run is not None and run.mechanism is None and bool(run.rounds)


def _says_it(run: Run | None, data: str | None) -> bool:
    """Whether a ledger says that bodies trained on these data have left without noise."""
    return run is not None and run.mechanism is None and bool(run.rounds) and run.data == data
