"""The recommendation during a run: when a peer's rounds wait for the line, once, and by the rules of a start."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation import exchange_plans, serving, slow_line_advice
from dpeer.federation.build import build
from dpeer.federation.config import load, resolve
from dpeer.federation.exchange_plans import HomeWork
from dpeer.federation.serving import Stopper, serve
from dpeer.federation.settings import Settings, as_run
from dpeer.federation.slow_line_advice import SlowLine, SlowRounds, recommend
from tests.emulated_link import Line, free_port


def entry(train: float = 5.0, exchange: float = 9.0, receive: float = 8.9, hidden: float = 0.0, **more: Any) -> Any:
    return {
        "active": True, "heard": [0, 2], "bytes_received": 2000, "train_seconds": train, "exchange_seconds": exchange,
        "mix_seconds": 0.1, "receive_seconds": receive, "hidden_seconds": hidden, **more,
    }  # fmt: skip


def looked(*entries: Any) -> list[SlowRounds | None]:
    line = SlowLine()
    return [line.look(one) for one in entries]


def test_the_first_round_warms_up_and_the_medians_of_the_next_three_count_once() -> None:
    found = looked(
        entry(train=100), entry(receive=8.0), entry(train=6.0), entry(receive=9.5, exchange=9.6), *[entry()] * 5
    )
    assert [one is not None for one in found] == [False] * 3 + [True] + [False] * 5
    slow = found[3]
    assert slow is not None
    assert slow.home == HomeWork(5.0, 0.0, pytest.approx(0.1 + 9.0 - 8.9))
    assert (slow.waits, slow.receives, slow.payload_bytes) == (8.9, 8.9, 1000)


def test_waiting_for_slow_neighbors_is_no_waiting_for_the_line() -> None:
    assert looked(*[entry(receive=0.5)] * 8) == [None] * 8
    assert looked(*[entry(exchange=1.0, receive=8.0, hidden=7.5)] * 8) == [None] * 8, "hidden behind training"


def test_rounds_that_were_sat_out_or_alone_do_not_count() -> None:
    odd = [entry(active=False), entry(heard=[]), entry(active=False)]
    assert looked(*[entry(), *odd] * 2, *odd) == [None] * 11


def test_a_line_that_becomes_slow_is_found_later() -> None:
    found = looked(*[entry(receive=0.1, exchange=0.1)] * 6, *[entry()] * 3)
    assert [one is not None for one in found] == [False] * 7 + [True, False]


def test_lines_of_earlier_versions_show_nothing() -> None:
    old = {name: value for name, value in entry().items() if name not in ("receive_seconds", "hidden_seconds")}
    assert looked(*[old] * 6) == [None] * 6


SLOW = SlowRounds(HomeWork(5.0, 0.0, 0.1), 8.9, 8.9, 120.0)


@pytest.mark.parametrize(
    ("more", "flags"),
    [
        ({}, "--overlap 1 --compress int8"),
        ({"checkpoint_minutes": 1.0}, "--overlap 1 --compress int8"),
        ({"round_seconds": 2.5}, "--compress int8"),
        ({"robust": "clip:1"}, "--compress bfloat16"),
        ({"algorithm": "dis-pfl"}, None),
        ({"mixing": "running-sums"}, None),
        ({"privacy": "sample", "target_epsilon": 100.0, "records": 12}, "--compress int8"),
    ],
)  # fmt: skip
def test_what_is_recommended_would_not_be_refused(
    more: dict[str, Any], flags: str | None, in_tmp_path: Path, small_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_plans, "TRIED", ("float32", "bfloat16", "int8"))
    Path("mine.py").write_text(small_task.read_text())
    given = {"size": 4, "rounds": 3, "body_epochs": 1, "alone": "never", "task": "mine.py:task", **more}
    config = resolve(as_run(load(None, given)).of_rank(1), 1)
    found = recommend(config, build(config).learner, SLOW)
    assert (None if found is None else found[1].flags) == flags
    if flags == "--overlap 1 --compress int8" and found is not None:
        assert found[0].round_seconds == pytest.approx(14.0)
        assert found[1].round_seconds == pytest.approx(5.1)


def test_code_that_fails_costs_the_recommendation_alone(
    in_tmp_path: Path, small_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text(small_task.read_text())
    config = resolve(as_run(load(None, {"size": 4, "alone": "never", "task": "mine.py:task"})).of_rank(1), 1)
    learner = build(config).learner
    monkeypatch.setattr(type(learner), "check_exchange", lambda *_, **__: 1 / 0)
    assert recommend(config, learner, SLOW) is None


WIDE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from dpeer.training import Task


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.fc = nn.Linear(4, 8000), nn.Linear(8000, 2)

    def forward(self, x):
        return self.fc(self.conv1(x))


def task(rank, size, seed):
    data = TensorDataset(torch.randn(12, 4), torch.arange(12) % 2)
    return Task(model=Net(), head=("fc",), train=data, test=data)
"""


@pytest.fixture
def ports() -> Iterator[int]:
    return (free_port() for _ in itertools.count())


@pytest.mark.slow
def test_a_peer_on_a_slow_line_logs_it_once(in_tmp_path: Path, ports: Iterator[int], monkeypatch: Any) -> None:
    """Bodies of 160 kB take a quarter of a second at 640 kB/s, and training hardly any time."""
    monkeypatch.setattr(serving, "all_on_this_host", lambda network, size: False)  # but for the emulated line
    monkeypatch.setattr(slow_line_advice, "ROUNDS", 2)
    for module in (
        slow_line_advice,
        exchange_plans,
    ):  # training takes long on a busy host
        monkeypatch.setattr(module, "WAITING", 0.01)
    monkeypatch.setattr(exchange_plans, "WORTH", 1.0)
    Path("mine.py").write_text(WIDE)

    async def run() -> None:
        listens = next(ports)
        line = Line(listens, 0.005, 640_000)
        near = {0: f"tcp://127.0.0.1:{next(ports)}", 1: f"tcp://127.0.0.1:{await line.listen()}"}
        there = {**near, 1: f"tcp://127.0.0.1:{listens}"}

        async def peer(rank: int, addresses: dict[int, str]) -> None:
            (Path("run") / f"rank-{rank}").mkdir(parents=True)

            async def meet(bound: str | None) -> dict[int, str]:
                return addresses

            settings = Settings(
                size=2, task="mine.py:task", rounds=7, body_epochs=1, alone="never", threads=1, out=Path("run")
            )
            settings = as_run(settings).of_rank(rank)
            await serve(settings, rank, listen=there[rank], meet=meet, stopper=Stopper(), resume=False)

        await asyncio.gather(peer(0, near), peer(1, there))
        await line.close()

    asyncio.run(run())
    for rank in (0, 1):
        folder = Path("run") / f"rank-{rank}"
        records = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
        assert all(one["receive_seconds"] >= 0.2 for one in records), "no body can come faster"
        assert all(0 <= one["hidden_seconds"] <= one["receive_seconds"] for one in records)
        events = [json.loads(text) for text in (folder / "log.jsonl").read_text().splitlines()]
        (found,) = [one for one in events if one["event"] == "slow-line"]
        assert found["message"].startswith("a round waits ")
        assert found["expected_seconds"] < found["round_seconds"]
        assert (found["compress"], found["overlap"]) != ("float32", 0)
