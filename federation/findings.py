"""Findings of `dpeer check`: what was looked at, whether it is in order, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from dpeer.exceptions import DpeerError, describe


class Level(StrEnum):
    """Whether what was looked at is in order."""

    PASS = "PASS"  # noqa: S105 - no password
    WARN = "WARN"
    """It starts, and something may be not as it is meant."""

    FAIL = "FAIL"
    """It would not start, or not take part."""


@dataclass(frozen=True)
class Finding:
    """One line of a check: what was looked at, in a word or two, whether it is in order, and what was found."""

    check: str
    level: Level
    text: str


class Findings:
    """The findings so far, in their order; `tell` gets each as soon as it is there."""

    def __init__(self, tell: Callable[[Finding], None] = lambda finding: None) -> None:
        self.all: list[Finding] = []
        self._tell = tell

    def add(self, check: str, level: Level, text: str) -> None:
        """Note a finding."""
        self.all.append(Finding(check, level, text))
        self._tell(self.all[-1])

    def passed(self, check: str, text: str) -> None:
        """Note that something is in order."""
        self.add(check, Level.PASS, text)

    def warn(self, check: str, text: str) -> None:
        """Note that something may be not as it is meant."""
        self.add(check, Level.WARN, text)

    def fail(self, check: str, text: str) -> None:
        """Note that something keeps the peer from starting, or from taking part."""
        self.add(check, Level.FAIL, text)

    def of(self, check: str) -> AbstractContextManager[None, bool]:
        """Context in which an error is noted as a failed check, which ends with it, and goes no further."""
        return _Guard(self, check)

    def fine(self, *checks: str) -> bool:
        """Whether nothing of these checks has failed."""
        return not any(one.check in checks and one.level is Level.FAIL for one in self.all)

    def count(self, *levels: Level) -> int:
        """How many findings are of these levels."""
        return sum(one.level in levels for one in self.all)


class _Guard(AbstractContextManager[None, bool]):
    def __init__(self, findings: Findings, check: str) -> None:
        self._findings, self._check = findings, check

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):  # none, or Ctrl-C
            return False
        # One that is not dpeer's is of a task, or of a library: the start would end with it, too.
        self._findings.fail(self._check, str(error) if isinstance(error, DpeerError) else describe(error))
        return True
