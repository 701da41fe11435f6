"""From settings to what a run promises a single record."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpeer
from dpeer.exceptions import BudgetTooSmall, CheckpointError, ConfigurationError
from dpeer.federation.build import task_of
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.privacy import Charge, PeerData, PrivacyConfig, SampleSession, SampleTerms
from dpeer.privacy.accounting import total_epsilon
from dpeer.privacy.guarantee import Phase

pytestmark = pytest.mark.slow

PHASES = (Phase("model", 20),)


def asked(**values: Any) -> Settings:
    return Settings(**{"privacy": "sample", "target_epsilon": 8.0, **values})


def config(**values: Any) -> PrivacyConfig:
    return resolve(asked(**values), 0).protected


def opened(
    folder: Path, units: int, phases: Any = PHASES, *, resume: bool = False, left: int | None = None, **values: Any
) -> SampleSession:
    return SampleTerms(config(**values), folder, PeerData(records=units), resume, left).open(phases)


def test_the_number_of_records_is_what_is_said_or_a_power_of_two() -> None:
    def terms(units: int, **values: Any) -> SampleTerms:
        return SampleTerms(config(**values), Path("nowhere"), PeerData(records=units))

    assert [terms(units).nominal_units for units in (1, 3, 90, 91, 1000, 1500)] == [1, 4, 64, 128, 1024, 2048]
    assert terms(1234, records=2000).nominal_units == 2000
    for units in (1, 5, 77, 1448, 99_999):
        assert 0.7 < terms(units).nominal_units / units < 1.42
    assert (terms(50_000).delta, terms(50_000).rate) == (0.1 / 65_536, 32 / 65_536)


@pytest.mark.parametrize("unit", ["record", "group"])
def test_of_data_of_its_own_a_peer_must_say_about_how_many_there_are(unit: Any, tmp_path: Path) -> None:
    data = PeerData(records=91, groups=range(91), own=True)
    with pytest.raises(ConfigurationError):
        SampleTerms(config(privacy_unit=unit), tmp_path, data)
    SampleTerms(config(privacy_unit=unit, records=100), tmp_path, data)
    SampleTerms(config(privacy_unit=unit), tmp_path, replace(data, own=False))


def test_a_delta_that_promises_nothing_to_the_records_there_are_is_refused(tmp_path: Path) -> None:
    def notes(units: int, **values: Any) -> str:
        return "\n".join(opened(tmp_path, units, rounds=2, noise_multiplier=4.0, **values).notes(50))

    assert "choose" not in notes(50)
    assert "choose" in notes(50, delta=0.005)
    with pytest.raises(ConfigurationError):
        notes(50, delta=0.02)
    assert "4 times as long" in notes(400, records=100)


def test_steps_with_two_gradients_have_the_noise_that_they_need(tmp_path: Path) -> None:
    phases = (Phase("head", 5), Phase("body", 10, looks=2))
    made = opened(tmp_path, 2000, phases, batch_size=100, records=2000, rounds=4)
    noise = made.guarantee.noise_multiplier
    both = [Charge(0.05, noise, 20), Charge(0.05, noise / 2**0.5, 40)]
    assert total_epsilon(both, 1e-5) <= 8.0
    assert made.epsilon(4) == pytest.approx(total_epsilon(both, 1e-5))


def test_a_budget_into_which_no_round_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetTooSmall):
        opened(tmp_path, 400, noise_multiplier=0.3, target_epsilon=1.0, rounds=3)


def test_charges_go_on_as_long_as_the_budget_allows(tmp_path: Path) -> None:
    first = opened(tmp_path / "p", 400, noise_multiplier=2.0, target_epsilon=1.5, rounds=9)
    while first.charge(0, 20):
        pass
    assert first.epsilon() <= 1.5 < first.epsilon(1)


def test_a_resumed_run_promises_what_its_remaining_rounds_come_to(tmp_path: Path) -> None:
    settings = {"noise_multiplier": 2.0, "target_epsilon": 1.5, "records": 400, "batch_size": 16}
    steps = sum(phase.steps for phase in PHASES)
    first = opened(tmp_path, 400, rounds=8, **settings)
    for number in range(5):
        assert first.charge(number, steps) == steps
    again = opened(tmp_path, 400, rounds=8, left=3, resume=True, **settings)
    assert (again.planned, again.rounds) == (3, 3)
    assert again.epsilon(3) == pytest.approx(first.epsilon(3))
    notes = again.notes(50)
    assert f"after {8 * steps:,} steps" in notes[0]
    assert not any("is sent again" in note for note in notes)
    more = opened(tmp_path, 400, rounds=80, left=75, resume=True, **settings)
    assert 3 < more.rounds < 75
    (message,) = (note for note in more.notes(50) if "is sent again" in note)
    assert f"allows {more.rounds} more rounds" in message


TASK = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from dpeer.training import Task

def task(rank, size, seed, count=40):
    torch.manual_seed(rank + 1)
    data = TensorDataset(torch.randn(count, 4), torch.arange(count) % 2)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    return Task(model=model, head=("2",), train=data, test=data, groups=[n // 4 for n in range(count)])
"""


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "mine.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return {"size": 2, "task": "mine.py:task", "rounds": 3, "body_epochs": 1, "out": tmp_path / "run"}


def spent(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"rank-{rank}" / "summary.json").read_text())["privacy"]
    return found


@pytest.mark.parametrize("change", [{"privacy": "none"}, {"dp_head": "alternate"}])
def test_a_run_is_not_gone_on_with_in_another_way(change: dict[str, Any], federation: dict[str, Any]) -> None:
    private = federation | {"privacy": "sample", "noise_multiplier": 2.0, "records": 32}
    dpeer.run(dpeer.Settings(**private), mode="simulate")
    other = private | {"rounds": 5} | change
    if change == {"privacy": "none"}:
        other.pop("noise_multiplier")
    with pytest.raises((CheckpointError, ConfigurationError)):
        dpeer.run(dpeer.Settings(**other), mode="simulate", resume=True)


@pytest.mark.parametrize(
    ("settings", "trained"),
    [
        ({}, True),
        ({"finish": "none"}, False),
        ({"finish": "all:1"}, True),
        ({"finish": "none", "algorithm": "fedbabu"}, False),
        ({"finish": "none", "dp_head": "joint"}, False),
    ],
)
def test_a_model_is_private_if_nothing_trains_at_home(settings: dict[str, Any], trained: bool, tmp_path: Path) -> None:
    assert opened(tmp_path, 32, records=32, **{"dp_head": "post", **settings}).terms.at_home is trained


def test_peers_of_different_size_say_the_same(federation: dict[str, Any], tmp_path: Path) -> None:
    """Each has its own noise and epsilon, and they train together all the same."""
    ranks = {0: {"task_options": {"count": 30}, "records": 32}, 1: {"task_options": {"count": 200}, "records": 256}}
    settings = dpeer.Settings(**federation, privacy="sample", target_epsilon=5.0, batch_size=16, rank=ranks)
    dpeer.run(settings, mode="simulate")
    small, large = spent(tmp_path / "run", 0), spent(tmp_path / "run", 1)
    assert small["sampling_rate"] == 16 / 32
    assert large["sampling_rate"] == 16 / 256
    assert small["noise_multiplier"] != large["noise_multiplier"]
    assert max(small["epsilon"], large["epsilon"]) <= 5.0


def test_an_epsilon_beyond_computing_is_said_as_without_end_and_ends_no_run(tmp_path: Path) -> None:
    little = {"target_epsilon": None, "noise_multiplier": 0.01, "batch_size": 100, "records": 2000}
    made = opened(tmp_path, 2000, rounds=20, **little)
    assert made.charge(0, 20) == 20
    with pytest.raises(ConfigurationError):
        made.epsilon()
    assert made.spent()["epsilon"] == float("inf")


def test_a_row_more_in_a_table_changes_what_is_trained_on_by_that_row_alone(tmp_path: Path) -> None:
    def trained(rows: int, **values: Any) -> set[float]:
        path = tmp_path / f"{rows}.csv"
        path.write_text("\n".join(["a,sick", *(f"{number},{number % 2}" for number in range(rows))]))
        options = {"path": str(path), "target": "sick", "columns": ["a"], "classes": ["0", "1"]}
        asked = Settings(task="csv", task_options=options, size=2, standardize=False, **values)
        task = task_of(resolve(asked, 0))
        return set(task.train.tensors[0].flatten().tolist())

    private = {"privacy": "sample", "noise_multiplier": 1.0}
    assert trained(300, **private) ^ trained(301, **private) <= {300.0}
    assert len(trained(300) ^ trained(301)) > 1, "otherwise exactly a fifth of each class"
