"""A report's panel, and the look that all pictures share: colors, fonts, ticks, legends and names of rows."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpeer.results.groups import Group, Grouped, Measure

WIDTH = 7.4
"""Inches; with this font letters are as large as the page's own when the page is 60 characters wide."""

_CHARACTERS = 98
"""Letters of a legend's line."""

_SETTINGS = {
    "savefig.dpi": 160,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "font.size": 11.0,
    "axes.titlesize": 11.0,
    "legend.fontsize": 10.0,
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "text.parse_math": False,  # a dollar sign in a label is one
    "svg.fonttype": "none",  # text that can be searched and read aloud
    "svg.hashsalt": "dpeer",  # else the file differs from call to call
}

# Okabe and Ito's palette, which color-blind people can tell apart, with a grey for its yellow, too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#777777")
MARKERS = "osD^vXP*"
GREY = "#444444"

WIDE = 30.0
"""Times the least value from which on values are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Panel:
    """One part of the page: a picture, a table or a sentence.

    Attributes:
        caption: How to read the picture or table; or why none is shown.
        alt: The picture in words.
        lead: A sentence above the table.
        columns: The table's columns: their headings, and how their cells are set (see templates/table.html).
        terms: Names with values, below the caption.
    """

    title: str
    caption: str
    alt: str = ""
    figure: Figure | None = None
    lead: str = ""
    columns: Sequence[tuple[str, str]] = ()
    rows: Sequence[Sequence[object]] = ()
    terms: Mapping[str, str] | None = None


@contextmanager
def looks() -> Iterator[None]:
    """Within it the report's own matplotlib settings hold, instead of the user's; afterwards these are back."""
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a label in letters that the font has not
        yield


def saved(figure: Figure, suffix: str = "png") -> bytes:
    """A picture as a file's content, png or svg."""
    file = io.BytesIO()
    figure.savefig(file, format=suffix, metadata={"Date": None} if suffix == "svg" else None)
    return file.getvalue()


def new_figure(height: float) -> Figure:
    """An empty figure."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def look(style: int) -> dict[str, Any]:
    """Color and marker of a group; markers stand at other places than on other lines."""
    color, marker = COLORS[style % len(COLORS)], MARKERS[style % len(MARKERS)]
    return {"color": color, "marker": marker, "ms": 5.5, "lw": 1.7, "markevery": (0.015 * style, 0.12)}


def log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis on which all is drawn, as plain numbers.

    Ticks stand at powers of ten and two values between them; over many decades, where matplotlib would then leave all
    of them out, at some powers of ten.
    """
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high < 1e3 * low else LogLocator(numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, names: Mapping[int, str], kinds: Sequence[Artist]) -> None:
    """Draw one legend for all facets: the kinds of lines above them, the groups below, in as many columns as fit."""
    groups = [Line2D([], [], **look(style), label=clip(name)) for style, name in sorted(names.items())]
    if groups:
        figure.legend(handles=groups, loc="outside lower center", ncols=_columns(groups))
    if kinds:
        figure.legend(handles=kinds, loc="outside upper center", ncols=_columns(kinds))


def _columns(handles: Sequence[Artist]) -> int:
    lengths = [len(str(handle.get_label())) + 9 for handle in handles]
    return len(lengths) if sum(lengths) <= _CHARACTERS else max(1, _CHARACTERS // max(lengths))


def name_rows(axes: Axes, names: list[str]) -> None:
    """Write a name beside each row, in two lines where it is long."""
    axes.set_yticks(range(len(names)), [wrap(clip(name, 76), 38) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def wrap(name: str, width: int) -> str:
    """A label in at most two lines."""
    return "\n".join(textwrap.wrap(name, width, max_lines=2, placeholder="…"))


def clip(name: str, most: int = 64) -> str:
    """A name, cut to leave room for the picture; matplotlib would leave out one that begins with an underscore."""
    name = f" {name}" if name.startswith("_") else name
    return name if len(name) <= most else f"{name[: most - 1]}…"


LINES = 8
"""The most groups in a picture of lines."""


@dataclass(frozen=True)
class Report:
    """The data that panels draw from."""

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
