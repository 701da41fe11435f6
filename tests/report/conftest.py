"""Folders of runs, written as dpeer writes them, without running anything."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from dpeer.report.style import Report
from dpeer.results.groups import ACCURACY, group_runs
from dpeer.results.run_folders import find_runs

SETTINGS: dict[str, Any] = {
    "size": 3, "topology": "ring", "weights": "metropolis", "graph_seed": 0, "task": "digits", "partition": None,
    "algorithm": "dfedmdc", "rounds": 2, "seed": 0, "body_lr": 0.05, "keep": "last", "evaluate_on": "test",
}  # fmt: skip


def _write(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run of three peers: accuracies at the end as given, half of that in the round before.

    `more` are further entries of its summary, `own(rank)` of its peers' summaries, `lines(rank, line)` of their
    metrics.jsonl. Without `ended` no summary is there, with `only` no file of another rank. `distances` are by round.
    """

    def make(
        name: str,
        accuracy: tuple[float | None, ...] = (0.5, 0.75, 0.9),
        *,
        ended: bool = True,
        status: str = "done",
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
        for rank, value in enumerate(accuracy) if only is None else [(only, accuracy[only])]:
            written = []
            for number in range(rounds):
                reached = None if value is None else value * (number + 1) / rounds
                line = {
                    "round": number, "accuracy": reached, "accuracy_trained": None if reached is None else reached / 2,
                    "test_loss": 2.0 - number + rank, "bytes_sent": 1_000_000 * (rank + 1), "active": True,
                }  # fmt: skip
                written.append(line | lines(rank, line))
            _write(folder / f"rank-{rank}" / "metrics.jsonl", *written)
            if ended:
                _write(folder / f"rank-{rank}" / "summary.json", {
                    "rank": rank, "status": status, "settings": used, "accuracy": value,
                    "accuracy_trained": None if value is None else value / 2, "test_loss": 3.0 - rounds + rank,
                    "bytes_sent": 1_000_000 * (rank + 1) * rounds, "wall_seconds": 5.0, **own(rank),
                })  # fmt: skip
        if distances:
            found: Iterable[Any] = ({"round": n, "consensus_distance": one} for n, one in enumerate(distances))
            _write(folder / "disagreement.jsonl", *found)
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
    return lambda *folders: Report(group_runs(find_runs(folders)), ACCURACY)


class Page:
    """What a page holds: headings, pictures, the cells of its tables; fails where tags are not closed in order."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text()
        opened: list[str] = []
        self.tags = set()
        for closing, tag, alone in re.findall(r"<(/?)(\w+)[^>]*?(/?)>", self.source):
            self.tags.add(tag)
            if closing:
                assert opened.pop() == tag
            elif not alone and tag not in ("meta", "img", "br", "link"):
                opened.append(tag)
        assert opened == []
        body = self.source.partition("</head>")[2]
        self.text = self._plain(body)
        self.headings = [self._plain(one) for one in re.findall(r"<h2>(.*?)</h2>", body)]
        self.pictures = {name: (source, unescape(alt)) for name, source, alt in re.findall(
            r'<section id="([\w-]+)">(?:(?!</section>).)*?<img src="(.*?)" alt="(.*?)"', body, re.DOTALL
        )}  # fmt: skip
        self.tables = [
            [[self._plain(cell) for cell in re.findall(r"<t[hd]\b.*?>(.*?)</t[hd]>", row)]
             for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
            for table in re.findall(r"<table.*?</table>", body, re.DOTALL)
        ]  # fmt: skip

    @staticmethod
    def _plain(html: str) -> str:
        return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


@pytest.fixture
def read_page() -> Callable[..., Page]:
    return lambda folder="dpeer-report": Page(Path(folder) / "index.html")
