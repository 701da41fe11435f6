"""Canonical text of numbers in settings such as `clip:0.5`, so that peers can compare texts; imports no torch."""

from __future__ import annotations


def shortest(number: float) -> str:
    """The text of a number: six digits where they are exact, else all that distinguish it."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
