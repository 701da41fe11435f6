"""Exchange plans: times against a round played out, refusals against starts, and which one is recommended."""

import dataclasses
import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import DpeerError
from dpeer.federation.build import build
from dpeer.federation.config import load, resolve
from dpeer.federation.exchange_plans import (
    TRIED,
    WORTH,
    ExchangePlan,
    HomeWork,
    advice,
    exchange_plans,
    recommended,
    refusal,
    timed,
)
from dpeer.federation.settings import as_run

SECONDS = (0.0, 0.5, 1.0, 4.0)


@pytest.mark.parametrize(("train", "before", "after", "exchange"), [*itertools.product(SECONDS, repeat=4)])
def test_rounds_last_as_long_as_they_do_when_played(train: float, before: float, after: float, exchange: float) -> None:
    """Many rounds by the clock: bodies leave when training ends, and the next step begins when all of it is there."""
    home, rounds = HomeWork(train, before, after), 40
    plain, overlapped = (timed("float32", overlap, 100, exchange, home) for overlap in (0, 1))
    now = 0.0
    for _ in range(rounds):
        leaves = now + train
        now = max(leaves + before, leaves + exchange) + after
    assert rounds * plain.round_seconds == pytest.approx(now)
    now, leaves = train, train  # the first round is trained before anything travels
    for _ in range(rounds):
        trained = now + train
        now = max(trained, leaves + exchange) + after
        leaves = now
    assert rounds * overlapped.round_seconds == pytest.approx(now - train)
    assert plain.waits_seconds == pytest.approx(max(0.0, exchange - before))
    assert overlapped.waits_seconds == pytest.approx(max(0.0, exchange - train))


def plans(home: HomeWork, seconds: Mapping[str, float]) -> list[ExchangePlan]:
    return [
        timed(name, overlap, round(1000 * seconds[name]), seconds[name], home) for overlap in (0, 1) for name in seconds
    ]


LINE_A = {"float32": 8.9, "bfloat16": 4.5, "int8": 2.3, "int4": 1.2, "powersgd:4": 0.3, "topk:0.05": 0.45}
LINE_B = {name: 5 * seconds for name, seconds in LINE_A.items()}


def best_of(every: list[ExchangePlan], now: int = 0) -> ExchangePlan | None:
    return recommended(every[now], every)


def line(seconds: float) -> dict[str, float]:
    """A line on which a float32 body takes so long."""
    return {name: seconds * share / LINE_A["float32"] for name, share in LINE_A.items()}


@pytest.mark.parametrize(
    ("float32_seconds", "flags", "round_seconds"),
    [
        (1.5, "plain", None),  # 1.5 s of 6.5 s: less than a quarter
        (4.0, "--compress int8", 6.0),
        (8.9, "--compress int4", 6.2),  # int8 would wait 2.3 s of 7.3 s
        (16.0, "--overlap 1 --compress int8", 5.0),  # int4 would wait 2.2 s of 7.2 s
        (44.5, "--overlap 1 --compress int4", 6.0),  # overlapped int8 would wait 6.5 s of 11.5 s
        (90.0, "--overlap 1 --compress powersgd:4", 5.0),  # powersgd:4 alone would wait 3 s of 8 s
    ],
)
def test_the_gentlest_plan_that_takes_the_wait_off_is_recommended(
    float32_seconds: float, flags: str, round_seconds: float | None
) -> None:
    every = plans(HomeWork(5, 0, 0), line(float32_seconds))
    found = best_of(every)
    assert ("plain" if found is None else found.flags) == flags
    if found is not None:
        assert found.round_seconds == pytest.approx(round_seconds, abs=0.06)
        assert best_of(every, every.index(found)) is None, "with it nothing else is recommended"


def test_advice_in_words() -> None:
    every = plans(HomeWork(5, 0, 0), LINE_A)
    found = best_of(every)
    assert found is not None
    assert advice(every[0], found) == (
        "a round waits 8.9 s of 13.9 s for the line: --compress int4 would take about 6.2 s"
    )


def test_where_every_plan_waits_those_that_leave_out_more_have_to_save_a_fifth() -> None:
    every = plans(HomeWork(0.1, 0, 0), {"float32": 10.0, "int8": 2.5, "int4": 2.1, "topk:0.05": 2.09})
    found = best_of(every)
    assert found is not None
    assert (found.compress, found.overlap) == ("int8", 0)
    quick = plans(HomeWork(0.1, 0, 0), {"float32": 10.0, "int8": 2.5, "int4": 2.1, "topk:0.05": 1.5})
    found = best_of(quick)
    assert found is not None
    assert (found.compress, found.overlap) == ("topk:0.05", 0)
    assert found.round_seconds < WORTH * quick[1].round_seconds


def test_a_plan_that_saves_next_to_nothing_is_passed_over() -> None:
    """On a line of a long round trip codecs save little: 1.7 s of waiting of 6.7 s, and 1.6 s of 6.6 s."""
    found = best_of(plans(HomeWork(5, 0, 0), {"float32": 1.7, "int8": 1.6, "int4": 1.6}))
    assert found is not None
    assert (found.compress, found.overlap) == ("int8", 1)


def test_what_is_refused_is_never_recommended_and_a_fast_line_needs_nothing() -> None:
    for banned, overlap in itertools.product(range(2 ** len(LINE_B)), (0, 1, 2)):
        names = {name for bit, name in enumerate(LINE_B) if banned >> bit & 1}
        every = [
            dataclasses.replace(plan, refused="no" if plan.compress in names or plan.overlap == overlap else None)
            for plan in plans(HomeWork(5, 0, 0), LINE_B)
        ]
        found = best_of(every)
        assert found is None or (found.refused is None and found.compress not in names and found.overlap != overlap)
    quick = {name: seconds / 10 for name, seconds in LINE_A.items()}
    assert best_of(plans(HomeWork(5, 0, 0), quick)) is None, "0.9 s of 5.9 s"


def test_a_way_that_is_used_already_is_left_for_a_faster_one_alone() -> None:
    every = plans(HomeWork(1, 0, 0), LINE_B)
    now = every.index(next(plan for plan in every if (plan.compress, plan.overlap) == ("powersgd:4", 1)))
    assert best_of(every, now) is None


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "robust": {"robust": "clip:1"},
    "max-norm": {"max_norm": 5.0},
    "running sums": {"mixing": "running-sums"},
    "changing graph": {"topology": "one-peer-exponential"},
    "participation": {"participation": 0.5},
    "server sampling": {"participation": 0.5, "participation_mode": "server", "topology": "full"},
    "round budget": {"round_seconds": 1.0},
    "client": {"privacy": "client", "target_epsilon": 1000.0},
    "sample": {"privacy": "sample", "target_epsilon": 100.0, "records": 12},
    "masks": {"algorithm": "dis-pfl"},
    "extras": {"algorithm": "scaffold"},
    "changes the mix": {"algorithm": "fedopt"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_way_is_refused_where_a_start_with_it_is(name: str, in_tmp_path: Path, small_task: Path) -> None:
    Path("mine.py").write_text(small_task.read_text())
    given = {"size": 4, "rounds": 3, "body_epochs": 1, "alone": "never", "task": "mine.py:task", **SETTINGS[name]}

    def config(**more: Any) -> Any:
        return resolve(as_run(load(None, {**given, **more})).of_rank(1), 1)

    made = config()
    parts = build(made)
    now, every = exchange_plans(made, parts.learner, lambda size: size / 100, HomeWork(1, 0, 0))
    assert (now.compress, now.overlap, now.refused) == ("float32", 0, None)
    assert {(plan.compress, plan.overlap) for plan in every} == {
        (name, overlap) for name in TRIED for overlap in (0, 1)
    }
    before = parts.learner.manifest, parts.learner.payload_bytes
    for number, plan in enumerate(every):
        started = partial(build, config(compress=plan.compress, overlap=plan.overlap, out=Path(f"run-{number}")))
        if plan.refused is not None:
            with pytest.raises(DpeerError) as refused:
                started()
            assert str(refused.value) == plan.refused
        else:
            most = started().learner.payload_bytes
            assert plan.payload_bytes == most or (
                plan.payload_bytes < most and plan.compress.startswith(("topk", "power"))
            )
    assert (parts.learner.manifest, parts.learner.payload_bytes) == before
    assert refusal(made, parts.learner, now) is None
