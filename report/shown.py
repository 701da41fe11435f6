"""The groups of runs that a report is about, and those that its pictures show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpeer.results.groups import Group, Grouped, Measure

LINES = 8
"""The most groups in a picture of lines."""


@dataclass(frozen=True)
class Report:
    """The data that panels draw from.

    Attributes:
        grouped: All runs, in groups that differ in their seed alone.
        measure: The metric that the runs are judged by.
    """

    grouped: Grouped
    measure: Measure

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, by number."""
        return self.grouped.groups

    @cached_property
    def best(self) -> tuple[Group, ...]:
        """The groups in pictures of lines, by number: of many those that did best."""
        ranked = sorted(self.groups, key=self.measure.standing, reverse=True)[:LINES]
        return tuple(sorted(ranked, key=lambda group: group.number))

    @cached_property
    def styles(self) -> dict[int, int]:
        """By the number of a group in pictures of lines, which look it has."""
        return {group.number: style for style, group in enumerate(self.best)}

    @property
    def remark(self) -> str:
        """A sentence on the groups that pictures of lines leave out; empty if they have all."""
        if len(self.best) == len(self.groups):
            return ""
        return f"The {LINES} of {len(self.groups)} groups with the best {self.measure.name}; the table has all."
