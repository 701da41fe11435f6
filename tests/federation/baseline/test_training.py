"""How much time training alone may take beside a run, and what is said where that is too little."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.federation.baseline import training as module
from dpeer.federation.baseline.training import BaselineTraining


class Copy:
    """Rounds of ten steps, each of which takes a second of the clock."""

    def __init__(self, clock: "Clock", rounds: int = 4) -> None:
        self.clock, self.rounds, self.made, self.completed = clock, rounds, 0, 0
        self.steps = 10 * rounds
        self.fails: Exception | None = None
        self.saved: list[int] = []
        self.pace = 1.0

    @property
    def done(self) -> bool:
        return self.made == self.steps

    @property
    def between_rounds(self) -> bool:
        return self.made % 10 == 0

    def work(self, enough: Callable[[], bool]) -> None:
        if self.fails is not None:
            raise self.fails
        while not self.done:
            self.made += 1
            self.clock.now += self.pace
            self.completed = self.made // 10
            if enough():
                return

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


def never() -> bool:
    return False


def test_time_in_which_a_peer_waits_is_free_where_it_is_nobody_elses(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.0)
    beside.work(never)
    assert copy.done
    assert not beside.left
    assert finish(beside) == []
    assert beside.why is None


def test_where_it_is_not_nothing_is_trained_before_the_end(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.25, free=False)
    assert not beside.left
    clock.now = 400.0
    finish(beside)
    assert copy.done
    assert beside.why is None


def test_after_the_rounds_the_rest_is_trained_if_the_share_allows_it(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.25)
    beside.work(lambda: copy.made == 15)
    clock.now = 59.0
    assert finish(beside) == [], "25 seconds are more than the ten and the 14.75 that are allowed"
    assert beside.why is not None
    assert beside.why.startswith(
        "the rest of its training takes about 25.0 s, more than the 10 s and --alone-share 0.25 of the run's time"
    )
    assert (copy.made, copy.completed) == (15, 1), "nothing is begun that would not come to its end"


def test_a_longer_run_allows_more(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.25)
    beside.work(lambda: copy.made == 15)
    clock.now = 60.0
    assert finish(beside) == ["training the local-only baseline: about 25.0 s more; Ctrl-C puts it off"]
    assert copy.done
    assert beside.why is None


def test_what_the_first_look_takes_counts(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.25, free=False)
    clock.now = 119.0
    finish(beside)
    assert copy.made == 1, "39 more seconds after the first are more than 39.75 less that one"
    copy, clock.now = Copy(clock), 0.0
    beside = BaselineTraining(copy, share=0.25, free=False)
    clock.now = 124.0
    finish(beside)
    assert copy.done


def test_what_takes_longer_than_it_seemed_ends_when_the_time_is_over(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.0)
    beside.work(lambda: copy.made == 35)
    copy.pace = 4.0
    finish(beside)
    assert copy.made == 38, "twelve seconds: the minibatch in which the ten were over"
    assert beside.why is not None
    assert "more than the 10 s" in beside.why


@pytest.mark.parametrize(("seconds", "why"), [(400.0, True), (700.0, False)])
def test_peers_that_share_the_threads_of_a_process_share_the_time(clock: Clock, seconds: float, why: bool) -> None:
    beside = BaselineTraining(Copy(clock), share=0.25, free=False, part=0.25)
    clock.now = seconds
    finish(beside)
    assert (beside.why is not None) == why, "40 seconds are more than a quarter of 110, and less than one of 185"


def test_the_time_in_which_a_peer_waits_for_a_thread_is_not_the_runs(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, share=0.25, free=False)
    beside.end()
    clock.now = 400.0
    finish(beside)
    assert beside.why is not None


def test_always_is_always_and_ctrl_c_ends_it(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy, mode="always", share=0.0, free=False)
    finish(beside)
    assert copy.done
    other = BaselineTraining(Copy(clock), mode="always")
    finish(other, stopped=True)
    assert other.why == module.STOPPED


def test_a_failure_is_the_comparisons_alone(clock: Clock) -> None:
    copy = Copy(clock)
    beside = BaselineTraining(copy)
    copy.fails = MemoryError("no room")
    beside.work(never)
    assert beside.why == "MemoryError: no room"
    assert not beside.left
    assert finish(beside) == []


def test_what_was_trained_goes_on_when_the_run_is_resumed(clock: Clock, tmp_path: Path) -> None:
    folder, copy = tmp_path / "alone", Copy(clock)
    first = BaselineTraining(copy, folder=folder)
    first.take_up(resume=False)
    while copy.made < 37:
        first.work(lambda: True)
    assert copy.saved == [3], "not oftener than every half minute"
    second = Copy(clock)
    resumed = BaselineTraining(second, folder=folder)
    resumed.take_up(resume=True)
    assert (second.made, second.completed) == (30, 3)
    finish(resumed, stopped=True)
    assert folder.exists(), "it can be trained later"
    resumed = BaselineTraining(second, folder=folder)
    resumed.take_up(resume=True)
    finish(resumed)
    assert second.done
    assert not folder.exists()


def test_what_is_trained_later_is_saved_after_every_round(clock: Clock, tmp_path: Path) -> None:
    folder, copy = tmp_path / "alone", Copy(clock)
    later = BaselineTraining(copy, mode="always", folder=folder, save_every=0.0)
    later.finish(lambda: copy.made == 25, lambda line: None)
    assert copy.saved == [1, 2]
    assert [path.name for path in folder.iterdir()] == ["round-00000001"]


def test_a_state_beyond_the_rounds_of_a_run_that_ended_early_is_not_taken_up(clock: Clock, tmp_path: Path) -> None:
    kept = tmp_path / "alone" / "round-00000002"
    kept.mkdir(parents=True)
    (kept / "made").write_text("30")
    copy = Copy(clock, rounds=2)
    later = BaselineTraining(copy, mode="always", folder=tmp_path / "alone")
    later.take_up(resume=True)
    finish(later)
    assert (copy.completed, later.why) == (2, None)


def test_a_new_run_begins_anew_and_a_damaged_state_is_said(clock: Clock, tmp_path: Path) -> None:
    kept = tmp_path / "alone" / "round-00000002"
    kept.mkdir(parents=True)
    (kept / "made").write_text("30")
    copy = Copy(clock)
    BaselineTraining(copy, folder=tmp_path / "alone").take_up(resume=False)
    assert (copy.made, kept.exists()) == (0, False)
    kept.mkdir(parents=True)
    (kept / "made").write_text("?")
    beside = BaselineTraining(Copy(clock), folder=tmp_path / "alone")
    beside.take_up(resume=True)
    assert beside.why is not None
    assert "cannot be read" in beside.why
