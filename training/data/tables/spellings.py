"""Spellings of a category's words: cells that differ in capitals or by `.0` and mean the same; no torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dpeer.training.data.tables.numerals import WHOLE, as_number


def without_zeros(cells: Sequence[str]) -> Collection[str]:
    """The cells of whole numbers that are written with `.0`, if all numbers among the cells are whole.

    A program that had gaps in a column writes 1 as 1.0. Where other numbers are there, as 250.01 beside 250.0, the
    zero may be a part of a code.
    """
    numbers = [cell for cell in set(cells) if as_number(cell) is not None]
    if not all(WHOLE.fullmatch(cell) for cell in numbers):
        return frozenset()
    return frozenset(cell for cell in numbers if cell.endswith(".0"))


class Spellings:
    """The words of a category or the classes, and the other spellings under which cells have them.

    A cell is the word that it equals; else the one that differs in capitals alone; else, where all numbers among the
    words and among the cells are whole, the one that differs by `.0`; else the one that differs in the decimal mark.

    Args:
        words: The words, each once.
        cells: The column's cells.
        decimal: The table's decimal mark.
    """

    def __init__(self, words: Sequence[str], cells: Sequence[str] = (), decimal: str = ".") -> None:
        self._decimal = decimal
        pointed = {_pointed(word, ""): place for place, word in enumerate(words) if _pointed(word, "")}
        self._pointed = pointed if len({*map(_comma_free, words)}) == len(words) else {}
        self._exact = {word: place for place, word in enumerate(words)}
        folded: dict[str, set[int]] = {}
        for word, place in self._exact.items():
            folded.setdefault(word.casefold(), set()).add(place)
        self._folded = {word: min(places) for word, places in folded.items() if len(places) == 1}
        numbers = [word for word in words if as_number(word) is not None]
        whole = all(WHOLE.fullmatch(word) for word in numbers)
        bare = {word.removesuffix(".0"): place for word, place in self._exact.items()}
        self._bare = bare if whole and len(bare) == len(words) else {}
        self._zeros = without_zeros(cells) if self._bare else frozenset()

    def place(self, cell: str) -> int | None:
        """The place of the cell's word; None if it is none of them."""
        found = self._exact.get(cell)
        if found is None:
            found = self._folded.get(cell.casefold())
        if found is None and cell.endswith(".0"):
            found = self._bare.get(cell.removesuffix(".0")) if cell in self._zeros else None
        elif found is None and WHOLE.fullmatch(cell):
            found = self._bare.get(cell)
        return self._pointed.get(_pointed(cell, self._decimal)) if found is None and self._pointed else found


def _comma_free(word: str) -> str:
    return word.replace(",", ".")


def _pointed(word: str, decimal: str) -> str:
    """A number that is no whole one, with a decimal point; empty for other words, and for what may be two numbers."""
    fits = re.fullmatch(r"-?[0-9]+[.,][0-9]+", word) and as_number(word, decimal) is not None
    return _comma_free(word) if fits else ""


def spelled(cells: Sequence[str]) -> dict[str, str]:
    """By cell, the word that it is one spelling of: of those that differ in capitals or by `.0`, the most frequent.

    Equally frequent spellings give the one that sorts first.
    """
    zeros = without_zeros(cells)
    counts: dict[str, int] = {}
    for cell in cells:
        word = cell.removesuffix(".0") if cell in zeros else cell
        counts[word] = counts.get(word, 0) + 1
    chosen: dict[str, str] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        chosen.setdefault(word.casefold(), word)
    return {cell: chosen[(cell.removesuffix(".0") if cell in zeros else cell).casefold()] for cell in set(cells)}
