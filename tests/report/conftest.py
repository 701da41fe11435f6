"""Folders of runs, written as dpeer writes them, without running anything."""

import json
from collections.abc import Callable, Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from dpeer.report.facets import Report
from dpeer.results.groups import ACCURACY, group_runs
from dpeer.results.reading import find_runs

REACHED = (0.5, 0.75, 0.9)
SETTINGS: dict[str, Any] = {
    "size": 3, "topology": "ring", "weights": "metropolis", "grid_shape": None, "degree": 4, "rewire": 0.1,
    "edge_probability": None, "fresh_neighbors": None, "graph_seed": 0, "task": "digits", "partition": None,
    "algorithm": "dfedmdc", "rounds": 2, "seed": 0, "body_lr": 0.05, "keep": "last", "evaluate_on": "test",
}  # fmt: skip


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run of three peers: accuracies at the end as given, half of that in the round before.

    `more` are further entries of its summary, `own(rank)` of its peers' summaries, `lines(rank, line)` of their
    metrics.jsonl. Without `ended` no summary is there, with `only` no file of another rank. `distances` are by round.
    """

    def make(
        name: str,
        accuracy: tuple[float | None, ...] = REACHED,
        *,
        ended: bool = True,
        status: str = "done",
        classes: list[int] | None = None,
        names: tuple[tuple[str, ...], ...] | None = None,
        distance: float | None = 1.5,
        distances: Sequence[float] = (),
        more: dict[str, Any] | None = None,
        lines: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda rank, line: {},
        only: int | None = None,
        own: Callable[[int], dict[str, Any]] = lambda rank: {},
        **settings: Any,
    ) -> Path:
        folder = tmp_path / name
        used = {**SETTINGS, "size": len(accuracy), **settings}
        rounds = used["rounds"]
        for rank, value in enumerate(accuracy):
            if only not in (None, rank):
                continue
            written = []
            for number in range(rounds):
                reached = None if value is None else value * (number + 1) / rounds
                line = {
                    "round": number, "accuracy": reached, "accuracy_trained": None if reached is None else reached / 2,
                    "test_loss": 2.0 - number + rank, "bytes_sent": 1_000_000 * (rank + 1), "active": True,
                }  # fmt: skip
                written.append(line | lines(rank, line))
            peer = {
                "rank": rank, "status": status, "settings": used, "accuracy": value,
                "accuracy_trained": None if value is None else value / 2, "test_loss": 3.0 - rounds + rank,
                "bytes_sent": 1_000_000 * (rank + 1) * rounds, "class_counts": classes, "wall_seconds": 5.0,
                **({"class_names": names[rank]} if names else {}),
            }  # fmt: skip
            (folder / f"rank-{rank}").mkdir(parents=True)
            if ended:
                _write(folder / f"rank-{rank}" / "summary.json", peer | own(rank))
            write_lines(folder / f"rank-{rank}" / "metrics.jsonl", written)
        if distances:
            found = ({"round": number, "consensus_distance": one} for number, one in enumerate(distances))
            write_lines(folder / "disagreement.jsonl", found)
        if ended and only is None:
            _write(folder / "summary.json", {
                **{key: used[key] for key in ("size", "topology", "algorithm", "task", "rounds", "seed")},
                "partition": used["partition"] or "dirichlet:0.3", "status": status,
                "completed_rounds": [rounds] * len(accuracy), "accuracy": list(accuracy),
                "consensus_distance": distance, "bytes_sent": 1_000_000 * rounds * sum(range(1, len(accuracy) + 1)),
                "wall_seconds": 12.5, "epsilon": None, "settings": used, **(more or {}),
            })  # fmt: skip
        return folder

    return make


@pytest.fixture
def report_of() -> Callable[..., Report]:
    """What panels draw from, of the runs in folders."""
    return lambda *folders: Report.of(group_runs(find_runs(folders)), ACCURACY)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made but not drawn, which takes most of a report's time: for tests of what the page says."""
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: file.write(b"PNG"))


class Page(HTMLParser):
    """What a page holds: headings, pictures, the cells of its tables; fails where tags are not closed in order."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text()
        self.headings: list[str] = []
        self.pictures: dict[str, tuple[str, str]] = {}
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.tags: set[str] = set()
        self._open: list[str] = []
        self._section = ""
        self.feed(self.source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.tags.add(tag)
        if tag not in self.VOID:
            self._open.append(tag)
        if tag == "section":
            self._section = given["id"]
        elif tag == "img":
            self.pictures[self._section] = given["src"], given["alt"]
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if self._open and self._open[-1] == "h2":
            self.headings[-1] += data
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data.strip()

    def results(self) -> list[dict[str, str]]:
        """The lines of the first table by heading."""
        heading, *lines = self.tables[0]
        return [dict(zip(heading, line, strict=True)) for line in lines]

    def runs(self) -> list[dict[str, str]]:
        """The lines of the last table by heading."""
        heading, *lines = self.tables[-1]
        return [dict(zip(heading, line, strict=True)) for line in lines]


@pytest.fixture
def read_page() -> Callable[..., Page]:
    def read(folder: str = "dpeer-report") -> Page:
        return Page(Path(folder) / "index.html")

    return read
