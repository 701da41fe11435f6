"""The steps of a round under a budget: by a clock, as a share, as recorded; and every algorithm keeps to it."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
import torch

from dpeer.exceptions import ConfigurationError
from dpeer.training import ALGORITHMS, Algorithm, TorchLearner, Trainer, build_learner
from dpeer.training.step_budget import StepBudget
from tests.training.algorithm_cases import ROW, peers
from tests.training.reference_training import Plain
from tests.training.small import small_task
from tests.training.test_fit import RANK, SEED, assert_close, learner


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(
    budget: StepBudget, clock: Clock, phases: Iterable[tuple[int, float, float]], gradients: float, **limits: Any
) -> list[int]:
    """A round of phases, each with its steps, gradients and the seconds of a step; the steps that are taken."""
    budget.begin()
    with budget.limiting(gradients, **limits):
        for asked, weight, seconds in phases:
            more = budget.phase(asked, weight)
            for _ in range(asked):
                if not more():
                    break
                clock.now += seconds
    return budget.taken


HEAD, BODY = (100, 10, 0.1), (50, 5, 0.4)
"""Ten head epochs of a tenth of a second a step, and five body epochs of four tenths: 30 seconds."""


def test_without_a_limit_all_steps_are_taken_and_counted() -> None:
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [HEAD, BODY], 15) == [100, 50] == budget.asked


def test_in_a_first_round_time_is_divided_by_gradients_then_by_the_time_that_phases_take() -> None:
    """Half of the time shortens both phases to a half, once their steps have been timed."""
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [HEAD, BODY], 15, seconds=15.0) == [pytest.approx(100, abs=1), pytest.approx(12, abs=1)]
    for _ in range(3):
        assert run(budget, clock, [HEAD, BODY], 15, seconds=15.0) == [
            pytest.approx(50, abs=1), pytest.approx(25, abs=1),
        ]  # fmt: skip


def test_it_follows_a_peer_that_becomes_slower_and_quick_again() -> None:
    budget = StepBudget(clock=(clock := Clock()))
    slow = [(100, 10, 0.5), (50, 5, 2.0)]
    found = [
        run(budget, clock, phases, 15, seconds=30.5)
        for phases in ([HEAD, BODY], [HEAD, BODY], slow, slow, [HEAD, BODY], [HEAD, BODY])
    ]
    assert found[1] == [100, 50]
    assert found[3] == [pytest.approx(20, abs=1), pytest.approx(10, abs=1)], "each phase to a fifth"
    assert found[5] == [100, 50]


@pytest.mark.parametrize("seconds", [0.001, 0.4, 3.0, 9.99, 25.0])
def test_no_budget_is_exceeded_by_more_than_the_first_steps(seconds: float) -> None:
    budget = StepBudget(clock=(clock := Clock()))
    for _ in range(3):
        began = clock.now
        taken = run(budget, clock, [HEAD, BODY], 15, seconds=seconds)
        assert min(taken) >= 1
        assert clock.now - began <= seconds + 0.5 + 1e-9


def test_a_step_that_would_end_late_does_not_begin() -> None:
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [(9, 1, 30.0)], 1, seconds=40.0) == [1]
    assert run(budget, clock, [(9, 1, 30.0)], 1, seconds=60.0) == [2]


def test_an_algorithm_that_states_too_few_gradients_still_trains_each_phase() -> None:
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [HEAD, BODY], 5, seconds=5.0) == [50, 1]
    assert run(budget, clock, [HEAD, BODY], 5, seconds=15.0)[1] == pytest.approx(25, abs=1), "timed by now"


@pytest.mark.parametrize(("share", "taken"), [(0.0, [1, 1]), (0.2, [20, 10]), (0.29, [29, 14]), (1.0, [100, 50])])
def test_a_share_is_of_each_phase(share: float, taken: list[int]) -> None:
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [HEAD, BODY], 15, seconds=1e-9, share=share) == taken


def test_recorded_steps_are_taken_whatever_the_time() -> None:
    budget = StepBudget(clock=(clock := Clock()))
    assert run(budget, clock, [HEAD, BODY], 15, seconds=1e-9, recorded=[7, 50]) == [7, 50]


@pytest.mark.parametrize("recorded", [[3], [3, 4, 5], [101, 4]])
def test_steps_of_another_round_are_refused(recorded: list[int]) -> None:
    budget = StepBudget(clock=(clock := Clock()))
    with pytest.raises(ConfigurationError, match="recorded with steps"):
        run(budget, clock, [HEAD, BODY], 15, recorded=recorded)


def test_the_device_has_done_its_work_when_time_is_taken() -> None:
    clock = Clock()
    queue: list[float] = []

    def drain() -> None:
        clock.now += sum(queue)
        queue.clear()

    budget = StepBudget(drain, clock)
    budget.begin()
    with budget.limiting(1, seconds=10.0):
        more = budget.phase(100, 1)
        while more():
            queue.append(1.0)  # a step is given to the device at once
    assert budget.taken == [10]


# -- learners ----------------------------------------------------------------------------------------------------------


def ticking(ours: TorchLearner, seconds: float) -> Clock:
    """Have each gradient of the learner take so many seconds of a clock."""
    clock, computed = Clock(), ours.trainer.computed

    def slowly(samples: int) -> None:
        clock.now += seconds
        computed(samples)

    ours.trainer.computed = slowly
    ours.trainer.budget = StepBudget(clock=clock)
    return clock


def test_the_round_ends_between_two_minibatches_and_has_the_bits_of_so_many_steps() -> None:
    task = small_task(RANK)
    theirs, ours = Plain(task, RANK, SEED), learner(task, "dfedmdc", body_epochs=3, head_epochs=6)
    ticking(ours, 1.0)
    ours.train(0, seconds=18.5)  # of 36
    assert (ours.steps, ours.steps_asked) == ([12, 6], [24, 12])
    theirs.run("head", 12, 0.2, part="fc")
    theirs.run("body", 6, part="body")
    assert_close(ours.trainer, theirs)


def test_the_loss_is_that_of_the_steps_that_were_taken() -> None:
    whole, cut = (learner(small_task(RANK), body_epochs=1, body_lr=1e-12) for _ in range(2))
    ticking(cut, 1.0)
    assert cut.train(0, seconds=2.0) == pytest.approx(whole.train(0, recorded=[2]), rel=1e-6)
    assert cut.steps == [2]


def test_local_steps_are_the_most_that_a_budget_allows() -> None:
    ours = learner(small_task(RANK), "dfedmdc", body_epochs=2, head_epochs=4, local_steps=5)
    ticking(ours, 1.0)
    ours.train(0, seconds=1e9)
    assert ours.steps == ours.steps_asked == [10, 5]
    ours.train(1, seconds=9.5)
    assert ours.steps == [6, 3]


def test_what_is_trained_after_the_rounds_has_no_budget() -> None:
    ours = learner(small_task(RANK), "fedbabu", body_epochs=1, finetune_epochs=3)
    ticking(ours, 1.0)
    ours.train(0, seconds=1.0)
    counted = ours.gradients
    ours.finish(0)
    assert ours.gradients - counted == 3 * 50
    assert ours.steps == [], "of a round's training alone"


def test_a_round_that_is_sat_out_has_no_steps() -> None:
    ours = learner(small_task(RANK))
    ours.train(0)
    assert ours.steps == ours.steps_asked != []
    ours.sit_out(1)
    assert ours.steps == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_keeps_to_a_budget(algorithm: str) -> None:
    """A phase takes its first step and no other where no time is left, and half of them in half of the time."""
    ours = learner(small_task(RANK), algorithm, body_epochs=4, head_epochs=4)
    ticking(ours, 1.0)
    ours.train(0)
    whole = ours.steps
    assert ours.steps_asked == whole
    ours.train(1, seconds=1e-9)
    assert ours.steps == [1] * len(whole)
    assert ours.steps_asked == whole
    seconds = ours.algorithm.gradients(ours.trainer.hyperparameters) * 2.0  # two of the four batches of an epoch
    ours.train(2, seconds=seconds)
    assert ours.steps[0] == pytest.approx(whole[0] / 2, abs=1)
    assert sum(ours.steps) == pytest.approx(sum(whole) / 2, abs=2)


@pytest.mark.parametrize("case", [*ALGORITHMS, "fedrod personal=hypernetwork", "fedadamw aggregate=full"])
def test_recorded_steps_repeat_the_bits(case: str) -> None:
    """Three peers at unequal speeds; others without a clock that take as many steps do all the same."""
    timed, again = peers(case, body_epochs=3, head_epochs=2), peers(case, body_epochs=3, head_epochs=2)
    for ours, seconds in zip(timed, (0.1, 1.0, 3.0), strict=True):
        ticking(ours, seconds)
    fewer = set()
    for number in range(3):
        for one, other in zip(timed, again, strict=True):
            loss = one.train(number, seconds=5.0)
            assert other.train(number, recorded=one.steps) == loss
            fewer.add(tuple(one.steps))
        sent, repeated = ([ours.release(number) or [] for ours in group] for group in (timed, again))
        assert [b"".join(bytes(part) for part in body) for body in sent] == [
            b"".join(bytes(part) for part in body) for body in repeated
        ]
        for group, bodies in ((timed, sent), (again, repeated)):
            for rank, ours in enumerate(group):
                if ours.shares:
                    ours.mix({other: bodies[other] for other in range(3) if other != rank}, ROW)
    assert all(torch.equal(a.trainer.model.data, b.trainer.model.data) for a, b in zip(timed, again, strict=True))
    assert len(fewer) > 1, "some had fewer than others"


class OwnLoops(Algorithm):
    """Loops of its own, one after the other."""

    shares: ClassVar[Any] = "body"
    draws = False

    def train(self, peer: Trainer) -> None:
        for part, epochs in ((peer.head, 4), (peer.body, 2)):
            with peer.training(part):
                for batch in peer.minibatches(part.phase, epochs):
                    peer.note(peer.gradient(part, batch), batch)
                    part.data.add_(part.grad, alpha=-0.1)


def test_loops_of_an_algorithms_own_keep_to_it() -> None:
    """It does not state `gradients`: in the first round the head takes the time, from then on each phase its part."""
    ours = build_learner(small_task(RANK), OwnLoops, rank=RANK, seed=SEED)
    ticking(ours, 1.0)
    batches = math.ceil(50 / 32)
    for number in range(2):
        ours.train(number, seconds=6.5)
    assert ours.steps == [4, 2]
    assert ours.steps_asked == [4 * batches, 2 * batches]


def test_fedadamw_follows_the_mean_change_no_faster_after_a_round_of_few_steps() -> None:
    """One step of twelve: the next round moves along the mean change as far as it would have after twelve."""

    def moved(steps: int) -> float:
        ours = learner(small_task(RANK), "fedadamw", body_epochs=3, weight_decay=0.0, local_steps=12)
        ours.train(0, recorded=[steps])
        ours.release(0)
        ours.mix({}, {RANK: 1.0})
        ours.trainer.extras["change"].fill_(1e3)  # what others did is far more than own gradients do
        before = ours.trainer.body.data.clone()
        ours.train(1)
        return float((ours.trainer.body.data - before).abs().mean())

    assert moved(1) == pytest.approx(moved(12), rel=0.01)
