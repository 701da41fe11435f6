"""What `dpeer.run` writes below a notebook's cell."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dpeer
from dpeer.federation import view as module
from dpeer.federation.view import NotebookLine, in_notebook
from dpeer.results.training_alerts import Alert


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython as a notebook's kernel has it, and a clock by which no writing is too early."""
    monkeypatch.setattr(module, "_EVERY", 0.0)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))


def line(number: int, accuracy: float | None = None) -> dict[str, Any]:
    figures = {"train_loss": 0.5, "accuracy": accuracy, "bytes_sent": 500, "missed": [], "active": True}
    return {"round": number} | figures


@pytest.mark.usefixtures("kernel")
def test_a_line_is_written_anew_as_rounds_complete(capsys: pytest.CaptureFixture[str]) -> None:
    with NotebookLine(2, 3) as view:
        view.record(0, line(0, 0.5))
        assert capsys.readouterr().out == "", "rank 1 has completed none"
        view.record(1, line(0, 0.75))
        assert capsys.readouterr().out == "round 1/3, loss 0.5000, accuracy 0.6250 (lowest 0.5000), sent 1.0 kB"
        view.alert(1, Alert("flat", "nothing is learned"))
        assert capsys.readouterr().out == "\rrank 1: nothing is learned" + " " * 42 + "\n"
        view.status(1, "stopped")
        view.record(0, line(1))
        assert capsys.readouterr().out == "round 2/3, loss 0.5000, sent 500 B"
    assert capsys.readouterr().out.endswith("\n")


@pytest.mark.usefixtures("kernel")
def test_a_run_in_a_notebook_shows_its_last_round(
    small_task: Path, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = dpeer.Settings(size=2, rounds=2, task="mine.py:task", out=Path("run"))
    dpeer.run(settings)
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].rpartition("\r")[2].startswith("round 2/2, loss ")
    dpeer.run(settings, overwrite=True, on_record=lambda one: None)
    assert capsys.readouterr().out == "", "who gets the lines shows them"


def test_a_script_and_a_terminal_are_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    for get_ipython in (lambda: None, object):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=get_ipython))
        assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
