"""Small charts over rounds as SVG, for the live page: a line a peer, ranks at the lines' ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from dpeer.report.live_peers import LivePeer
from dpeer.report.markup import Markup, coordinate, element, joined

_WIDTH, _HEIGHT = 360.0, 188.0
_TOP, _BOTTOM, _RIGHT = 8.0, 20.0, 24.0
_DIGIT = 6.2
"""Width of a digit in a tick's label."""

FEW = 8
"""The most peers whose lines have colors of their own."""

_MANY = 30
"""The number of peers from which on their lines are fainter still."""

_POINTS = 120
"""The most points of a line where peers are many, and half as many where their lines are fainter still: least and most
of parts of the rounds."""

_WIDE = 30.0
"""Times the least value from which on values are drawn on a logarithmic axis."""

_LABEL = 11.0
"""Height of a rank at a line's end."""

Points = Sequence[tuple[int, float]]
"""A peer's values: rounds, counted from 1, and the value in each."""


@dataclass(frozen=True)
class Scale:
    """An axis of values.

    Attributes:
        low: Its lower end.
        high: Its upper end.
        ticks: Where lines are drawn, with their labels.
        log: Whether it is logarithmic.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def height(self, value: float) -> float:
        """Where a value is on the axis, from 0 at the lower end to 1."""
        low, high, here = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return (here - low) / (high - low)


def values_of(peers: Sequence[LivePeer], figure: str) -> dict[str, Points]:
    """A figure of the peers' histories by the peer's name at its line; those without a value are left out."""
    found = {
        line_name(one): [
            (number.round + 1, value)
            for number in one.history
            if number.round is not None and (value := getattr(number, figure)) is not None
        ]
        for one in peers
    }
    return {name: points for name, points in found.items() if points}


def line_name(peer: LivePeer) -> str:
    """What stands at the end of a peer's line."""
    return peer.name[:4] if peer.rank is None else str(peer.rank)


def line_chart(
    lines: Mapping[str, Points], colors: Mapping[str, int], words: Callable[[float], str], title: str,
    *, bounds: tuple[float, float] = (-math.inf, math.inf), zero: bool = False,
) -> Markup:  # fmt: skip
    """The chart of one figure.

    Args:
        lines: By name, a peer's values; at least one.
        colors: By name, the peer's place in the palette, where peers are few.
        words: A value as text, for screen readers and the pointer.
        title: What the values are.
        bounds: Between which values lie by their nature.
        zero: Whether the axis begins at zero, unless it is logarithmic.
    """
    values = [value for points in lines.values() for _, value in points]
    scale = value_scale(values, bounds, zero=zero)
    rounds = [number for points in lines.values() for number, _ in points]
    first, last = min(rounds), max(rounds)
    left = 10.0 + _DIGIT * max(len(label) for _, label in scale.ticks)
    wide, tall = _WIDTH - left - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(number: int, value: float) -> tuple[float, float]:
        x = left + wide * ((number - first) / (last - first) if last > first else 0.5)
        return x, _TOP + tall * (1.0 - scale.height(value))

    few, many = len(lines) <= FEW, len(lines) > _MANY
    faint = "line faint many" if many else "line faint"
    shown = lines if few else {name: _thinned(points, _POINTS // (1 + many)) for name, points in lines.items()}
    drawn = {
        name: [place(number, value) for number, value in points if value > 0 or not scale.log]
        for name, points in shown.items()
    }
    drawn = {name: points for name, points in drawn.items() if points}
    ends = {name: points[-1] for name, points in drawn.items()}
    body = [
        element("g", element("title", f"rank {name}: {words(lines[name][-1][1])} in round {lines[name][-1][0]}"),
                _path(points),
                element("circle", cx=points[-1][0], cy=points[-1][1], r=2.5) if few else None,
                class_=f"line s{colors[name]}" if few else faint, data_rank=name)
        for name, points in drawn.items()
    ]  # fmt: skip
    if not few:
        middle = _medians(lines)
        points = [place(number, value) for number, value in middle if value > 0 or not scale.log]
        body.append(element("g", element("title", "median of the peers"), _path(points), class_="line median"))
        extremes = sorted(ends, key=lambda name: ends[name][1])
        ends = {name: ends[name] for name in dict.fromkeys([extremes[0], extremes[-1]])} if extremes else {}
    return element(
        "svg",
        _value_axis(scale, left, tall),
        _round_axis(first, last, lambda number: place(number, scale.high)[0]),
        *body,
        _end_labels(ends, colors if few else {}),
        viewBox=f"0 0 {coordinate(_WIDTH)} {coordinate(_HEIGHT)}", role="img", class_="chart",
        aria_label=_in_words(lines, words, title),
    )  # fmt: skip


def bar_chart(counts: Mapping[int, int], title: str) -> Markup:
    """The chart of a count by round.

    Args:
        counts: By round, counted from 1; at least one is more than 0.
        title: What is counted.
    """
    first, last, most = min(counts), max(counts), max(counts.values())
    scale = value_scale([0, most], (0, math.inf), zero=True, whole=True)
    left = 10.0 + _DIGIT * max(len(label) for _, label in scale.ticks)
    wide, tall = _WIDTH - left - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    each = wide / (last - first + 1)
    thick = min(14.0, max(1.0, each * 0.75))

    def middle(number: int) -> float:
        return left + each * (number - first + 0.5)

    bars = [
        element("rect", element("title", f"{count} in round {number}"), x=middle(number) - thick / 2, width=thick,
                y=_TOP + tall * (1 - scale.height(count)), height=tall * scale.height(count))
        for number, count in sorted(counts.items()) if count
    ]  # fmt: skip
    worst = max(counts, key=lambda number: counts[number])
    return element(
        "svg",
        _value_axis(scale, left, tall),
        _round_axis(first, last, middle),
        element("g", *bars, class_="bars"),
        viewBox=f"0 0 {coordinate(_WIDTH)} {coordinate(_HEIGHT)}", role="img", class_="chart",
        aria_label=f"{title} by round: {sum(counts.values())} in rounds {first} to {last}, most in round {worst}: "
        f"{most}.",
    )  # fmt: skip


def value_scale(
    values: Sequence[float], bounds: tuple[float, float] = (-math.inf, math.inf), *, zero: bool, whole: bool = False
) -> Scale:
    """An axis on which all values have a place, between two of its ticks.

    Args:
        values: At least one.
        bounds: Past which the axis does not go where no value does.
        zero: Whether it begins at zero, unless it is logarithmic.
        whole: Whether ticks are at whole numbers.
    """
    if is_wide(values):
        return _log_scale(min(value for value in values if value > 0), max(values))
    low, high = min(values), max(values)
    if zero:
        low = min(low, 0.0)
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-30):  # one value alone stands in the middle
        room = max(abs(high) * 0.1, 1e-3) if high else 1.0
        low, high = max(low - room, min(bounds[0], low)), min(high + room, max(bounds[1], high))
    step = _nice((high - low) / 3)
    step = max(1.0, step) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = [(number * step, f"{number * step:.{decimals}f}" if decimals < 7 else f"{number * step:.3g}")
             for number in range(first, last + 1)]  # fmt: skip
    return Scale(first * step, last * step, [(at, label.replace("-", "\N{MINUS SIGN}")) for at, label in ticks])


def is_wide(values: Sequence[float]) -> bool:
    """Whether values are so far apart that their axis is logarithmic."""
    above = [value for value in values if value > 0]
    return bool(above) and min(values) >= 0 and max(above) > _WIDE * min(above)


def _log_scale(low: float, high: float) -> Scale:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    every = math.ceil(len(decades) / 5)
    ticks = [(10.0**power, f"{10.0**power:g}") for power in decades[::every]]
    return Scale(10.0**first, 10.0**last, ticks, log=True)


def _nice(step: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * (1 - 1e-9))


def _value_axis(scale: Scale, left: float, tall: float) -> Markup:
    found = []
    for value, label in scale.ticks:
        y = _TOP + tall * (1 - scale.height(value))
        found.append(element("path", d=f"M{coordinate(left)} {coordinate(y)}H{coordinate(_WIDTH - _RIGHT)}"))
        found.append(element("text", label, x=left - 5, y=y + 3.5, class_="value"))
    return element("g", *found, class_="axis")


def _round_axis(first: int, last: int, place: Callable[[int], float]) -> Markup:
    """Labels at whole rounds, the first and the last one among them, where they have room."""
    step = max(1, round(_nice(max(last - first, 1) / 4)))
    room = _DIGIT * len(str(last)) + 12.0
    numbers = [last]
    for number in reversed(range(first - first % step, last, step)):
        if number > first and place(numbers[-1]) - place(number) >= room:
            numbers.append(number)
    if first != last:
        if place(numbers[-1]) - place(first) < room and len(numbers) > 1:
            numbers.pop()
        numbers.append(first)
    texts = [element("text", str(number), x=place(number), y=_HEIGHT - 5, class_="round") for number in numbers[::-1]]
    return element("g", *texts, class_="axis")


def _path(points: Sequence[tuple[float, float]]) -> Markup:
    return element("path", d=Markup("M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)))


def _thinned(points: Points, most: int) -> Points:
    """The highest and the lowest point of each part of the rounds, in order, and the last one."""
    if len(points) <= most:
        return points
    found: list[tuple[int, float]] = []
    parts = most // 2
    for part in range(parts):
        some = points[part * len(points) // parts : (part + 1) * len(points) // parts]
        found += sorted({min(some, key=itemgetter(1)), max(some, key=itemgetter(1))})
    return found if found[-1] == points[-1] else [*found, points[-1]]


def _medians(lines: Mapping[str, Points]) -> Points:
    """The median of each round; the newest rounds are left out that many peers have not completed yet."""
    by_round: dict[int, list[float]] = {}
    for points in lines.values():
        for number, value in points:
            by_round.setdefault(number, []).append(value)
    rounds = sorted(by_round)
    while len(rounds) > 1 and len(by_round[rounds[-1]]) < 0.75 * len(by_round[rounds[-2]]):
        rounds.pop()
    return [(number, median(by_round[number])) for number in rounds]


def _end_labels(ends: Mapping[str, tuple[float, float]], colors: Mapping[str, int]) -> Markup:
    """Ranks beside the ends of lines, moved apart where these are close."""
    names = sorted(ends, key=lambda name: ends[name][1])
    heights = [ends[name][1] for name in names]
    low = _TOP
    for number, height in enumerate(heights):  # each below the one before
        heights[number] = low = max(height, low)
        low += _LABEL
    high = _HEIGHT - _BOTTOM + 2
    for number in reversed(range(len(heights))):  # and, from the floor, each above the one after
        heights[number] = high = min(heights[number], high)
        high -= _LABEL
    return joined(
        element("text", name, x=_WIDTH - _RIGHT + 6, y=height + 3.5, class_=f"end s{colors.get(name, 4)}")
        for name, height in zip(names, heights, strict=True)
    )


def _in_words(lines: Mapping[str, Points], words: Callable[[float], str], title: str) -> str:
    """The chart for a screen reader: ends of its lines, or of many their median."""
    if len(lines) <= FEW:
        ends = ", ".join(f"rank {name} {words(points[-1][1])}" for name, points in lines.items())
        return f"{title} by round, at the end of each line: {ends}."
    middle = _medians(lines)
    (first, begun), (last, now) = middle[0], middle[-1]
    ends = f"{words(begun)} in round {first}, {words(now)} in round {last}"
    return f"{title} by round of {len(lines)} peers, median: {ends}."
