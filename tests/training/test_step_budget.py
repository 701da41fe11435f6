"""The steps of a round under a budget: a share of each phase, and every algorithm keeps to it."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from dpeer.training import ALGORITHMS, Algorithm, Trainer, build_learner
from dpeer.training.step_budget import StepBudget
from tests.training.reference_training import Plain
from tests.training.small import small_task
from tests.training.test_fit import RANK, SEED, assert_close, learner


def run(budget: StepBudget, phases: Iterable[int], share: float = 1.0) -> list[int]:
    """A round of phases with so many steps each; the steps that are taken."""
    budget.begin()
    with budget.limiting(share):
        for steps in phases:
            more = budget.phase(steps)
            for _ in range(steps):
                if not more():
                    break
    return budget.taken


def test_without_a_limit_all_steps_are_taken_and_counted() -> None:
    budget = StepBudget()
    assert run(budget, [100, 50]) == [100, 50] == budget.asked


@pytest.mark.parametrize(("share", "taken"), [(0.0, [1, 1]), (0.2, [20, 10]), (0.29, [29, 14]), (1.0, [100, 50])])
def test_a_share_is_of_each_phase_and_one_step_is_taken_at_least(share: float, taken: list[int]) -> None:
    budget = StepBudget()
    assert run(budget, [100, 50], share) == taken
    assert budget.asked == [100, 50]


def test_a_phase_that_ends_by_itself_has_asked_for_no_more() -> None:
    budget = StepBudget()
    with budget.limiting(1.0):
        more = budget.phase(100)
        assert more() and more()  # noqa: PT018
    assert budget.taken == budget.asked == [2]


def test_a_round_that_was_interrupted_leaves_no_limit() -> None:
    budget = StepBudget()
    with pytest.raises(RuntimeError), budget.limiting(0.0):
        raise RuntimeError
    more = budget.phase(2)
    assert [more() for _ in range(9)] == [True] * 9
    assert budget.taken == []


# -- learners ----------------------------------------------------------------------------------------------------------


def test_the_round_ends_between_two_minibatches_and_has_the_bits_of_so_many_steps() -> None:
    task = small_task(RANK)
    theirs, ours = Plain(task, RANK, SEED), learner(task, "dfedmdc", body_epochs=3, head_epochs=6)
    ours.train(0, share=0.5)
    assert (ours.figures.steps, ours.figures.steps_asked) == ([12, 6], [24, 12])
    theirs.run("head", 12, 0.2, part="fc")
    theirs.run("body", 6, part="body")
    assert_close(ours.trainer, theirs)


def test_the_loss_is_that_of_the_steps_that_were_taken() -> None:
    whole, cut = (learner(small_task(RANK), body_epochs=epochs, body_lr=1e-12) for epochs in (1, 2))
    assert cut.train(0, share=0.5) == pytest.approx(whole.train(0), rel=1e-6)
    assert cut.figures.steps == whole.figures.steps


def test_local_steps_are_the_most_that_a_budget_allows() -> None:
    ours = learner(small_task(RANK), "dfedmdc", body_epochs=2, head_epochs=4, local_steps=5)
    ours.train(0)
    assert ours.figures.steps == ours.figures.steps_asked == [10, 5]
    ours.train(1, share=0.6)
    assert ours.figures.steps == [6, 3]


def test_what_is_trained_after_the_rounds_has_no_budget() -> None:
    ours = learner(small_task(RANK), "fedbabu", body_epochs=1, finish="all:3")
    ours.train(0, share=0.0)
    counted = ours.figures.gradients
    ours.fine_tune(0)
    assert ours.figures.gradients - counted == 3 * 50
    assert ours.figures.steps == [], "of a round's training alone"


def test_a_round_that_is_sat_out_has_no_steps() -> None:
    ours = learner(small_task(RANK))
    ours.train(0)
    assert ours.figures.steps == ours.figures.steps_asked != []
    ours.sit_out(1)
    assert ours.figures.steps == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_keeps_to_a_budget(algorithm: str) -> None:
    """Each phase takes its first step and no other of a share of nothing, and half of them of a half."""
    ours = learner(small_task(RANK), algorithm, body_epochs=4, head_epochs=4)
    ours.train(0)
    whole = ours.figures.steps
    assert ours.figures.steps_asked == whole
    ours.train(1, share=0.0)
    assert ours.figures.steps == [1] * len(whole)
    assert ours.figures.steps_asked == whole
    ours.train(2, share=0.5)
    assert ours.figures.steps == [max(1, steps // 2) for steps in whole]


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
    ours = build_learner(small_task(RANK), OwnLoops, rank=RANK, seed=SEED)
    batches = math.ceil(50 / 32)
    ours.train(0, share=0.5)
    assert ours.figures.steps == [4 * batches // 2, 2 * batches // 2]
    assert ours.figures.steps_asked == [4 * batches, 2 * batches]


def test_fedadamw_follows_the_mean_change_no_faster_after_a_round_of_few_steps() -> None:
    """One step of twelve: the next round moves along the mean change as far as it would have after twelve."""

    def moved(steps: int) -> float:
        ours = learner(small_task(RANK), "fedadamw", body_epochs=3, weight_decay=0.0, local_steps=12)
        ours.train(0, share=steps / 12)
        ours.release(0)
        ours.mix({}, {RANK: 1.0})
        ours.trainer.extras["change"].fill_(1e3)  # what others did is far more than own gradients do
        before = ours.trainer.body.data.clone()
        ours.train(1)
        return float((ours.trainer.body.data - before).abs().mean())

    assert moved(1) == pytest.approx(moved(12), rel=0.01)
