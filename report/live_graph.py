"""Drawing of the live graph as SVG: peers, their links by liveness, and arrows from waiting peers to awaited ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpeer.report.live_peers import LIVENESS, LivePeer
from dpeer.report.markup import Markup, coordinate, element, joined

_SIDE = 360
_CENTER = _SIDE / 2
_LARGEST, _SMALLEST = 15.0, 3.5
LABELLED = 36
"""The most peers whose ranks are written inside of their marks; of more, they stand outside."""

_MOST = 200
"""The most peers drawn: of more, marks merge."""

_SINGLE = 24
"""The most peers whose living links are lines of their own, with a text that the pointer shows."""

_DENSE = (("denser", 300), ("dense", 60))
"""From how many lines on these are thin, the most first."""

_ARROWS = 200
"""The most arrows drawn."""

_APART = 13.0
"""Between two ranks that are written outside."""

Place = tuple[float, float]

KINDS: Mapping[str, str] = {
    "alive": "alive",
    "unseen": "not met yet",
    "suspect": "suspect",
    "gone": "gone, with a goodbye",
    "dead": "dead, silent",
}
"""Liveness of a link in words, in the order of the legend."""

STANDINGS: Mapping[str, str] = {
    "part": "takes part",
    "idle": "runs, takes no part",
    "away": "does not run or answer",
    "ended": "has ended its rounds",
    "unasked": "a neighbor, not asked itself",
}
"""How a peer stands in words; the last is one that answering peers name as a neighbor."""


@dataclass(frozen=True)
class Link:
    """Two neighbors, and how each sees the other; a peer that does not answer sees nothing.

    Attributes:
        ends: Both ranks, the lower one first.
        kind: The liveness, of two views the worse one.
        words: Both views.
    """

    ends: tuple[int, int]
    kind: str
    words: str


def links_of(peers: Iterable[LivePeer]) -> list[Link]:
    """The links of peers that answer, by ranks."""
    views: dict[tuple[int, int], dict[int, tuple[str, str]]] = {}
    for one in peers:
        for other, view in one.neighbors.items() if one.rank is not None else ():
            if other != one.rank and one.rank is not None:
                views.setdefault((min(one.rank, other), max(one.rank, other)), {})[one.rank] = view
    return [
        Link(
            ends,
            max((liveness for liveness, _ in seen.values()), key=LIVENESS.index),
            "; ".join(
                f"rank {rank} sees {ends[0] if rank == ends[1] else ends[1]} {liveness}{f' ({why})' if why else ''}"
                for rank, (liveness, why) in sorted(seen.items())
            ),
        )
        for ends, seen in sorted(views.items())
    ]


@dataclass(frozen=True)
class Layout:
    """Where peers are, and how links run between them.

    Attributes:
        places: By rank, x and y.
        radius: Of a peer's mark.
        small: Whether marks are too small for ranks.
        far: The circle's radius.
        apart: Between two peers that are next to each other on it.
    """

    places: Mapping[int, Place]
    radius: float
    small: bool
    far: float
    apart: float

    @classmethod
    def of(cls, ranks: Sequence[int], links: Sequence[Link]) -> Layout:
        """On a circle by rank, the first at the top; a peer at which all links end is in the middle."""
        count, around = len(ranks), list(ranks)
        radius = max(_SMALLEST, min(_LARGEST, 0.36 * 2 * 155 * math.sin(math.pi / max(count, 2))))
        small = count > LABELLED
        places: dict[int, Place] = {}
        ends = [set(link.ends) for link in links]
        hub = set.intersection(*ends) if count > 3 and len(ends) == count - 1 else set()
        if count == 1 or hub:
            middle = hub.pop() if hub else ranks[0]
            around.remove(middle)
            places[middle] = (_CENTER, _CENTER)
        far = _CENTER - radius - (21.0 if small else 4.0)
        for place, rank in enumerate(around):
            angle = 2 * math.pi * place / len(around)
            places[rank] = (_CENTER + far * math.sin(angle), _CENTER - far * math.cos(angle))
        return cls(places, radius, small, far, 2 * far * math.sin(math.pi / max(len(around), 2)))

    def control(self, ends: tuple[int, int]) -> Place:
        """The control point of a link's curve, which is bent inwards where it would touch a peer between its ends."""
        (a, b), (c, d) = (self.places[rank] for rank in ends)
        x, y = (a + c) / 2 - _CENTER, (b + d) / 2 - _CENTER
        far, most = math.hypot(x, y), self.far - 1.5 * self.radius - 1.0
        if far <= most or math.hypot(c - a, d - b) < 1.5 * self.apart:
            return _CENTER + x, _CENTER + y
        bent = (2 * most - far) / far  # the curve's middle is half way between the straight line's and this point
        return _CENTER + bent * x, _CENTER + bent * y

    def line(self, link: Link) -> Markup:
        """A link's curve."""
        return _curve(self.places[link.ends[0]], self.control(link.ends), self.places[link.ends[1]])

    def middle(self, link: Link) -> Place:
        """The middle of a link's curve."""
        (a, b), (x, y), (c, d) = self.places[link.ends[0]], self.control(link.ends), self.places[link.ends[1]]
        return (a + 2 * x + c) / 4, (b + 2 * y + d) / 4


def live_graph(peers: Sequence[LivePeer]) -> Markup:
    """The drawing, its legend, and a caption where something is left out."""
    links = links_of(peers)
    known = {one.rank: one for one in peers if one.rank is not None}
    ranks = sorted(known.keys() | {rank for link in links for rank in link.ends})
    if not ranks:
        return element("p", "No peer has been heard of yet.", class_="empty")
    drawn = ranks[:_MOST]
    within = set(drawn)
    shown = [link for link in links if within.issuperset(link.ends)]
    waits = [
        ((rank, other), why)
        for rank, one in known.items()
        for other, why in one.waits_for.items()
        if within.issuperset((rank, other)) and other != rank
    ]
    layout = Layout.of(drawn, shown)
    standings = {rank: known[rank].standing if rank in known else "unasked" for rank in drawn}
    picture = element(
        "svg",
        element("defs", _arrowhead()),
        _links(shown, layout),
        joined(_arrow(ends, why, layout) for ends, why in waits[:_ARROWS]),
        joined(_peer(rank, layout, standings[rank], known.get(rank)) for rank in drawn),
        _labels(layout, standings) if layout.small else None,
        viewBox=f"0 0 {_SIDE} {_SIDE}", role="img", aria_label=_in_words(standings, shown, len(waits)),
        class_=f"graph{_dense(len(shown), 'links')}{_dense(2 * len(waits), 'waits')}",
    )  # fmt: skip
    left_out = []
    if len(ranks) > _MOST:
        left_out.append(f"The first {_MOST} of {len(ranks)} peers are drawn.")
    if len(waits) > _ARROWS:
        left_out.append(f"The first {_ARROWS} of {len(waits)} waits are drawn.")
    legend = _legend(Counter(standings.values()), Counter(link.kind for link in shown), len(waits), small=layout.small)
    return joined([picture, legend, element("p", " ".join(left_out), class_="note") if left_out else None])


def _dense(lines: int, kind: str) -> str:
    """Classes by which lines are thinner where they are many, so that the peers are seen."""
    return next((f" {word}-{kind}" for word, least in _DENSE if lines >= least), "")


def peer_mark(standing: str, *, small: bool = False) -> Markup:
    """The mark of a peer's standing, as the graph has it, for legends and rows.

    Args:
        standing: How the peer stands.
        small: Whether the graph has so many peers that ranks stand outside of their marks.
    """
    shape = _shape(standing, (8.0, 8.0), 6.0, small=small)
    return element("svg", shape, viewBox="0 0 16 16", class_="mark", aria_hidden="true")


def _links(links: Sequence[Link], layout: Layout) -> Markup:
    """Lines in the order from the best to the worst, so that the worst lie on top."""
    single, found = len(layout.places) <= _SINGLE, []
    for kind in KINDS:
        alike = [link for link in links if link.kind == kind]
        if single or kind not in ("alive", "unseen"):
            found += [
                element(
                    "g",
                    element("title", link.words),
                    element("path", d=layout.line(link)),
                    _crossed(layout.middle(link), 3.0 if layout.small else 5.0)
                    if kind == "dead"
                    else None,  # seen without its color
                    class_=f"link {kind}",
                    data_link=f"{link.ends[0]}-{link.ends[1]}",
                )
                for link in alike[:_ARROWS]
            ]
            alike = alike[_ARROWS:]
        if alike:
            lines = element("path", d=joined(layout.line(link) for link in alike))
            found.append(element("g", lines, class_=f"link {kind}"))
    return joined(found)


def _curve(start: Place, control: Place, end: Place) -> Markup:
    points = [f"{coordinate(x)} {coordinate(y)}" for x, y in (start, control, end)]
    return Markup(f"M{points[0]}Q{points[1]} {points[2]}")


def _crossed(place: Place, size: float) -> Markup:
    low, high, left, right = (
        coordinate(one) for one in (place[1] - size, place[1] + size, place[0] - size, place[0] + size)
    )
    return element("path", d=Markup(f"M{left} {low}L{right} {high}M{left} {high}L{right} {low}"), class_="cross")


def _arrowhead() -> Markup:
    head = element("path", d=Markup("M0 0L8 4L0 8Z"))
    return element(
        "marker", head, id="arrowhead", viewBox="0 0 8 8", refX="7", refY="4", markerWidth="8", markerHeight="8",
        markerUnits="userSpaceOnUse", orient="auto",
    )  # fmt: skip


def _arrow(ends: tuple[int, int], why: str, layout: Layout) -> Markup:
    """A bent arrow beside the link from one peer's mark to another's; that of the way back is on the other side."""
    start, end = (layout.places[rank] for rank in ends)
    long = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    bend = min(26.0, 0.2 * long) / long
    x, y = layout.control(ends)
    control = (x - bend * (end[1] - start[1]), y + bend * (end[0] - start[0]))
    first, last = _towards(start, control, layout.radius + 1.5), _towards(end, control, layout.radius + 2.5)
    return element(
        "g",
        element("title", f"rank {ends[0]} waits for rank {ends[1]}{f': {why}' if why else ''}"),
        element("path", d=_curve(first, control, last), marker_end="url(#arrowhead)"),
        class_="wait",
        data_wait=f"{ends[0]}-{ends[1]}",
    )


def _towards(start: Place, end: Place, far: float) -> Place:
    """The point that is so far from the start, in the direction of the end."""
    long = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return start[0] + (end[0] - start[0]) * far / long, start[1] + (end[1] - start[1]) * far / long


def _peer(rank: int, layout: Layout, standing: str, peer: LivePeer | None) -> Markup:
    place = layout.places[rank]
    words = STANDINGS[standing] if peer is None else peer.trouble or peer.state
    return element(
        "g",
        element("title", f"rank {rank}: {words}"),
        _shape(standing, place, layout.radius, small=layout.small),
        None if layout.small else element("text", str(rank), x=place[0], y=place[1]),
        class_=f"peer {standing}",
        data_rank=rank,
    )


def _shape(standing: str, place: Place, radius: float, *, small: bool) -> Markup:
    """A mark: shapes differ, not colors alone."""
    x, y = place
    if standing == "idle":
        side = 1.8 * radius
        box = {"x": x - side / 2, "y": y - side / 2, "width": side, "height": side}
        return element("rect", **box, class_=f"shape {standing}")
    disc = element("circle", cx=x, cy=y, r=radius, class_=f"shape {standing}")
    if standing == "ended" and small:
        return joined([disc, element("circle", cx=x, cy=y, r=radius * 0.4, class_="core")])
    if standing == "away" and small:
        return joined([disc, _crossed(place, radius * 0.6)])
    return disc


def _labels(layout: Layout, standings: Mapping[int, str]) -> Markup:
    """Ranks outside of the circle: those of peers in trouble, then some of the others, where room is left."""
    room = 2 * math.pi * 155 / len(layout.places)
    every = next((step for step in (1, 2, 5, 10, 20) if step * room >= 1.5 * _APART), 50)
    troubled = [rank for rank in layout.places if standings[rank] in ("idle", "away")]
    taken: list[Place] = []
    found = []
    for rank in dict.fromkeys([*troubled, *sorted(layout.places)[::every]]):
        x, y = layout.places[rank]
        far = -layout.radius - 9.5
        spot = (x, y + far) if (x, y) == (_CENTER, _CENTER) else _towards((x, y), (_CENTER, _CENTER), far)
        if all(math.hypot(spot[0] - one[0], spot[1] - one[1]) >= _APART for one in taken):
            taken.append(spot)
            found.append(element("text", str(rank), x=spot[0], y=spot[1], class_=f"outside {standings[rank]}"))
    return joined(found)


def _legend(standings: Mapping[str, int], kinds: Mapping[str, int], waits: int, *, small: bool) -> Markup:
    entries = [
        _entry(peer_mark(name, small=small), f"{words}: {standings[name]}")
        for name, words in STANDINGS.items()
        if standings.get(name)
    ]
    for kind, words in KINDS.items():
        if kinds.get(kind):
            cross = _crossed((14.0, 8.0), 4.0) if kind == "dead" else None
            sample = element("g", element("path", d=Markup("M1 8L27 8")), cross, class_=f"link {kind}")
            entries.append(_entry(_sample(sample), f"{words}: {kinds[kind]}"))
    if waits:
        arrow = element("g", element("path", d=Markup("M1 8L25 8"), marker_end="url(#arrowhead)"), class_="wait")
        entries.append(_entry(_sample(arrow), f"waits for: {waits}"))
    return element("ul", *entries, class_="legend")


def _entry(sample: Markup, words: str) -> Markup:
    return element("li", sample, words)


def _sample(line: Markup) -> Markup:
    return element("svg", line, viewBox="0 0 28 16", class_="sample", aria_hidden="true")


def _in_words(standings: Mapping[int, str], links: Sequence[Link], waits: int) -> str:
    """The drawing for a screen reader; the table of peers has it in detail."""
    peers, kinds = Counter(standings.values()), Counter(link.kind for link in links)
    parts = [f"{peers[name]} {words}" for name, words in STANDINGS.items() if peers[name]]
    lines = [f"{kinds[kind]} {words}" for kind, words in KINDS.items() if kinds[kind]]
    found = f"Graph of {len(standings)} peers: {', '.join(parts)}. Links: {', '.join(lines) or 'none'}."
    return f"{found} {waits} waits." if waits else found
