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
            self.pace.phase(gradients)
            for index, one in enumerate(seconds):
                began = self.now
                self.now += one
                self.pace.stepped(sizes[index] if sizes else 32, began)
        self.pace.end(self.round)
        self.round += 1


ROUNDS: dict[str, tuple[list[list[list[float]]], list[int]]] = {
    "short steps; a busy moment later on changes nothing": (
        [[[0.05] + [SHORT / 2] * 10, [SHORT / 2] * 10], [[LONG] * 10, [LONG] * 10]], [1],
    ),
    "long steps, from the fourth on": ([[[LONG] * 10], [[LONG] * 10]], [1, MOST]),
    "a phase of long steps": ([[[SHORT / 2] * 10, [LONG] * 10]], [1, MOST]),
    # The first loads what later ones find ready; others wait for a core.
    "single slow steps": ([[[10 * SHORT, LONG, LONG, SHORT / 2, LONG, LONG]]], [1]),
    "a first step of a tenth of a second": ([[[0.2, 0.2]]], [1, MOST]),
    "a long step a round: three rounds decide": ([[[SHORT / 2], [LONG]]] * 6, [1, 1, 1, MOST]),
    "a short step a round: the first of all does not count": ([[[SHORT / 2], [SHORT / 2]]] * 6, [1] * 4),
    "loops of an algorithm's own": ([[]], [1, MOST]),
}  # fmt: skip


@pytest.mark.parametrize("case", ROUNDS)
def test_the_threads_follow_from_the_steps(case: str) -> None:
    peer, (rounds, threads) = Peer(), ROUNDS[case]
    for phases in rounds:
        peer.train(*phases)
    assert peer.threads == threads
    assert (peer.pace.last is None) == (rounds == [[]])
    set_by_the_user = Peer(None)
    set_by_the_user.train(*rounds[0])
    assert set_by_the_user.threads == []


def test_steps_of_two_gradients_may_take_twice_as_long() -> None:
    short, long = Peer(), Peer()
    short.train([1.9 * SHORT] * 10, gradients=2)
    long.train([2.1 * SHORT] * 10, gradients=2)
    assert (short.threads, long.threads) == ([1], [1, MOST])


def test_a_round_is_held_against_the_fastest_step_of_each_phase_and_size() -> None:
    peer = Peer()
    peer.train([9.0, 1.0, 2.0, 0.5], [4.0, 4.0, 0.1], sizes=(32, 32, 32, 7))
    assert (last := peer.pace.last) is not None
    assert (last.number, last.steps) == (0, 6)
    assert last.seconds == pytest.approx(11.6)
    assert last.quiet_seconds == pytest.approx(2 * 1.0 + 0.5 + 3 * 0.1), "7 samples are no full batch, where 32 are"


@pytest.mark.usefixtures("one_thread")
def test_a_learner_times_every_step_but_its_first() -> None:
    h = Hyperparameters(batch_size=16)
    ours, plain = (
        build_learner(small_task(0), "dfedmdc", h, rank=0, seed=1, pace=one) for one in (StepPace(MOST), None)
    )
    loss = ours.train(0)
    assert ours.figures.pace.steps == sum(ours.figures.steps) - 1
    assert 0 < ours.figures.pace.quiet_seconds <= ours.figures.pace.seconds
    assert torch.get_num_threads() == ours.figures.pace.threads == 1
    assert loss == plain.train(0), "and it changes no bit"
