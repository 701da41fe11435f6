"""Timeline of a demo run: the events of each site, as JSON and as one self-contained page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Happening:
    """Something that was done to a site, or that it did.

    Attributes:
        at: Seconds since the start.
        site: The site; None for the relay.
        kind: A word for the mark.
        text: A sentence.
        until: When it ended; None for a moment.
    """

    at: float
    site: int | None
    kind: str
    text: str
    until: float | None = None


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines; none of a file that is not there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(one) for one in text.splitlines(keepends=True) if one.endswith("\n")]


def rounds_of(folder: Path, began: float) -> list[dict[str, Any]]:
    """A rank's rounds: number, when each was complete, whose bodies were mixed, and the accuracy.

    Of the last round before a kill the log may lack the line, and so the time is not known.
    """
    ended = {line["round"]: line["time"] - began for line in lines(folder / "log.jsonl") if line["event"] == "round"}
    return [
        {
            "round": one["round"],
            "at": round(ended[one["round"]], 2) if one["round"] in ended else None,
            "active": one["active"],
            "heard": one["heard"],
            "missed": one["missed"],
            "accuracy": one["accuracy"],
        }
        for one in lines(folder / "metrics.jsonl")
    ]


_SHOWN = (
    "paused", "pause-over", "left-behind", "caught-up", "neighbor-dead", "neighbor-back", "neighbor-lost",
    "relay-unreachable", "relay-back", "resuming", "isolated", "run-failed", "epoch",
)  # fmt: skip


def logged(folder: Path, site: int, began: float) -> list[Happening]:
    """The events of a rank's log that belong to a night's story."""
    return [
        Happening(round(line["time"] - began, 2), site, line["event"], line["message"])
        for line in lines(folder / "log.jsonl")
        if line["event"].startswith(_SHOWN)
    ]


# -- the page ----------------------------------------------------------------------------------------------------------

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; padding: 0 1em; color: #222; }
.wide { overflow-x: auto; } .wide > svg { min-width: 900px; }
.wide td:last-child { min-width: 16em; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: .2em .8em; text-align: left; }
tr { border-bottom: 1px solid #ddd; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
td:not(:last-child) { white-space: nowrap; }
svg { width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: #333; }
.bar { fill: #d2691e; opacity: .25; } .mark { fill: #b22222; } .mark.well { fill: #2e7d32; } .axis { stroke: #ccc; }
@media (max-width: 700px) { td, th { padding: .2em .4em; } td.kind { display: none; } }
details { margin: .3em 0; } summary { cursor: pointer; }
"""

_FULL, _SOME, _NONE, _OUT = "#2e7d32", "#9ccc65", "#ef6c00", "#bdbdbd"
"""Of a round: all neighbors were mixed, some, none; it was sat out."""

_WELL = ("healed", "opened", "restarted", "joins", "done")
"""Happenings that put something right, or end well."""

_LEFT, _LANE, _WIDTH = 90, 44, 1080


def page(night: Mapping[str, Any]) -> str:
    """The page of a night, as `timeline.json` has it."""
    sites: Sequence[Mapping[str, Any]] = night["sites"]
    esc = html.escape
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{esc(night['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{esc(night['title'])}</h1><p>{esc(night['summary'])}. Lines: {esc(night['lines'])}.</p>",
        '<div class="wide">',
        *_picture(night),
        "</div>",
        "<p>A dot is a round that a site completed: "
        + ", ".join(
            f'<svg style="width:12px" viewBox="0 0 10 10"><circle cx="5" cy="5" r="4" fill="{color}"/></svg> {words}'
            for color, words in (
                (_FULL, "all neighbors mixed"),
                (_SOME, "some"),
                (_NONE, "none"),
                (_OUT, "sat out"),
            )
        )
        + "; a bar is an accident while it lasted. A red triangle is what went wrong, a green one what was put right "
        "or ended well; each has its text. Below, federated and local only are accuracies on a site's own rows.</p>",
        '<div class="wide"><table><tr>',
        "<th>site<th>rows<th>ended<th>rounds<th>mixed<th>federated<th>local only<th>verdict</tr>",
    ]
    for site in sites:
        cells = (site["rows"], site["completed"], site["mixed"], figure(site["federated"]), figure(site["local"]))
        rows, completed, mixed, federated, local = (f'<td class="n">{esc(str(one))}' for one in cells)
        parts.append(
            f"<tr><td>{esc(site['name'])}{rows}<td>{esc(site['status'])}{completed}{mixed}{federated}{local}"
            f"<td>{esc(site['verdict'])}</tr>"
        )
    parts.append("</table></div><h2>What happened</h2><table>")
    for one in night["happenings"]:
        who = "relay" if one["site"] is None else sites[one["site"]]["name"]
        when, kind = f'<td class="n">{one["at"]:.1f} s', f'<td class="kind">{esc(one["kind"])}'
        parts.append(f"<tr>{when}<td>{esc(who)}{kind}<td>{esc(one['text'])}</tr>")
    parts.append("</table><h2>Logs</h2>")
    for site in sites:
        entries = "".join(f"<li>{one['at']:.1f} s {esc(one['text'])}" for one in site["log"])
        parts.append(
            f"<details><summary>{esc(site['name'])}: {len(site['log'])} lines</summary><ul>{entries}</ul></details>"
        )
    return "\n".join(parts) + "</html>\n"


_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
"""Seconds between two lines of the time axis: the first with twelve lines at most."""


def figure(value: float | None) -> str:
    """An accuracy, or a dash for none."""
    return "-" if value is None else f"{value:.3f}"


def _picture(night: Mapping[str, Any]) -> Iterator[str]:
    sites: Sequence[Mapping[str, Any]] = night["sites"]
    total: float = max(night["seconds"], 1.0)
    height = _LANE * len(sites) + 40

    def x(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 20) * min(at, total) / total, 1)

    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="rounds of each site by time">'
    step = next(one for one in _STEPS if one * 12 >= total or one == _STEPS[-1])
    for at in range(0, int(total) + 1, step):
        yield f'<line class="axis" x1="{x(at)}" x2="{x(at)}" y1="10" y2="{height - 25}"/>'
        yield f'<text x="{x(at)}" y="{height - 8}" text-anchor="middle">{at} s</text>'
    for lane, site in enumerate(sites):
        y = 10 + _LANE * lane + _LANE / 2
        yield f'<text x="4" y="{y + 4}">{html.escape(site["name"])}</text>'
        own = [one for one in night["happenings"] if one["site"] == lane]
        for one in sorted(own, key=lambda one: one["kind"] not in _WELL):  # what went wrong lies in front
            start, title = x(one["at"]), f"<title>{one['at']:.1f} s: {html.escape(one['text'])}</title>"
            if one["until"] is None:
                kind = "mark well" if one["kind"] in _WELL else "mark"
                yield f'<path class="{kind}" d="M{start} {y - 12}l5 -6h-10z">{title}</path>'
            else:
                width = max(2.0, x(one["until"]) - start)
                yield f'<rect class="bar" x="{start}" y="{y - 18}" width="{width:.1f}" height="36">{title}</rect>'
        neighbors = max((len(one["heard"]) + len(one["missed"]) for one in site["rounds"]), default=0)
        for one in [one for one in site["rounds"] if one["at"] is not None]:
            yield _dot(one, x(one["at"]), y, neighbors)
    yield "</svg>"


def _dot(one: Mapping[str, Any], x: float, y: float, neighbors: int) -> str:
    heard = len(one["heard"])
    color = _OUT if not one["active"] else _NONE if not heard else _FULL if heard == neighbors else _SOME
    mixed = ", ".join(map(str, one["heard"])) or "none"
    words = f"round {one['round'] + 1} at {one['at']:.1f} s, mixed {mixed}, accuracy {figure(one['accuracy'])}"
    return f'<circle cx="{x}" cy="{y}" r="4.5" fill="{color}"><title>{html.escape(words)}</title></circle>'


def write(folder: Path, night: Mapping[str, Any]) -> None:
    """Write `timeline.json` and `timeline.html`."""
    (folder / "timeline.json").write_text(json.dumps(night, indent=1, default=asdict) + "\n", encoding="utf-8")
    (folder / "timeline.html").write_text(page(json.loads((folder / "timeline.json").read_text())), encoding="utf-8")
