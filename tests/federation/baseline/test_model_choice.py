"""`--keep blend` in whole runs: what is written and told, when one model is kept instead, and what is refused."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.federation.baseline.after_run import compare_after_run
from dpeer.federation.baseline.comparison import UNFINISHED
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.results.effect import closing_lines
from dpeer.simulation import simulation
from tests.error_texts import refused

from .test_after_run import TASK, summary, told, two_peers

pytestmark = pytest.mark.usefixtures("one_thread")

OWN = (
    TASK.replace("def task(", "def task_of(").replace("made = task(", "made = task_of(")
    + """

class Frozen(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(False)


def task(rank, size, seed):
    made = task_of(rank, size, seed)
    made.model.body.insert(1, Frozen(6).eval())
    return made


def own_loss(rank, size, seed):
    made = task_of(rank, size, seed)
    made.loss = lambda outputs, targets: nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)
    return made
"""
)

BLEND = {"keep": "blend", "alone": "always"}
Run = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run two peers of the small task in this process; returns the run's folder."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    return partial(two_peers, rounds=3)


def card(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "model.json").read_text())
    return found


def member(folder: Path, number: int) -> dict[str, Tensor]:
    prefix, values = f"members.{number}.", load_file(folder / "model.safetensors")
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_blend_has_both_models_and_its_own_figures(run: Run) -> None:
    """The members are, to the bit, what a run without its baseline keeps, and what each peer trains by itself."""
    out = run("run", training_accuracy=True, **BLEND)
    federated = run("federated", keep="best", alone="never")
    local = run("local", keep="best", algorithm="local", body_epochs=11)
    for rank in range(2):
        folder, name = out / f"rank-{rank}", f"rank-{rank}/model.safetensors"
        assert same(member(folder, 0), load_file(federated / name))
        assert same(member(folder, 1), load_file(local / name))
        found, worth = summary(folder), summary(folder)["worth"]
        weights = card(folder)["blend"]["weights"]
        assert weights == [worth["weight"], 1 - worth["weight"]]
        assert (found["kept_point"], worth["kept"], worth["no_blend"]) == ("blend", "blend", None)
        assert worth["joined"] == summary(federated / f"rank-{rank}")["accuracy"]
        assert worth["alone"] == summary(local / f"rank-{rank}")["accuracy"]
        assert worth["blend_validation_loss"] <= max(worth["validation_loss"], worth["alone_validation_loss"])

        model = dpeer.load_model(folder)
        data = build(resolve(Settings(size=2, task="mine.py:task"), rank)).learner.trainer.task.test
        inputs, targets = data.tensors
        parts = [torch.softmax(one(inputs).detach(), dim=1) for one in model.module.members]
        expected = weights[0] * parts[0] + weights[1] * parts[1]
        predicted = model.predict(inputs)
        assert predicted.probabilities == pytest.approx(expected.numpy(), abs=1e-6)
        np.savez(folder / "test.npz", inputs=inputs.numpy(), targets=targets.numpy())
        assert model.evaluate(folder / "test.npz") == card(folder)["metrics"]
        assert found["accuracy"] == worth["blend"] == card(folder)["metrics"]["values"]["accuracy"]["value"]
        log_loss = -np.log(expected.numpy()[np.arange(len(targets)), targets]).mean()
        assert found["test_loss"] == pytest.approx(log_loss, abs=1e-6)
        assert found["training_accuracy"] is not None
    assert summary(out)["kept_point"] == ["blend", "blend"]
    written = (out / "rank-0/model.safetensors").read_bytes()
    before = card(out / "rank-0") | {"written": None}
    run("run", resume=True, training_accuracy=True, **BLEND)
    assert (out / "rank-0/model.safetensors").read_bytes() == written, "a resumed run that had ended makes it again"
    assert card(out / "rank-0") | {"written": None} == before


def test_a_comparison_that_was_stopped_makes_it_later(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run("beside", **BLEND)
    conclude = simulation.conclude_comparison

    def stopped(
        out: Path, learner: Any, beside: Any, facts: Any, asked: Any, tell: Callable[[str], None], *, diverged: bool
    ) -> None:
        conclude(out, learner, beside, facts, lambda: True, tell, diverged=diverged)

    monkeypatch.setattr(simulation, "conclude_comparison", stopped)
    folder, there = run("later", **BLEND) / "rank-1", expected / "rank-1"
    assert summary(folder)["worth"]["no_blend"] == UNFINISHED
    assert summary(folder)["kept_point"] != "blend"
    assert not isinstance(dpeer.load_model(folder).module, type(dpeer.load_model(there).module))
    found = compare_after_run(folder)
    assert found is not None
    assert told(folder) == told(there)
    assert (folder / "model.safetensors").read_bytes() == (there / "model.safetensors").read_bytes()
    assert card(folder) | {"written": None} == card(there) | {"written": None}
    assert closing_lines(found)[-1].startswith("kept: the blend of both models, 0.")


@pytest.mark.parametrize(
    ("name", "why"),
    [("own_loss", "the task has a loss of its own"), ("regression", "values are predicted, not classes")],
)
def test_a_task_without_class_probabilities_keeps_the_better_model(run: Run, name: str, why: str) -> None:
    given = {"task": f"mine.py:{name}", "algorithm": "dfedavgm"}
    out, best = run("run", **given, **BLEND), run("best", **given, keep="best", alone="always")
    for rank in range(2):
        folder, other = out / f"rank-{rank}", best / f"rank-{rank}"
        assert (folder / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
        assert "blend" not in card(folder)
        worth = summary(folder)["worth"]
        assert worth["no_blend"].startswith(why)
        assert worth | {"no_blend": None} == summary(other)["worth"]
    parts = build(resolve(Settings(size=2, rounds=3, out=out.parent / "new", **given, **BLEND), 0))
    assert any(line.startswith(f"no blend: {why}") and "least loss" in line for line in parts.notes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alone": "auto"}, "--keep blend with --alone auto: it needs the local-only model: give --alone always"),
        ({"algorithm": "local"}, "--keep blend with --algorithm local: nothing is shared"),
        ({"privacy": "client", "noise_multiplier": 1.0}, "--keep blend with --privacy client: its weight is read off"),
        ({"privacy": "sample", "noise_multiplier": 1.0}, "--keep blend with --privacy sample: its weight is read off"),
        ({"validation": 0.0, "task": "digits"}, "--keep blend needs validation data"),
        ({"preset": "paper-cifar", "task": "digits"}, "--keep blend needs validation data"),
    ],
)
def test_what_does_not_go_with_it_is_refused(run: Run, changes: dict[str, Any], words: str) -> None:
    with refused(ConfigurationError, words):
        run("run", **BLEND | changes)
