"""`dpeer report`: one page about one run or many."""

from __future__ import annotations

from dpeer.cli.report.command import report

__all__ = ["report"]
