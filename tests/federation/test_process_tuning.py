"""A peer's process: its share of the cores, advice where others use them, and memory that is never collected."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import pytest

from dpeer.federation import process_tuning
from dpeer.federation.process_tuning import SLOW, SlowSteps, freeze_heap, share_of_cores
from dpeer.federation.settings import Settings
from dpeer.training.step_pace import RoundPace

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def pace(number: int, times: float, used: int = 2) -> RoundPace:
    return RoundPace(number, 24, times * 0.25, 0.25, used)


def test_a_round_of_slow_steps_says_what_to_try_once() -> None:
    looks = SlowSteps()
    assert looks.look(None) is None
    assert looks.look(pace(0, SLOW - 1)) is None
    assert looks.look(pace(1, 20)) == (
        "round 1: 24 steps took 5.0 s, and take 250 ms in a quiet moment: other programs use this host's cores; try "
        "--threads 1 (now 2), or fewer programs beside dpeer"
    )
    assert looks.look(pace(2, 20)) is None
    assert SlowSteps().look(RoundPace(0, 5, 0.5, 0.003, 2)) is None, "half a second is nothing to advise about"
    assert looks.look(pace(3, 1)) is None
    assert "of its own (taskset)" in (looks.look(pace(4, SLOW, used=1)) or "")


@pytest.mark.parametrize(
    ("ranks", "share"),
    [
        ({}, 2), ({0: {"address": "tcp://127.0.0.1:1"}, 1: {"address": "tcp://localhost:2"}}, 2),
        ({0: {"address": "tcp://127.0.0.1:1"}, 1: {"address": "tcp://peer.invalid:2"}}, 6),
    ],
)  # fmt: skip
def test_peers_of_one_host_share_its_cores(monkeypatch: pytest.MonkeyPatch, ranks: dict[int, Any], share: int) -> None:
    monkeypatch.setattr(process_tuning, "own_cores", lambda: list(range(6)))
    assert share_of_cores(Settings.model_validate({"size": 3, "rank": ranks}), 3) == share
    assert share_of_cores(Settings(), 8) == 1


MODULE = "runpy.run_module('dpeer', run_name='__main__')"


@pytest.mark.parametrize(
    ("entry", "given"),
    [(MODULE, {}), ("import dpeer", {}), ("import dpeer", {"OMP_WAIT_POLICY": "ACTIVE"}),
     ("import dpeer", {"GOMP_SPINCOUNT": "7"}), ("import dpeer", {"KMP_BLOCKTIME": "3"})],
)  # fmt: skip
def test_threads_wait_asleep_unless_the_user_has_set_how(entry: str, given: dict[str, str]) -> None:
    """Found in the environment, which each process that dpeer starts inherits."""
    program = (
        "import atexit, os, runpy, sys; sys.argv = ['dpeer', '--version']; "
        f"atexit.register(lambda: print([os.environ.get(name) for name in {WAITING}])); {entry}"
    )
    clean = {name: value for name, value in os.environ.items() if name not in WAITING}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=clean | given, capture_output=True, text=True, check=True
    )
    expected = [given.get(name) for name in WAITING] if given else ["PASSIVE", "2000", None]
    assert ended.stdout.splitlines()[-1] == repr(expected)


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_a_frozen_heap_is_collected_first_and_searched_no_more() -> None:
    gc.disable()
    try:
        lost, kept = weakref.ref(Cycle()), Cycle()
        assert lost() is not None
        freeze_heap()
        assert lost() is None
        assert gc.get_freeze_count() > 1000
        assert not any(one is kept for one in gc.get_objects())
        later = weakref.ref(Cycle())
        gc.collect()
        assert later() is None
    finally:
        gc.enable()
