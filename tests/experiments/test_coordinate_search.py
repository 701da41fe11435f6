"""Choosing rates for one peer by itself: the choice, its end, and what it leaves alone."""

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.experiments import coordinate_search
from dpeer.experiments.coordinate_search import Found, Rates, Tried
from dpeer.experiments.grid_search import parse_axis
from dpeer.federation.config import RunConfig
from dpeer.federation.settings import Settings

Command = Callable[..., Any]

WITH_VALIDATION = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed, validation=True, regression=False):
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    data = TensorDataset(x, x[:, :2] * 3 if regression else (x[:, 0] > 0).long())
    return Task(
        model=nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), head=("2",), train=data, test=data,
        validation=data if validation else None, loss=nn.functional.mse_loss if regression else None,
        metrics=(lambda outputs, targets: {"far": float((outputs - targets).abs().mean())}) if regression else None,
    )
"""


@pytest.fixture
def settings(in_tmp_path: Path) -> Settings:
    (in_tmp_path / "mine.py").write_text(WITH_VALIDATION)
    return Settings(size=2, task=str(in_tmp_path / "mine.py") + ":task", out=in_tmp_path / "run")


def chosen(settings: Settings, *grid: str, rounds: int = 2, **given: Any) -> Found:
    return Rates(settings, 0, rounds, [parse_axis(text) for text in grid] or None, given).run(lambda _: None)


class Scripted:
    """A learner whose training comes to a loss that a test has chosen."""

    shares, num_samples = False, 48

    def __init__(self, loss: float, after: Callable[[], None] = lambda: None) -> None:
        self._loss, self._after = loss, after

    def train(self, number: int) -> float:
        return self._loss

    def finish(self, number: int) -> None:
        self._after()

    def evaluate(self) -> SimpleNamespace:
        return SimpleNamespace(test_loss=self._loss, accuracy=None)

    def interrupt(self) -> None:
        """Nothing runs."""


def scripted(monkeypatch: pytest.MonkeyPatch, loss: Callable[[dict[str, Any]], float], **options: Any) -> None:
    """Training comes to this loss."""

    def isolated(config: RunConfig) -> tuple[SimpleNamespace, Scripted]:
        return SimpleNamespace(validation=range(12)), Scripted(loss(config.values() | vars(config.options)), **options)

    monkeypatch.setattr(coordinate_search, "isolated", isolated)


def test_one_setting_after_the_other_each_at_the_best_of_those_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, lambda v: abs(v["body_lr"] - 0.01) + abs(v["head_lr"] - 0.03) + abs(v["rho"] - 0.2))
    found = chosen(settings)
    now = Settings()
    assert [tuple(one.values.values()) for one in found.tried] == [
        (now.body_lr, now.head_lr, now.rho),
        *((rate, rate, now.rho) for rate in (0.003, 0.01, 0.03, 0.1) if rate != now.body_lr),
        *((0.01, rate, now.rho) for rate in (0.003, 0.03, 0.1)),
        *((0.01, 0.03, rho) for rho in (0.01, 0.05, 0.2) if rho != now.rho),
    ]
    assert found.best is not None
    assert (found.complete, found.at_edge) == (True, ["rho"])
    assert found.best.values == {"body_lr": 0.01, "head_lr": 0.03, "rho": 0.2}


def test_training_that_diverged_is_never_the_best(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, lambda v: math.inf if v["body_lr"] > 0.02 else 1.0)
    found = chosen(settings, "body-lr=0.03,0.01,0.003")
    assert [one.diverged for one in found.tried] == [settings.body_lr > 0.02, True, False, False]
    assert found.best is not None
    assert found.best.values["body_lr"] == (0.01 if settings.body_lr > 0.02 else settings.body_lr), (
        "the first of equals"
    )
    scripted(monkeypatch, lambda v: math.inf)
    assert chosen(settings, "body-lr=0.03,0.01").best is None


def test_settings_that_are_given_or_without_effect_are_not_tried(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, lambda v: v["body_lr"])
    changes: list[tuple[dict[str, Any], dict[str, Any], set[str]]] = [
        ({"body_lr": 0.007}, {"body_lr": 0.007}, {"head_lr", "rho"}),
        ({"algorithm": "local"}, {}, {"body_lr"}),
        ({"algorithm_options": {"rho": 0.3}}, {"algorithm_options": {"rho": 0.3}}, {"body_lr", "head_lr"}),
    ]
    for change, given, names in changes:
        assert {*chosen(settings.model_copy(update=change), **given).tried[0].values} == names
    # Rates of AdamW; fedadamw takes its steps whatever is asked.
    for change, rates_tried in (
        ({"optimizer": "adamw"}, [0.001, 0.0003, 0.003, 0.01]),
        ({"algorithm": "fedadamw"}, [0.0003, 0.001, 0.003, 0.01]),
    ):
        found = chosen(settings.model_copy(update=change))
        assert [one.values["body_lr"] for one in found.tried[:4]] == rates_tried


def test_the_resolution_is_twice_the_standard_error_and_the_edge_that_of_all_that_was_tried() -> None:
    assert Found([Tried({}, 0.5, 0.9)], validation_samples=100).resolution == pytest.approx(2 * 0.03)
    assert Found([Tried({}, 0.5, None)], validation_samples=100).resolution is None
    points = [(0.2, 0.3), (0.1, 0.1), (0.3, 0.2), (0.2, 0.2)]
    tried = [Tried({"body_lr": body, "head_lr": head}, float(i), None) for i, (body, head) in enumerate(points)]
    assert Found(tried).at_edge == ["head_lr"]
    assert Found([Tried({"sam": sam, "rho": 0.1}, 1.0, None) for sam in ("body", "both")]).at_edge == []


@pytest.mark.parametrize("algorithm", ["local", "dfedsmdc", "dis-pfl", "ditto"])
def test_every_kind_of_algorithm_can_be_tuned_alone(algorithm: str, settings: Settings, in_tmp_path: Path) -> None:
    before = sorted(in_tmp_path.rglob("*"))
    own = settings.model_copy(update={"algorithm": algorithm})
    found = chosen(own, "body-lr=0.1,1e-6", rounds=3)
    assert found.best is not None
    assert found.best.values["body_lr"] != 1e-6, "next to nothing is learned with it"
    assert (found.training_samples, found.validation_samples) == (60, 60)
    assert [path for path in sorted(in_tmp_path.rglob("*")) if "__pycache__" not in path.parts] == before
    if algorithm == "dfedsmdc":
        assert chosen(own, "body-lr=0.1,1e-6", rounds=3).tried == found.tried, "to the bit"
        with pytest.raises(ConfigurationError) as refused:
            chosen(own.model_copy(update={"task_options": {"validation": False}}))
        assert "no validation data to choose by" in str(refused.value)


def test_a_search_can_be_stopped(settings: Settings) -> None:
    made = Rates(settings, 0, 2, None, {})
    seen: list[Tried] = []

    def tell(tried: Tried) -> None:
        seen.append(tried)
        if len(seen) == 2:
            made.stop()

    found = made.run(tell)
    assert (found.tried, len(seen), found.complete) == (seen, 2, False)


def test_the_command_prints_the_lines_for_the_federation_file(dpeer: Command, settings: Settings) -> None:
    before = sorted(Path.cwd().rglob("*.*"))
    ended = dpeer("tune", "--task", settings.task, "--rounds", 1)
    assert ended.code == 0
    assert ended.out.splitlines()[0] == (
        f"rank 0, dfedsmdc on {settings.task}: 1 round alone on 60 samples, measured on 60 that were held out"
    )
    table, _, rest = ended.out.partition("For the federation file:")
    assert "as it is" in table
    assert "best" in table
    assert {line.partition(" = ")[0] for line in rest.splitlines() if " = " in line} == {"body_lr", "head_lr", "rho"}
    assert "must be equal on all peers" in rest
    assert [path for path in sorted(Path.cwd().rglob("*.*")) if "__pycache__" not in path.parts] == before


def test_a_rate_that_is_far_too_fast_is_never_chosen(dpeer: Command, settings: Settings) -> None:
    flags = ("--task", settings.task, "--task-option", "regression=true", "--rounds", 2)
    ended = dpeer("tune", *flags, "--json", "--grid", "head-lr=0.1,1e30")
    found = json.loads(ended.out)
    assert (ended.code, found["complete"]) == (0, True)
    assert found["tried"][-1] == {"values": {"head_lr": 1e30}, "loss": None, "accuracy": None}
    assert found["chosen"] in [one["values"] for one in found["tried"][:-1]]
    ended = dpeer("tune", *flags, "--head-lr", 1e30, "--grid", "body-lr=0.1,1e30")
    assert ended.code == 1
    assert "dpeer: training diverged with every value: try smaller ones" in ended.err
    assert "For the federation file" not in ended.out


def test_the_rank_is_asked_for_where_ranks_differ_and_something_has_to_be_left_to_choose(
    dpeer: Command, in_tmp_path: Path
) -> None:
    ended = dpeer("tune", "--algorithm", "local", "--body-lr", 0.1)
    assert (ended.code, ended.err) == (2, "dpeer: nothing is left to choose for local: every rate is given\n")
    (in_tmp_path / "dpeer.toml").write_text("size = 3\n[rank.1]\nbatch_size = 8\n")
    ended = dpeer("tune")
    assert ended.code == 2
    assert "--rank is missing" in ended.err
    assert dpeer("tune", "--rank", 3).code == 2


def test_ctrl_c_ends_with_the_trials_so_far(
    dpeer: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def after() -> None:
        nonlocal count
        count += 1
        if count == 2:
            signal.raise_signal(signal.SIGINT)

    scripted(monkeypatch, lambda values: 1.0, after=after)
    before = signal.getsignal(signal.SIGINT)
    ended = dpeer("tune", "--task", settings.task)
    assert (ended.code, count) == (0, 2)
    assert "dpeer: stopped; what was tried is no choice yet" in ended.err
    assert "validation loss" in ended.out
    assert "best" not in ended.out
    assert "For the federation file" not in ended.out
    assert signal.getsignal(signal.SIGINT) is before
