"""Tables of docs/design.md that are drawn from tables of the core: `python -m tests.peer.core.drawn` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dpeer.peer.core import member_list
from dpeer.peer.core.membership import TRANSITIONS, Status
from dpeer.peer.core.waiting import RULES

PAGE = Path(__file__).parents[3] / "docs" / "design.md"


def states() -> list[str]:
    """A neighbor's states: a row each sign, with the state that follows in each."""
    rows = [
        [sign, *(turns[one].value if one in turns else "" for one in Status)] for sign, turns in TRANSITIONS.items()
    ]
    return table(["sign of a neighbor", *(one.value for one in Status)], rows)


def waits() -> list[str]:
    """When each wait ends: a row each rule, in their order."""
    rows = [[", ".join(rule.kinds), condition(rule.effect), rule.then] for rule in RULES]
    return table(["wait", "ends when", "then"], rows)


def lists() -> list[str]:
    """Which member list is taken: a row each rule, in their order."""
    return table(["when", "then"], [[condition(rule.takes), rule.then] for rule in member_list.RULES])


def condition(rule: Callable[..., object]) -> str:
    """When a rule holds: the first line of its docstring."""
    first = (rule.__doc__ or "").splitlines()[0].removesuffix(".")
    return first[:1].lower() + first[1:]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [line(head), line(["---"] * len(head)).replace(" ", ""), *map(line, rows)]


def line(cells: Iterable[str]) -> str:
    """A row of a table; an empty cell takes one space."""
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def drawn() -> list[list[str]]:
    """All tables."""
    return [states(), waits(), lists()]


def redrawn(page: str) -> str:
    """The page with each table as it is drawn now, in place of the one with the same head.

    Raises:
        ValueError: The page lacks a table.
    """
    lines = page.split("\n")
    for found in drawn():
        begin = lines.index(found[0])
        end = next(number for number in range(begin, len(lines)) if not lines[number].startswith("|"))
        lines[begin:end] = found
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text()))
