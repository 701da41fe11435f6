"""The threads that train: one for short steps, all for long ones; and the pace of a round beside its fastest steps."""

from collections.abc import Sequence

import pytest
import torch

from dpeer.training import Hyperparameters, build_learner
from dpeer.training.step_pace import SHORT, StepPace
from tests.training.small import small_task

LONG = 3 * SHORT
MOST = 8


class Peer:
    """A peer whose steps take as long as a test says, and the threads that it has set."""

    def __init__(self, most: int | None = MOST) -> None:
        self.now, self.threads, self.round = 100.0, list[int](), 0
        self.pace = StepPace(most, lambda: self.now, self.threads.append)

    def train(self, *phases: Sequence[float], sizes: Sequence[int] = (), gradients: int = 1) -> None:
        """A round of phases, each with the seconds of its steps."""
        self.pace.begin()
        for seconds in phases:
            phase = self.pace.phase(gradients)
            for index, one in enumerate(seconds):
                began = self.now
                self.now += one
                self.pace.stepped(phase, sizes[index] if sizes else 32, began)
        self.pace.end(self.round)
        self.round += 1


def test_one_thread_trains_a_model_of_short_steps() -> None:
    peer = Peer()
    peer.train([0.05] + [SHORT / 2] * 10, [SHORT / 2] * 10)
    peer.train([LONG] * 10, [LONG] * 10)
    assert peer.threads == [1], "chosen once: a busy moment later on changes nothing"


def test_all_threads_train_a_model_of_long_steps_from_the_fourth_on() -> None:
    peer = Peer()
    peer.train([LONG] * 10)
    assert peer.threads == [1, MOST]
    peer.train([LONG] * 10)
    assert peer.threads == [1, MOST]


def test_a_phase_of_long_steps_is_enough() -> None:
    peer = Peer()
    peer.train([SHORT / 2] * 10, [LONG] * 10)
    assert peer.threads == [1, MOST]


def test_steps_of_two_gradients_may_take_twice_as_long() -> None:
    short, long = Peer(), Peer()
    short.train([1.9 * SHORT] * 10, gradients=2)
    long.train([2.1 * SHORT] * 10, gradients=2)
    assert (short.threads, long.threads) == ([1], [1, MOST])


def test_single_slow_steps_make_no_model_long() -> None:
    """The first loads what later ones find ready; others wait for a core."""
    peer = Peer()
    peer.train([10 * SHORT, LONG, LONG, SHORT / 2, LONG, LONG])
    assert peer.threads == [1]


def test_a_first_step_of_a_tenth_of_a_second_decides_alone() -> None:
    peer = Peer()
    peer.train([0.2, 0.2])
    assert peer.threads == [1, MOST]


def test_with_a_step_a_round_three_rounds_decide() -> None:
    long, short = Peer(), Peer()
    for _ in range(6):
        long.train([SHORT / 2], [LONG])
        short.train([SHORT / 2], [SHORT / 2])
    assert long.threads == [1, 1, 1, MOST]
    assert short.threads == [1, 1, 1, 1], "the first step of all does not count"


def test_an_algorithm_with_loops_of_its_own_has_all_threads() -> None:
    peer = Peer()
    peer.train()
    assert peer.threads == [1, MOST]
    assert peer.pace.last is None


def test_threads_that_the_user_has_set_stay() -> None:
    peer = Peer(None)
    peer.train([LONG] * 10)
    assert peer.threads == []


def test_a_round_is_held_against_the_fastest_full_batch_of_each_phase() -> None:
    peer = Peer()
    peer.train([9.0, 1.0, 2.0, 0.5], [4.0, 4.0, 0.1], sizes=(32, 32, 32, 7))
    assert (last := peer.pace.last) is not None
    assert (last.number, last.steps) == (0, 6)
    assert last.seconds == pytest.approx(11.6)
    assert last.quiet_seconds == pytest.approx(3 * 1.0 + 3 * 0.1), "7 samples are no full batch, where 32 are"


@pytest.mark.usefixtures("one_thread")
def test_a_learner_times_every_step_but_its_first() -> None:
    h = Hyperparameters(batch_size=16)
    ours, plain = (
        build_learner(small_task(0), "dfedmdc", h, rank=0, seed=1, pace=one) for one in (StepPace(MOST), None)
    )
    loss = ours.train(0)
    assert ours.figures.pace is not None
    assert ours.figures.pace.steps == sum(ours.figures.steps) - 1
    assert 0 < ours.figures.pace.quiet_seconds <= ours.figures.pace.seconds
    assert torch.get_num_threads() == ours.figures.pace.threads == 1
    assert loss == plain.train(0), "and it changes no bit"
