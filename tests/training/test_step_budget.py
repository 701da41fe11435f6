"""The steps of a round under a budget: a share of each phase, and every algorithm keeps to it."""

from collections.abc import Iterable

import pytest

from dpeer.training import ALGORITHMS
from dpeer.training.trainer import StepBudget
from tests.training.reference_training import Plain
from tests.training.small import mix, small_task
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


@pytest.mark.parametrize(("share", "taken"), [(0.0, [1, 1]), (0.2, [20, 10]), (0.29, [29, 14]), (1.0, [100, 50])])
def test_a_share_is_of_each_phase_and_one_step_is_taken_at_least(share: float, taken: list[int]) -> None:
    budget = StepBudget()
    assert run(budget, [100, 50], share) == taken
    assert budget.asked == [100, 50]


# -- learners ----------------------------------------------------------------------------------------------------------


def test_the_round_ends_between_two_minibatches_and_has_the_bits_of_so_many_steps() -> None:
    task = small_task(RANK)
    theirs, ours = Plain(task, RANK, SEED), learner(task, "dfedmdc", body_epochs=3, head_epochs=6)
    ours.train(0, share=0.5)
    assert (ours.figures.steps, ours.figures.steps_asked) == ([12, 6], [24, 12])
    theirs.run("head", 12, 0.2, part="fc")
    theirs.run("body", 6, part="body")
    assert_close(ours.trainer, theirs)


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


def test_fedadamw_follows_the_mean_change_no_faster_after_a_round_of_few_steps() -> None:
    """One step of twelve: the next round moves along the mean change as far as it would have after twelve."""

    def moved(steps: int) -> float:
        ours = learner(small_task(RANK), "fedadamw", body_epochs=3, weight_decay=0.0, local_steps=12)
        ours.train(0, share=steps / 12)
        ours.release(0)
        mix(ours, {}, {RANK: 1.0})
        ours.trainer.extras["change"].fill_(1e3)  # what others did is far more than own gradients do
        before = ours.trainer.body.data.clone()
        ours.train(1)
        return float((ours.trainer.body.data - before).abs().mean())

    assert moved(1) == pytest.approx(moved(12), rel=0.01)
