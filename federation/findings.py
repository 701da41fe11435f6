"""Findings of `dpeer check`: what was looked at, whether it is in order, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from dpeer.exceptions import DpeerError, describe


class Level(StrEnum):
    """Whether what was looked at is in order."""

    PASS = "PASS"  # noqa: S105 - no password
    WARN = "WARN"
    """It starts, and something may be not as it is meant."""

    FAIL = "FAIL"
    """It would not start, or not take part."""


Verdict = tuple[Level, str]
"""Whether something is in order, and what was found."""


class Finding(NamedTuple):
    """One line of a check: what was looked at, in a word or two, whether it is in order, and what was found."""

    check: str
    level: Level
    text: str


class Findings:
    """The findings so far, in their order; `tell` gets each as soon as it is there."""

    def __init__(self, tell: Callable[[Finding], None] = lambda finding: None) -> None:
        self.all: list[Finding] = []
        self._tell = tell

    def add(self, check: str, verdict: Verdict) -> None:
        """Note a finding."""
        self.all.append(Finding(check, *verdict))
        self._tell(self.all[-1])

    def take(self, check: str, verdicts: Iterable[Verdict]) -> None:
        """Note each of these, and an error among them as `of` does."""
        with self.of(check):
            for one in verdicts:
                self.add(check, one)

    @contextmanager
    def of(self, check: str) -> Iterator[None]:
        """Context in which an error is noted as a failed check, which ends with it, and goes no further."""
        try:
            yield
        except Exception as error:
            # One that is not dpeer's is of a task, or of a library: the start would end with it, too.
            self.add(check, (Level.FAIL, str(error) if isinstance(error, DpeerError) else describe(error)))

    def fine(self, *checks: str) -> bool:
        """Whether nothing of these checks has failed."""
        return not any(one.check in checks and one.level is Level.FAIL for one in self.all)

    def count(self, *levels: Level) -> int:
        """How many findings are of these levels."""
        return sum(one.level in levels for one in self.all)
