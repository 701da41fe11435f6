"""Making a report: read the runs, draw, and write the page with its pictures. Imports matplotlib and Jinja2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpeer.exceptions import OutputError
from dpeer.report import accuracy, classes, faults, generalization, graphs, peers, traffic, worth
from dpeer.report.curves import Measure, choose
from dpeer.report.groups import Grouped, group_runs
from dpeer.report.page import MARK, render_page
from dpeer.report.panels import arrange
from dpeer.report.style import Section, looks
from dpeer.results.runs import Run

PAGE = "index.html"

_NAMES = (
    "accuracy-by-round", "accuracy-per-peer", "accuracy-by-rank", "disagreement", "disagreement-by-round",
    "bytes-by-round", worth.NAME, generalization.NAME, "accuracy-by-bytes", "graph", "class-mix", faults.NAME,
)  # fmt: skip


def check_out(out: Path) -> None:
    """Check that a report may be written there.

    Raises:
        OutputError: there is something else.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(f"--out {str(out)!r} is a file: name a folder")
    if not out.exists() or not any(out.iterdir()):
        return
    page = out / PAGE
    if not page.is_file() or MARK not in page.read_text(errors="replace")[:1000]:
        raise OutputError(f"--out {str(out)!r} holds something that is no report: name another folder")


def write_report(runs: Sequence[Run], out: Path, labels: Sequence[str], title: str | None) -> list[Path]:
    """Write the page and its pictures; one that an earlier report left there is replaced.

    Returns:
        The page's path, then the pictures'.

    Raises:
        OutputError: it cannot be written.
    """
    grouped = group_runs(runs, labels)
    measure = choose(grouped.groups)
    with looks():
        sections = draw(grouped, measure)
    page = render_page(title or _title(grouped), grouped, measure, sections)
    pictures = {out / f"{section.name}.png": section.png for section in sections if section.png is not None}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in _NAMES:
            (out / f"{name}.png").unlink(missing_ok=True)
        for path, content in pictures.items():
            path.write_bytes(content)
        (out / PAGE).write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OutputError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    return [out / PAGE, *pictures]


def draw(grouped: Grouped, measure: Measure) -> list[Section]:
    """All sections with a picture, in the page's order."""
    arranged = arrange(grouped, measure)
    ranks = peers.draw_ranks(grouped.groups, measure)
    sections = [
        worth.draw_gains(grouped.groups),
        accuracy.draw_rounds(arranged, measure),
        generalization.draw_gaps(arranged),
        faults.draw_faults(grouped.groups),
        # Of one run, the dots by rank show all that the dots in a row do.
        # Of one peer the table says it.
        peers.draw_spread(grouped.groups, measure) if _spread(grouped, ranks) else None,
        ranks,
        traffic.draw_distances(grouped.groups),
        traffic.draw_distance_rounds(arranged),
        traffic.draw_bytes(arranged),
        accuracy.draw_price(arranged, measure),
        graphs.draw_graphs(grouped.groups, measure),
        classes.draw_classes(grouped.groups),
    ]
    return [section for section in sections if section is not None]


def _spread(grouped: Grouped, ranks: Section | None) -> bool:
    several = len(grouped.groups) > 1
    return several if ranks is not None else several or len(grouped.groups[0].ranks) != 1


def _title(grouped: Grouped) -> str:
    """The page's title: what all groups have in common."""
    common = {key: grouped.common.get(key) for key in ("algorithm", "task", "partition", "topology", "size")}
    words = [value for key, value in common.items() if value and key not in ("size", "partition")]
    peers_ = [f"{common['size']} peers"] if common["size"] else []
    return "dpeer: " + (", ".join([*words, *peers_]) or f"{len(grouped.groups)} groups of runs")
