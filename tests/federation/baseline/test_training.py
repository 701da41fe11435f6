"""How much time the local-only baseline may take after a run, and what is said where that is too little."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.federation.baseline import training as module
from dpeer.federation.baseline.training import AllOrNone, BaselineTraining


class Copy:
    """Rounds of ten steps, each of which takes a second of the clock."""

    def __init__(self, clock: "Clock", rounds: int = 4) -> None:
        self.clock, self.rounds, self.made, self.completed = clock, rounds, 0, 0
        self.steps = 10 * rounds
        self.fails: Exception | None = None
        self.saved: list[int] = []
        self.paces: dict[int, float] = {}

    @property
    def done(self) -> bool:
        return self.completed == self.rounds

    def train_round(self, enough: Callable[[], bool]) -> bool:
        if self.fails is not None:
            raise self.fails
        for _ in range(10):
            self.made += 1
            self.clock.now += self.paces.get(self.made, 1.0)
            if enough():
                return False
        self.completed += 1
        return True

    def save(self, directory: Path) -> None:
        self.saved.append(self.completed)
        (directory / "made").write_text(str(self.made))

    def load(self, directory: Path, completed: int) -> None:
        self.made, self.completed = int((directory / "made").read_text()), completed


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module.time, "monotonic", lambda: made.now)
    return made


def finish(beside: BaselineTraining, stopped: bool = False) -> list[str]:
    told: list[str] = []
    beside.finish(lambda: stopped, told.append)
    return told


def test_it_is_trained_after_the_rounds_if_the_share_allows_it(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, limit=AllOrNone())
    clock.now = 124.0
    assert finish(beside) == ["training the local-only baseline: about 39.0 s more; Ctrl-C puts it off"]
    assert copy.done
    assert beside.why is None


def test_nothing_goes_on_that_would_not_come_to_its_end(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, limit=AllOrNone())
    clock.now = 119.0
    assert finish(beside) == [], "40 seconds are more than the ten and the 29.75 that are allowed"
    assert beside.why is not None
    assert beside.why == (
        "training the peer alone takes about 40.0 s, more than the 39.8 s by which the run may end later (10 s and "
        "25% of its time)"
    )
    assert (copy.made, copy.completed) == (1, 0)


def test_all_peers_of_a_process_are_trained_or_none(clock: Clock) -> None:
    few, copies = AllOrNone(5, 2), [Copy(clock) for _ in range(5)]
    peers = [BaselineTraining(copy, limit=few) for copy in copies]
    clock.now = 400.0
    for one in peers:
        one.end()
        finish(one)
    assert [copy.made for copy in copies] == [1, 0, 0, 0, 0], "the first one decides"
    assert {one.why for one in peers} == {
        "training 5 peers alone takes about 2 min, more than the 1 min 50 s by which the run may end later (10 s "
        "and 25% of its time)"
    }, "three take their turns in a thread, of 40 seconds each"
    assert all(one.refused for one in peers)


STOPPED = {"why": module.STOPPED, "rounds": 1, "planned": 4}


def test_always_is_always_and_ctrl_c_ends_it(clock: Clock) -> None:
    copy = Copy(clock)
    finish(BaselineTraining(copy))
    assert copy.done
    other = BaselineTraining(Copy(clock))
    finish(other, stopped=True)
    assert other.why == module.STOPPED


def test_a_failure_is_the_comparisons_alone(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy)
    copy.fails = MemoryError("no room")
    assert finish(beside) == []
    assert beside.why.startswith("MemoryError: no room (")


def test_what_was_trained_is_saved_now_and_then_and_goes_on_later(clock: Clock, tmp_path: Path) -> None:
    folder, copy = tmp_path / "alone", Copy(clock, rounds=8)
    first = BaselineTraining(copy, folder=folder)
    first.finish(lambda: copy.made == 75, lambda line: None)
    assert copy.saved == [3, 6], "not oftener than every half minute"
    (saved,) = folder.glob("checkpoint/*")
    assert saved.name == "round-00000005"
    second = Copy(clock, rounds=8)
    finish(BaselineTraining(second, folder=folder), stopped=True)
    assert (second.made, second.completed) == (60, 6)
    (state,) = saved.glob("learner/made")
    state.write_text("61")
    damaged = BaselineTraining(Copy(clock, rounds=8), folder=folder)
    assert finish(damaged) == []
    assert damaged.why == f"{str(saved)!r} cannot be read: remove it, and `dpeer worth` trains anew"
    state.write_text("60")
    finish(BaselineTraining(second, folder=folder))
    assert second.done
    assert not folder.exists()
