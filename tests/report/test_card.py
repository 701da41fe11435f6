"""The page about a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.exceptions import OutputError
from dpeer.report.card import render_card, write_card
from dpeer.training.measures import measure


def card(**changes: Any) -> dict[str, Any]:
    truth = torch.arange(30) % 3
    scores = torch.eye(3)[truth] + torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    return {
        "format": 1, "written": "2026-01-31T09:30:00+00:00", "task": "csv", "target": "outcome",
        "columns": ["age", "blood <type>"], "classes": ["a", "b", "<i>c</i>"],
        "model": {"model": "mlp", "shape": [2], "outputs": 3, "standardize": True, "pixels": False},
        "input_shape": [2], "preparation": {"kind": "plain"}, "samples": {"train": 1200, "validation": 0, "test": 30},
        "class_counts": {"train": [600, 400, 200], "test": [10, 10, 10]}, "measured_on": "test",
        "metrics": measure(scores, truth, ("a", "b", "<i>c</i>")), "own_metrics": {"accuracy": 0.5, "dice": 0.25},
        "versions": {"dpeer": "0.1.0", "torch": "2"}, "privacy": None, "factory": None,
        "federation": {
            "rank": 2, "size": 8, "topology": "ring", "algorithm": "dfedsmdc", "partition": "own", "rounds": 20,
            "seed": 0, "body_parameters": 1000, "head_parameters": 10, "status": "stopped", "completed_rounds": 12,
            "kept_round": 8, "lost": {"3": "silent for 15 s"},
        },
    } | changes  # fmt: skip


@pytest.fixture
def read(read_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Write a card's page and read it."""

    def make(**changes: Any) -> Any:
        write_card(card(**changes), tmp_path / "page" / "index.html")
        return read_page(str(tmp_path / "page"))

    (tmp_path / "page").mkdir()
    return make


def test_the_page_has_the_facts_of_the_card(read: Callable[..., Any]) -> None:
    page = read()
    found = card()
    assert page.headings == [
        "How well it does", "By class", "Confusion matrix", "Calibration", "The model", "How it was trained",
    ]  # fmt: skip
    values, classes, confusion, counts = page.tables
    accuracy = found["metrics"]["values"]["accuracy"]
    assert values[1] == [
        "accuracy", f"{accuracy['value']:.4f}", f"{accuracy['low']:.4f} to {accuracy['high']:.4f}",
    ]  # fmt: skip
    assert values[-1] == ["dice", "0.2500", "-"]
    assert [row[0] for row in classes[1:]] == ["a", "b", "<i>c</i>"], "escaped, so it is text again when it is read"
    assert [[int(cell) for cell in row[1:]] for row in confusion[1:]] == found["metrics"]["confusion"]
    assert counts == [
        ["class", "training", "testing"], ["a", "600", "10"], ["b", "400", "10"], ["<i>c</i>", "200", "10"],
    ]  # fmt: skip
    text = " ".join(page.text.split())
    for words in (
        "31 January 2026, 09:30 UTC", "8; this is rank 2", "12 of 20; the model is that of round 9 (stopped)",
        "rank 3 (silent for 15 s)", "1,200 for training, 30 for testing", "No privacy guarantee",
        "scales by the mean and deviation", "1,000 shared, 10 kept at home", "It needs these 2 columns, in any order",
        "the predicted class is right",
    ):  # fmt: skip
        assert words in text
    assert "script" not in page.tags
    assert "http" not in page.source.replace("http-equiv", "")


def test_the_sections_of_a_page_follow_from_the_figures(read: Callable[..., Any]) -> None:
    page = read(metrics=measure(torch.randn(5, 2), torch.zeros(5, dtype=torch.long), ("no", "yes")))
    assert "By class" not in page.headings
    assert ["AUROC", "undefined", "no row is of class 'yes'"] in page.tables[0]
    assert "the positive class is" in " ".join(page.text.split())
    figures = measure(torch.randn(9, 1), torch.randn(9, 1), values=True)
    page = read(metrics=figures, classes=None, own_metrics=None, class_counts={"train": None, "test": None})
    assert page.headings == ["How well it does", "The model", "How it was trained"]
    assert [row[0] for row in page.tables[0]] == ["figure", "MAE", "RMSE", "R2"]
    page = read(metrics=None, model=None, columns=None, preparation=None, target=None, input_shape=None)
    assert "Such a task has no figures but its own." in " ".join(page.text.split())
    names = tuple(f"class {number}" for number in range(40))
    found = measure(torch.randn(120, 40), torch.arange(120) % 40, names)
    page = read(metrics=found, classes=list(names), class_counts={"train": [3] * 40})
    assert "Confusion matrix" not in page.headings
    assert "10 more classes are in model.json" in page.text
    spent = {"guarantee": "releases", "epsilon": 3.5, "delta": 1e-5, "releases": 12}
    text = " ".join(read(privacy=spent).text.split())
    assert "epsilon 3.5" in text
    assert "This holds for what the peer sent to others" in text


def test_a_file_that_is_no_card_is_kept(tmp_path: Path) -> None:
    (tmp_path / "model.html").write_text("mine")
    for path in (tmp_path / "model.html", tmp_path / "nowhere" / "model.html"):
        with pytest.raises(OutputError):
            write_card(card(), path)
    assert (tmp_path / "model.html").read_text() == "mine"
    assert render_card(card()).startswith("<!DOCTYPE html>")
