"""HTML and SVG elements as text, whose content and attributes are always escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"br", "link", "meta"})
"""Elements without content and without an end tag."""


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, *content: str | None, **attributes: object) -> Markup:
    """An element; text within it is escaped, markup is not.

    Args:
        tag: Its name.
        content: Text and elements, in order; None is left out.
        attributes: By name, `_` for `-` and one at the end dropped (`class_`); None is left out, True has no value.
    """
    head = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_value(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{head}>")
    return Markup(f"<{tag}{head}>{joined(content)}</{tag}>")


def joined(parts: Iterable[str | None]) -> Markup:
    """Text and elements in a row; text is escaped, None is left out."""
    return Markup("".join(one if isinstance(one, Markup) else _clean(one) for one in parts if one is not None))


def coordinate(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _value(value: object) -> str:
    return coordinate(value) if isinstance(value, float) else _clean(str(value))


def _clean(text: str) -> str:
    """The text, escaped; characters that are not printed, and would turn or hide the others, become a mark."""
    if not text.isprintable():
        text = "".join(one if one.isprintable() or one in " \n" else "\N{REPLACEMENT CHARACTER}" for one in text)
    return escape(text)
