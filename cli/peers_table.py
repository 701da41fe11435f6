"""Table of the peers of a run folder and of the other members they know of, for `dpeer status` and `dpeer top`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dpeer.cli.tables import plain_table
from dpeer.federation import snapshot_words as words
from dpeer.federation.control_client import Place

_COLUMNS = (
    "rank", "rounds", "quorum", "round", "left", "list", "state", "neighbors", "last mix", "saved", "sent/s", "got/s",
    "epsilon", "disagreement", "dropped", "disk",
)  # fmt: skip
_LONG = ("round", "left", "sent/s", "got/s", "epsilon", "disagreement", "dropped", "disk")
"""Columns of `dpeer top` alone."""

_IF_ANY = ("list", "epsilon", "disagreement", "dropped")
"""Columns that are shown only where a peer has a value."""

_RIGHT = ("rank", "rounds", "quorum", "round", "left", "sent/s", "got/s", "epsilon", "disagreement", "disk")
"""Columns of numbers."""

_WORDS = ("state", "neighbors", "last mix", "dropped")
"""Columns whose words may be broken into lines."""

_LEAST_WORTH = (
    "got/s", "sent/s", "dropped", "saved", "disk", "disagreement", "last mix", "quorum", "left", "epsilon",
    "round",
)  # fmt: skip
"""Columns that a narrow table leaves out, in this order."""

_NUMBERS, _BROKEN, _GAP = 8, 12, 1
"""Characters that a column of numbers, and one of words, has at least when widths are planned; those between columns.

Planned widths are larger than most cells, so that a live table keeps its columns from look to look.
"""


def peers_table(found: Sequence[Place], earlier: Mapping[Path, Rates] | None = None, width: int | None = None) -> Table:
    """The table of these peers; below it a line with the columns that are left out, if any.

    `earlier` has each place's bytes a second by its folder (None: the short table), `width` is the most characters of a
    line (None: all columns).
    """
    answers = [one.answer for one in found if one.answer is not None and one.answer["rounds"] is not None]
    rows = [_cells(one, (earlier or {}).get(one.folder)) for one in found]
    rows += _others(answers, {one.name.removeprefix("rank-") for one in found})
    there = {name for row in rows for name, cell in row.items() if cell not in ("", words.NONE)}
    names = [name for name in _COLUMNS if name in there or name not in _IF_ANY]
    names = [name for name in names if earlier is not None or name not in _LONG]
    shown = names if width is None else _that_fit(names, rows, width)
    table = plain_table(gap=_GAP)
    for name in shown:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name not in _WORDS)
    for cells in rows:
        table.add_row(*(Text(cells.get(name, "")) for name in shown))  # as text: no markup
    if hidden := [name for name in names if name not in shown]:
        table.caption = Text(f"left out in {width} columns: {', '.join(hidden)}", style="dim")
        table.caption_justify = "left"
    return table


def _that_fit(names: Sequence[str], rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """The columns without those of least worth that a line of this width has no room for."""

    def planned(name: str) -> int:
        head = cell_len(name)
        if name in _WORDS:
            return max(head, _BROKEN)
        widest = max(head, *(cell_len(cells.get(name, "")) for cells in rows))
        return widest if name == "rank" else max(widest, _NUMBERS)

    kept = list(names)
    for name in _LEAST_WORTH:
        if sum(planned(one) + 1 + _GAP for one in kept) <= width:
            break
        if name in kept:
            kept.remove(name)
    return kept


class Rates:
    """Bytes a second that a peer has sent and received since the look before."""

    def __init__(self, answer: Mapping[str, Any], time: float, before: Rates | None = None) -> None:
        self.time, self.pid = time, answer["pid"]
        self.totals = tuple(
            sum(one.get(name, 0) for one in answer["neighbors"]) for name in ("bytes_sent", "bytes_received")
        )
        self.sent: float | None = None
        self.received: float | None = None
        if before is not None and before.pid == self.pid and time > before.time:
            self.sent, self.received = (
                max(0.0, now - then) / (time - before.time)
                for now, then in zip(self.totals, before.totals, strict=True)
            )


def _others(answers: Sequence[Mapping[str, Any]], asked: Collection[str]) -> list[dict[str, str]]:
    """Rows of members that run in no folder of this table: on other hosts, or in folders that were not named."""
    most = max((one["rounds"] for one in answers), default=None)
    return [
        {
            "rank": str(rank), "rounds": words.rounds(completed, most), "quorum": words.NONE,
            "state": "has not come yet" if completed is None else words.seen(rank, answers),
        }
        for rank, completed in words.members(answers).items() if str(rank) not in asked
    ]  # fmt: skip


def _cells(place: Place, rates: Rates | None) -> dict[str, str]:
    """What a peer's row has, by column."""
    found, rank = place.answer, place.name.removeprefix("rank-")
    if found is None or found["rounds"] is None:
        return {
            "rank": rank, "rounds": words.rounds(place.completed, place.rounds), "quorum": words.NONE,
            "state": place.state if found is None else words.state(found),
            "saved": words.ago(place.saved_seconds),
        }  # fmt: skip
    return {
        "rank": rank,
        "rounds": words.rounds(found["completed"], found["rounds"]),
        "quorum": words.or_dash(found["quorum"], str),
        "list": words.member_list(found),
        "round": words.duration(found.get("round_seconds")),
        "left": words.duration(found.get("left_seconds")),
        "state": words.state(found),
        "neighbors": words.neighbors(found["neighbors"]),
        "last mix": words.mix(found),
        "saved": words.ago(found["checkpoint_seconds"]),
        "sent/s": words.size(None if rates is None else rates.sent),
        "got/s": words.size(None if rates is None else rates.received),
        "epsilon": words.epsilon(found.get("epsilon")),
        "disagreement": words.or_dash(found.get("disagreement"), lambda value: f"{value:.2g}"),
        "dropped": words.dropped(found),
        "disk": words.size(found.get("disk_free")),
    }
