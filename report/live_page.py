"""The live page of a federation, drawn from its status document: facts, graph, charts over rounds, table of peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import dpeer
from dpeer.federation import snapshot_words as words
from dpeer.report.live_charts import FEW, Points, bar_chart, is_wide, line_chart, line_name, values_of
from dpeer.report.live_graph import LABELLED, live_graph, peer_mark
from dpeer.report.live_peers import LivePeer, Standing, read_peers
from dpeer.report.live_style import SCRIPT, STYLE
from dpeer.report.markup import Markup, element, joined
from dpeer.results.units import in_short

_UNITS = ((0.5, 1e-3, "ms"), (180.0, 1.0, "s"), (7200.0, 60.0, "min"), (float("inf"), 3600.0, "h"))
"""Of a chart of times: below which median, in which unit, with which name."""

_LISTED = 6
"""The most reasons listed why peers take no part."""

_LINKED = 8
"""The most ranks with one reason that are links."""


def page(title: str, content: str = "") -> str:
    """The whole page, which needs no other file and no other host; its script fetches `view`.

    Args:
        title: Its heading.
        content: What `view` made, shown until the script has fetched a newer one.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"dpeer {dpeer.__version__}"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        element("header", element("h1", title), element("p", "waits for the first answer", id="clock")),
        element("p", id="news", role="status", class_="hidden"),
        element("main", Markup(content)),
        element("noscript", element("p", "Without JavaScript this page stays as it is: load it again.")),
        element("footer", "Rounds, times and liveness of the peers; of peers with privacy no figure of the training."),
        element("script", Markup(SCRIPT)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def view(document: Mapping[str, Any]) -> str:
    """What the page shows of a status document, as HTML; all text in it is escaped.

    Args:
        document: {"time": unix seconds, "peers": [...]}; values of a wrong type are read as missing ones.
    """
    peers = read_peers(document)
    if not peers:
        empty = element("p", "No peer has been heard of yet.", class_="empty")
        return element("section", empty, id="facts", data_news="no peer yet")
    return joined([
        _facts(peers),
        _trouble(peers),
        element(
            "div",
            element("section", element("h2", "Graph"), live_graph(peers), id="graph", class_="card"),
            element("section", element("h2", "By round", class_="hidden"), *_charts(peers), id="charts",
                    class_="charts"),
            class_="panels",
        ),
        element("section", element("h2", "Peers"), _table(peers), id="peers", class_="card"),
    ])  # fmt: skip


def _facts(peers: Sequence[LivePeer]) -> Markup:
    """The line of facts over all peers."""
    standings = Counter(one.standing for one in peers)
    running = [one.found for one in peers if one.standing in ("part", "idle") and one.found["rounds"] is not None]
    count = len(peers)
    facts: list[tuple[str, str, str]] = []
    if standings["ended"] == count:
        state = "ended" if count == 1 else f"all {count} ended"
    else:
        state = f"{standings['part']} of {count}"
    rest = [f"{standings['idle']} idle"] if standings["idle"] else []
    rest += [f"{standings['away']} away"] if standings["away"] else []
    rest += [f"{standings['ended']} ended"] if standings["ended"] and standings["ended"] < count else []
    facts.append(("peers" if standings["ended"] == count else "peers that take part", state, ", ".join(rest)))
    facts.append(("round", *_round(peers, running)))
    times = [one["round_seconds"] for one in running if one["round_seconds"] is not None]
    if times:
        slowest = f"slowest peer {words.duration(max(times))}" if len(times) > 1 else ""
        facts.append(("a round takes", words.duration(median(times)), slowest))
    left = [one["left_seconds"] for one in running if one["left_seconds"] is not None]
    if left:
        facts.append(("time left", words.duration(max(left)), "at this pace"))
    for figure, name in (("accuracy", "accuracy"), ("disagreement", "disagreement")):
        values = [value for one in peers if (value := one.last(figure)) is not None]
        if values:
            spread = f"{_figure(min(values))} to {_figure(max(values))}" if len(values) > 1 else ""
            facts.append((name if len(values) == 1 else f"{name}, median", _figure(median(values)), spread))
    losses = [one.found for one in peers if one.private]
    if losses:
        most = max(losses, key=lambda one: float(one["epsilon"]))
        facts.append(("epsilon, largest" if len(losses) > 1 else "epsilon", words.epsilon(most["epsilon"]),
                      "" if most["delta"] is None else f"at delta {most['delta']:.1g}"))  # fmt: skip
    disks = [(one.found["disk_free"], one) for one in peers if one.found["disk_free"] is not None]
    if disks:
        least, where = min(disks, key=lambda pair: float(pair[0]))
        facts.append(("least disk left", words.size(least), _name(where) if count > 1 else ""))
    entries = [
        element("div", element("dt", name), element("dd", value, element("small", more) if more else None))
        for name, value, more in facts
    ]
    return element("section", element("h2", "Facts", class_="hidden"), element("dl", *entries, class_="facts"),
                   id="facts", data_news=_news(standings, count))  # fmt: skip


def _news(standings: Mapping[Standing, int], count: int) -> str:
    """What a screen reader and the page's tab say; it changes only when a peer's standing does."""
    if standings["ended"] == count:
        return "the run has ended"
    return f"{standings['part']} of {count} take part"


def _round(peers: Sequence[LivePeer], running: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The rounds that peers are in, and of how many; where none runs, the completed ones."""
    limit = max((one.found["rounds"] for one in peers if one.found["rounds"] is not None), default=None)
    of = "" if limit is None else f"of {limit}"
    if not running:
        done = max((one.found["completed"] for one in peers), default=0)
        return f"{done} done", of
    now = [min(one["completed"] + 1, one["rounds"]) for one in running]
    low, high = min(now), max(now)
    return (str(low) if low == high else f"{low} to {high}"), of


def _trouble(peers: Sequence[LivePeer]) -> Markup:
    """Why peers take no part, those with one reason together; empty where all do."""
    by_reason: dict[str, list[LivePeer]] = {}
    for one in peers:
        if one.trouble is not None:
            by_reason.setdefault(one.trouble, []).append(one)
    if not by_reason:
        return element("section", id="trouble")
    lines = [element("li", _named(named), f": {why}") for why, named in by_reason.items()]
    more = len(lines) - _LISTED
    if more > 0:
        lines = [*lines[:_LISTED], element("li", f"and {more} more reasons, in the table below")]
    heading = element("h2", "Peers that take no part", class_="hidden")
    return element("section", heading, element("div", element("ul", *lines), class_="trouble"), id="trouble")


def _named(peers: Sequence[LivePeer]) -> Markup:
    """Peers by rank, with links to their rows where they are few; others by name."""
    ranks = [one.rank for one in peers if one.rank is not None]
    others = [one.name for one in peers if one.rank is None]
    found: list[str | Markup] = []
    if ranks:
        found.append("rank " if len(ranks) == 1 else "ranks ")
    if len(ranks) <= _LINKED:
        found += [part for rank in ranks for part in (", ", element("a", str(rank), href=f"#rank-{rank}"))][1:]
    else:
        found.append(in_short(ranks))
    if others:
        found += [", " if ranks else "", words.listed(others)]
    return element("b", *found)


def _charts(peers: Sequence[LivePeer]) -> list[Markup]:
    """Accuracy or loss, disagreement, round times and missed bodies over rounds."""
    colors = {line_name(one): number % FEW for number, one in enumerate(peers)}
    return [
        _quality(peers, colors),
        _lines("Disagreement", values_of(peers, "disagreement"), colors, _figure, zero=True,
               empty=_no_history(peers, _NO_DISAGREEMENT),
               note="How far a peer's body is from its mix, relative to the mix."),
        _times(peers, colors),
        _missed(peers),
    ]  # fmt: skip


def _quality(peers: Sequence[LivePeer], colors: Mapping[str, int]) -> Markup:
    """Accuracy by round; the test loss where a task has no accuracy."""
    lines = values_of(peers, "accuracy")
    if not lines and (losses := values_of(peers, "test_loss")):
        return _lines("Test loss", losses, colors, _figure, note="Of the model after the round's mixing.")
    if any(one.private for one in peers):
        empty = "Not shown: of peers with privacy no figure of the training leaves."
    else:
        empty = _no_history(peers, "These peers measure no accuracy and no test loss.")
    hidden = sum(one.private for one in peers)
    note = "Of each peer's model on its own test data, after the round's mixing."
    if lines and hidden:
        note += f" {hidden} {'peer' if hidden == 1 else 'peers'} with privacy left out."
    return _lines("Accuracy", lines, colors, _figure, bounds=(0.0, 1.0), empty=empty, note=note)


def _times(peers: Sequence[LivePeer], colors: Mapping[str, int]) -> Markup:
    lines = values_of(peers, "round_seconds")
    typical = median([value for points in lines.values() for _, value in points] or [1.0])
    unit, name = next((size, name) for below, size, name in _UNITS if typical < below)
    drawn = {peer: [(number, value / unit) for number, value in points] for peer, points in lines.items()}
    return _lines(f"Round time, {name}", drawn, colors, lambda value: words.duration(value * unit), zero=True,
                  empty=_no_history(peers, "No round has been timed yet."),
                  note="Training, exchange and mixing.")  # fmt: skip


def _missed(peers: Sequence[LivePeer]) -> Markup:
    counts: dict[int, int] = {}
    for one in peers:
        for line in one.history:
            if line.round is not None and line.missed is not None:
                counts[line.round + 1] = counts.get(line.round + 1, 0) + line.missed
    title, note = "Missed bodies", "Bodies of neighbors that mixes went without, over all peers."
    if not any(counts.values()):
        empty = "None in these rounds." if counts else _no_history(peers, "No round has been mixed yet.")
        return _panel(title, "", element("p", empty, class_="empty"), note if counts else "")
    return _panel(title, f"{sum(counts.values())} in all", bar_chart(counts, title), note)


def _no_history(peers: Sequence[LivePeer], otherwise: str) -> str:
    """Why a chart is empty: no round is there, or what is stated where rounds are."""
    if any(one.history for one in peers):
        return otherwise
    if not any(one.runs for one in peers):
        return "Only peers that run show their rounds; dpeer report shows those of a run."
    since = " since these peers started" if any(one.found["completed"] for one in peers) else " yet"
    return f"No round is complete{since}."


def _lines(
    title: str, lines: Mapping[str, Points], colors: Mapping[str, int], written: Callable[[float], str],
    *, empty: str = "", note: str = "", bounds: tuple[float, float] = (-float("inf"), float("inf")),
    zero: bool = False,
) -> Markup:  # fmt: skip
    """A card with a line a peer, and the newest values in words."""
    if not lines:
        return _panel(title, "", element("p", empty, class_="empty"), "")
    newest = [points[-1][1] for points in lines.values()]
    if len(newest) == 1:
        now = written(newest[0])
    else:
        now = f"median {written(median(newest))}, {written(min(newest))} to {written(max(newest))}"
    chart = line_chart(lines, colors, written, title, bounds=bounds, zero=zero)
    if is_wide([value for points in lines.values() for _, value in points]):
        note = f"{note} The axis is logarithmic."
    return _panel(title, now, chart, note)


def _panel(title: str, now: str, content: Markup, note: str) -> Markup:
    top = element("div", element("h3", title), element("span", now, class_="now") if now else None, class_="top")
    return element("div", top, content, element("p", note, class_="note") if note else None, class_="card")


_NO_DISAGREEMENT = "Not measured: no mix yet, or bodies travel as sums or masks, or privacy keeps it here."

_COLUMNS: Mapping[str, tuple[str, Callable[[LivePeer], str]]] = {
    "rounds": ("number", lambda one: words.rounds(_completed(one), one.found["rounds"])),
    "epoch": ("words", lambda one: words.epoch(one.found)),
    "state": ("words state", lambda one: one.state),
    "neighbors": ("words", lambda one: words.neighbors(one.found["neighbors"]) or words.NONE),
    "last mix": ("words", lambda one: words.mix(one.found) if one.runs else words.NONE),
    "round time": ("number", lambda one: words.duration(one.found["round_seconds"])),
    "accuracy": ("number", lambda one: words.or_dash(one.last("accuracy"), _figure)),
    "disagreement": ("number", lambda one: words.or_dash(one.last("disagreement"), _figure)),
    "epsilon": ("number", lambda one: words.epsilon(one.found["epsilon"])),
    "dropped": ("words", lambda one: words.dropped(one.found) or words.NONE),
    "disk left": ("number", lambda one: words.size(one.found["disk_free"])),
    "saved": ("number", lambda one: words.ago(one.found["checkpoint_seconds"])),
}
"""Of the table of peers, by heading: how cells are set, and what is in them."""

_ALWAYS = ("rounds", "state", "neighbors")
"""Columns that are there even if no peer has a value."""


def _table(peers: Sequence[LivePeer]) -> Markup:
    """A row for each peer; columns without a value are left out.

    Roles are stated because a narrow screen sets rows as blocks, which would no longer be read as a table's.
    """
    cells = {name: [text(one) for one in peers] for name, (_, text) in _COLUMNS.items()}
    shown = [name for name, texts in cells.items() if name in _ALWAYS or any(text != words.NONE for text in texts)]
    headings: dict[str, Any] = {"scope": "col", "role": "columnheader"}
    head = element(
        "tr",
        element("th", "rank", **headings),
        *(element("th", name, class_=_COLUMNS[name][0], **headings) for name in shown),
        role="row",
    )
    rows = [
        element(
            "tr",
            element("th", element("span", peer_mark(one.standing, small=len(peers) > LABELLED),
                    one.name if one.rank is None else element("b", str(one.rank))),
                    scope="row", role="rowheader"),
            *(_cell(name, cells[name][number]) for name in shown),
            class_=one.standing, id=f"rank-{one.rank}" if one.rank is not None else None, role="row",
        )
        for number, one in enumerate(peers)
    ]  # fmt: skip
    table = element(
        "table",
        element("caption", "A row for each peer", class_="hidden"),
        element("thead", head, role="rowgroup"),
        element("tbody", *rows, role="rowgroup"),
        role="table",
    )
    return element("div", table, class_="wide", tabindex="0", role="region", aria_label="Table of peers", id="table")


def _cell(name: str, text: str) -> Markup:
    kind = f"{_COLUMNS[name][0]}{' none' if text == words.NONE else ''}"
    return element("td", text, class_=kind, data_label=name, role="cell")


def _completed(peer: LivePeer) -> int | None:
    """Its completed rounds; None for one that does not answer and has left none."""
    completed: int = peer.found["completed"]
    return completed if peer.runs or completed else None


def _figure(value: float) -> str:
    """A figure with three digits after the point, or three that count where it is small or large."""
    return f"{value:.3f}" if 0.1 <= abs(value) < 100 or value == 0 else f"{value:.3g}"


def _name(peer: LivePeer) -> str:
    return peer.name if peer.rank is None else f"rank {peer.rank}"
