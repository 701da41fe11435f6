"""A remote cell: what its host lacks, who runs it already, what stops its wait, and when it counts as done here."""

import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from dpeer import __version__
from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.launchers.launcher import Ended
from dpeer.experiments.launchers.remote_cell import Order, order, run_order, seen
from dpeer.experiments.variants import parse_variant
from dpeer.federation.rank_lock import held
from tests.experiments.conftest import finish

LOST = Ended("lost", "its worker is lost", 1)
HERE = (__version__, torch.__version__)


def ordered(cell: Cell, home: Path, versions: tuple[str, str] = HERE) -> Order:
    return Order(cell.settings, str(home), versions)


def test_a_host_that_lacks_something_names_it_and_runs_nothing(cells: list[Cell], tmp_path: Path) -> None:
    cell = cells[0]
    ended = run_order(ordered(cell, tmp_path), seen_within=0)
    assert ended.status == "failed"
    assert f": no '{cell.folder}': --out must be on a file system that all hosts share" in str(ended.error)
    cell.claim()
    ended = run_order(ordered(cell, tmp_path / "gone"), seen_within=0)
    assert "gone', the working folder that relative paths start from: begin where all hosts see it" in str(ended.error)
    ended = run_order(ordered(cell, tmp_path, ("0.0.1", "2.0")), seen_within=0)
    assert f"dpeer {HERE[0]} with torch {HERE[1]}, and the comparison has dpeer 0.0.1 with torch 2.0: " in str(
        ended.error
    )
    assert {path.name for path in cell.folder.iterdir()} == {"cell.json"}


def test_a_cell_that_another_process_still_runs_is_waited_for_and_not_run_twice(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cells[0]
    cell.claim()
    other = held(cell.folder / "rank-0")
    other.__enter__()

    def wait(seconds: float) -> None:
        finish(cell)
        other.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", wait)
    mask, home = signal.pthread_sigmask(signal.SIG_BLOCK, []), Path.cwd()
    assert run_order(ordered(cell, tmp_path)) == Ended("done")
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, []), Path.cwd()) == (mask, home)
    assert not (cell.folder / "rank-0" / "metrics.jsonl").exists()


def test_a_signal_ends_the_wait_for_another_process(cells: list[Cell], small_task: Path) -> None:
    folder = Path("cell")
    base = {"task": "mine.py:task", "size": 2, "rounds": 1}
    cell = make_cell(base, parse_variant("local"), cells[0].condition, 0, folder)
    cell.claim()
    handled: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # as it comes while the order is taken
    try:
        with held(cell.folder / "rank-0"):
            assert run_order(order(cell, 1)) == Ended("stopped")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        assert handled == [], "it has had its effect"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, before)


def test_an_order_has_an_absolute_folder_and_as_many_threads_as_it_may_use(small_task: Path) -> None:
    cell = make_cell({}, parse_variant("local"), Condition({"topology": "ring", "partition": None}), 0, Path("out"))
    sent = order(cell, 3)
    assert (sent.settings.out, sent.settings.workers) == (Path.cwd() / cell.folder, 3)
    assert (sent.home, sent.versions) == (str(Path.cwd()), HERE)


def test_a_cell_is_done_once_its_files_show_it_here(cells: list[Cell]) -> None:
    cell = cells[0]
    ended = seen(cell, Ended("done"), 0)
    assert ended.error == f"done on its host, and '{cell.folder}/summary.json' does not show it here"
    assert seen(cell, LOST, 0) == LOST
    cell.claim()
    finish(cell)
    assert seen(cell, Ended("done"), 0) == Ended("done")
