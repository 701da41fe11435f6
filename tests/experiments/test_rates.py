"""Choosing rates for one peer by itself: the choice, its end, and what it leaves alone."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.experiments import rates
from dpeer.experiments.rates import Found, Rates, Tried
from dpeer.experiments.tuning import parse_axis
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

    monkeypatch.setattr(rates, "isolated", isolated)


def test_one_setting_after_the_other_each_at_the_best_of_those_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, lambda v: abs(v["body_lr"] - 0.01) + abs(v["head_lr"] - 0.03) + abs(v["rho"] - 0.2))
    found = chosen(settings)
    points = [tuple(one.values.values()) for one in found.tried]
    now = Settings()
    assert points == [
        (now.body_lr, now.head_lr, now.rho),
        *((rate, rate, now.rho) for rate in (0.003, 0.01, 0.03, 0.1) if rate != now.body_lr),
        *((0.01, rate, now.rho) for rate in (0.003, 0.03, 0.1)),
        *((0.01, 0.03, rho) for rho in (0.01, 0.05, 0.2) if rho != now.rho),
    ]
    assert found.complete
    assert found.best is not None
    assert found.best.values == {"body_lr": 0.01, "head_lr": 0.03, "rho": 0.2}
    assert found.at_edge == ["rho"]


def test_what_diverged_is_never_the_best_and_equals_leave_the_first(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, lambda v: float("inf") if v["body_lr"] > 0.02 else 1.0)
    found = chosen(settings, "body-lr=0.03,0.01,0.003")
    assert [one.diverged for one in found.tried] == [settings.body_lr > 0.02, True, False, False]
    assert found.best is not None
    assert found.best.values == {"body_lr": min(0.01, settings.body_lr)} or settings.body_lr <= 0.02
    scripted(monkeypatch, lambda v: float("inf"))
    assert chosen(settings, "body-lr=0.03,0.01").best is None


def test_what_is_given_and_what_means_nothing_are_not_tried(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, lambda v: v["body_lr"])
    given = settings.model_copy(update={"body_lr": 0.007})
    assert {*chosen(given, body_lr=0.007).tried[0].values} == {"head_lr", "rho"}
    alone = settings.model_copy(update={"algorithm": "local"})
    assert {*chosen(alone).tried[0].values} == {"body_lr"}
    optional = settings.model_copy(update={"algorithm_options": {"rho": 0.3}})
    assert {*chosen(optional, algorithm_options={"rho": 0.3}).tried[0].values} == {"body_lr", "head_lr"}


def test_adamw_has_rates_of_its_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, lambda v: v["body_lr"])
    found = chosen(settings.model_copy(update={"optimizer": "adamw"}))
    assert [one.values["body_lr"] for one in found.tried[:4]] == [0.001, 0.0003, 0.003, 0.01]
    found = chosen(settings.model_copy(update={"algorithm": "fedadamw"}))  # which takes its steps whatever is asked
    assert [one.values["body_lr"] for one in found.tried[:4]] == [0.0003, 0.001, 0.003, 0.01]


def test_a_task_without_validation_data_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigurationError) as refused:
        chosen(settings.model_copy(update={"task_options": {"validation": False}}))
    assert "no validation data to choose by" in str(refused.value)


def test_the_resolution_is_twice_the_standard_error() -> None:
    found = Found([Tried({}, 0.5, 0.9)], validation_samples=100)
    assert found.resolution == pytest.approx(2 * 0.03)
    assert Found([Tried({}, 0.5, None)], validation_samples=100).resolution is None


def test_the_edge_is_that_of_all_that_was_tried() -> None:
    points = [(0.2, 0.3), (0.1, 0.1), (0.3, 0.2), (0.2, 0.2)]
    tried = [Tried({"body_lr": body, "head_lr": head}, float(i), None) for i, (body, head) in enumerate(points)]
    assert Found(tried).at_edge == ["head_lr"]
    assert (
        Found([Tried({"sam": "body", "rho": 0.1}, 1.0, None), Tried({"sam": "both", "rho": 0.1}, 2.0, None)]).at_edge
        == []
    )


@pytest.mark.parametrize("algorithm", ["local", "dfedsmdc", "dis-pfl", "ditto"])
def test_every_kind_of_algorithm_can_be_tuned_alone(algorithm: str, settings: Settings, in_tmp_path: Path) -> None:
    before = sorted(in_tmp_path.rglob("*"))
    found = chosen(settings.model_copy(update={"algorithm": algorithm}), "body-lr=0.1,1e-6", rounds=3)
    assert found.best is not None
    assert found.best.values["body_lr"] != 1e-6, "next to nothing is learned with it"
    assert (found.training_samples, found.validation_samples) == (60, 60)
    assert [path for path in sorted(in_tmp_path.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_rate_that_is_far_too_fast_is_noticed(settings: Settings) -> None:
    found = chosen(settings.model_copy(update={"task_options": {"regression": True}}), "body-lr+head-lr=1e30,0.05")
    assert [one.diverged for one in found.tried if one.values["body_lr"] == 1e30] == [True]
    assert found.best is not None


def test_the_same_choice_again_has_the_same_bits(settings: Settings) -> None:
    assert chosen(settings, "body-lr=0.01,0.1").tried == chosen(settings, "body-lr=0.01,0.1").tried


def test_it_can_be_stopped(settings: Settings) -> None:
    made = Rates(settings, 0, 2, None, {})
    seen: list[Tried] = []

    def tell(tried: Tried) -> None:
        seen.append(tried)
        if len(seen) == 2:
            made.stop()

    found = made.run(tell)
    assert found.tried == seen
    assert len(seen) == 2
    assert not found.complete


def test_the_command_on_the_digits(dpeer: Command, in_tmp_path: Path) -> None:
    ended = dpeer("tune", "--task", "digits", "--size", 20, "--partition", "iid", "--rounds", 1, "--body-epochs", 2)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == ("rank 0, dfedsmdc on digits: 1 round alone on 58 samples, measured on 14 that were held out")
    table, _, rest = ended.out.partition("For the federation file:")
    assert "as it is" in table
    assert "best" in table
    written = {line.partition(" = ")[0] for line in rest.splitlines() if " = " in line}
    assert written == {"body_lr", "head_lr", "rho"}
    assert "must be equal on all peers" in rest
    assert not [*in_tmp_path.iterdir()], "nothing is written"


def test_json_has_what_was_tried_and_chosen(dpeer: Command, settings: Settings) -> None:
    flags = ("--task-option", "regression=true", "--rounds", 2, "--json")
    ended = dpeer("tune", "--task", settings.task, *flags, "--grid", "head-lr=0.1,1e30")
    found = json.loads(ended.out)
    assert ended.code == 0
    assert found["complete"]
    assert found["tried"][-1] == {"values": {"head_lr": 1e30}, "loss": None, "accuracy": None}
    assert found["chosen"] in [one["values"] for one in found["tried"]]


def test_training_that_always_diverges_is_an_error(dpeer: Command, settings: Settings) -> None:
    flags = ("--task-option", "regression=true", "--head-lr", 1e30, "--rounds", 2, "--grid", "body-lr=0.1,1e30")
    ended = dpeer("tune", "--task", settings.task, *flags)
    assert ended.code == 1
    assert "dpeer: training diverged with every value: try smaller ones" in ended.err
    assert "For the federation file" not in ended.out


def test_whose_data_they_are_has_to_be_said_where_ranks_differ(dpeer: Command, in_tmp_path: Path) -> None:
    (in_tmp_path / "dpeer.toml").write_text("size = 3\n[rank.1]\nbatch_size = 8\n")
    ended = dpeer("tune")
    assert ended.code == 2
    assert "--rank is missing" in ended.err
    assert dpeer("tune", "--rank", 3).code == 2


def test_nothing_left_to_choose(dpeer: Command) -> None:
    ended = dpeer("tune", "--algorithm", "local", "--body-lr", 0.1)
    assert ended.code == 2
    assert "nothing is left to choose for local" in ended.err


def test_ctrl_c_ends_with_what_was_tried(dpeer: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
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
