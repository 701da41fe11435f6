"""Panel of the class mix: stacked bars of the training samples of each peer by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dpeer.report.facets import Report
from dpeer.report.style import Panel, clip, new_figure, tidy
from dpeer.results.groups import Group
from dpeer.results.reading import Run
from dpeer.results.summaries import PeerSummary

# Paul Tol's "muted", which color-blind people can tell apart, with its pale grey.
_COLORS = (
    "#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#DDDDDD",
)  # fmt: skip
_NAMED = 2 * len(_COLORS)
_PICTURES = 4
_COLORMAP = "cividis"
_LABELLED = 50
_MOST = 10_000
_NAME = 24
"""The longest name of a class that is drawn in full."""
_CHARACTERS = 90
"""So many fit beside one another in a legend."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class _Mix:
    """One division of the data."""

    counts: Counts
    ranks: list[int]
    title: str
    names: tuple[str, ...]
    """The classes' names in the order of the columns; empty where they have none."""


def class_mix(report: Report) -> Panel:
    """Stacked bars of training samples by class, a bar for each peer."""
    title, groups = "Class mix per peer", report.groups
    found = _mixes(groups)
    if not found:
        return Panel(title, "These runs do not say how many samples of each class their peers train on.")
    shown = found[:_PICTURES]
    heights = [max(1.4, min(0.26 * len(mix.ranks), 9.0)) for mix in shown]
    classes = max(mix.counts.shape[1] for mix in shown)
    figure = new_figure(sum(heights) + 0.9 * len(shown) + 0.3 + (0.25 * min(4, 1 + classes // 7)))
    grid = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights).ravel()
    for axes, mix in zip(grid, shown, strict=True):
        _draw(axes, mix, classes)
        axes.set_title(clip(mix.title, 80) if len(found) > 1 else "", loc="left")
    grid[-1].set_xlabel("training samples")
    if classes <= _NAMED:
        labels = _labels(shown, classes)
        handles = [Patch(**_look(number, classes), label=label) for number, label in enumerate(labels)]
        columns = min(5, classes, max(1, _CHARACTERS // (max(map(len, labels)) + 6)))
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    else:
        scale = ScalarMappable(Normalize(0, classes - 1), _COLORMAP)
        figure.colorbar(scale, ax=list(grid), location="bottom", shrink=0.7, aspect=35, pad=0.03).set_label("class")
    caption = (
        "Each bar is a peer, its length the samples that it trains on, its parts the classes"
        + (
            (". " if _named(shown) else ", numbered where they are wide enough. ")
            if classes <= _NAMED
            else f": from class 0 (dark) to {classes - 1} (light). "
        )
        + (
            f"The first {_PICTURES} of {len(found)} ways in which these runs divide data. "
            if len(found) > _PICTURES
            else ""
        )
    )
    silent = sum(not class_counts(group.runs[0]) for group in groups)
    if silent:
        caption += f"{silent} of {len(groups)} groups have no class counts. "
    alt = "Stacked bars of training samples by class. " + " ".join(
        f"{mix.title}: {len(mix.ranks)} peers with {mix.counts.sum(axis=1).min()} to "
        f"{mix.counts.sum(axis=1).max()} samples of "
        + (f"the classes {', '.join(mix.names)}." if mix.names else f"{mix.counts.shape[1]} classes.")
        for mix in shown
    )
    return Panel(title, caption, alt, figure)


def _named(mixes: list[_Mix]) -> bool:
    """Whether a class has the same name in all of the mixes that are drawn, so that one legend serves all."""
    return bool(mixes[0].names) and len({mix.names for mix in mixes}) == 1


def _labels(mixes: list[_Mix], classes: int) -> list[str]:
    if _named(mixes):
        return [clip(name, _NAME) for name in mixes[0].names]
    return [f"class {number}" for number in range(classes)]


def class_counts(run: Run) -> dict[int, list[int]]:
    """Every peer's number of training samples of each class, if its summary has them."""
    found = {}
    for rank, peer in run.peers.items():
        counts = peer.summary.class_counts if peer.summary else None
        if counts and len(counts) <= _MOST:
            found[rank] = list(counts)
    return found


def _mixes(groups: tuple[Group, ...]) -> list[_Mix]:
    """Every division of the data, once; the first of several seeds stands for the others."""
    found: dict[bytes, _Mix] = {}
    for group in groups:
        run = group.runs[0]
        counts = class_counts(run)
        if not counts:
            continue
        names, columns = _columns(run, counts)
        array = np.zeros((len(counts), max(len(names), *map(len, counts.values()))), dtype=np.int64)
        for row, (rank, own) in enumerate(counts.items()):
            array[row, columns[rank]] = own
        key = repr((array.shape, sorted(counts), names)).encode() + array.tobytes()
        found.setdefault(key, _Mix(array, list(counts), _title(run), names))
    return list(found.values())


def _columns(run: Run, counts: Mapping[int, Sequence[int]]) -> tuple[tuple[str, ...], dict[int, list[int]]]:
    """The names of all peers' classes, and by rank the columns of its counts.

    Peers that keep a head of their own may number the same classes in another order, and have others.
    """
    own = {rank: (run.peers[rank].summary or PeerSummary()).class_names or () for rank in counts}
    if any(len(own[rank]) != len(counts[rank]) for rank in counts):
        return (), {rank: list(range(len(counts[rank]))) for rank in counts}
    names = tuple(dict.fromkeys(name for rank in counts for name in own[rank]))
    return names, {rank: [names.index(name) for name in own[rank]] for rank in counts}


def _title(run: Run) -> str:
    named = [str(run.settings[key]) for key in ("task", "partition") if run.settings.get(key) is not None]
    own = run.settings.get("seed_partition")
    seed = run.settings.get("seed") if own is None else own
    return ", ".join([*named, f"{run.size} peers", *([] if seed is None else [f"seed {seed}"])])


def _draw(axes: Axes, mix: _Mix, classes: int) -> None:
    places = np.arange(len(mix.ranks))
    left = np.zeros(len(mix.ranks))
    widest = mix.counts.sum(axis=1).max()
    many = len(mix.ranks) > _LABELLED
    high = 0.5 if many else 0.41
    for number in range(mix.counts.shape[1]):
        wide = mix.counts[:, number]
        text = clip(mix.names[number], _NAME) if mix.names else str(number)
        style = _look(number, classes)
        corners = [[(a, y - high), (a + w, y - high), (a + w, y + high), (a, y + high)]
                   for a, w, y in zip(left, wide, places, strict=True) if w]  # fmt: skip
        # One collection a class: a bar a patch takes a minute for hundreds of peers and a hundred classes.
        axes.add_collection(PolyCollection(corners, **{**style, "lw": 0.0 if many else style["lw"]}))
        hatched = style["hatch"] is not None
        room = 0.04 if not mix.names else 0.02 * (2 + len(text))
        for place in np.flatnonzero((wide > room * widest) & (len(mix.ranks) <= 30) & (classes <= _NAMED)):
            axes.text(
                float(left[place] + wide[place] / 2), float(place), text, fontsize=9, ha="center",
                va="center_baseline", color="black" if hatched else _ink(style["facecolor"]),
                bbox={"fc": "white", "pad": 1, "lw": 0} if hatched else None,
            )  # fmt: skip
        left += wide
    axes.set_xlim(0, 1.03 * max(widest, 1))
    if len(mix.ranks) <= _LABELLED:
        axes.set_yticks(places, [str(rank) for rank in mix.ranks], fontsize=10 if len(mix.ranks) <= 30 else 9)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    axes.set_ylim(len(mix.ranks) - 0.4, -0.6)
    axes.set_ylabel("rank")
    tidy(axes)
    axes.grid(axis="y", visible=False)


def _look(number: int, classes: int) -> dict[str, Any]:
    if classes > _NAMED:
        return {
            "facecolor": colormaps[_COLORMAP](number / (classes - 1)),
            "edgecolor": "white",
            "hatch": None,
            "lw": 0.0,
        }
    hatch = "///" if number >= len(_COLORS) else None
    return {"facecolor": _COLORS[number % len(_COLORS)], "edgecolor": "white", "hatch": hatch, "lw": 0.6}


def _ink(color: object) -> str:
    """Black or white, whichever is read more easily on the color."""
    red, green, blue = (int(str(color)[start : start + 2], 16) for start in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 130 else "white"
